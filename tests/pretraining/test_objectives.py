"""Complete runs of objectives other than masked language modeling."""

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrained import assign_weights
from albert_tf.objectives.registry import make_objective
from albert_tf.pretraining.evaluate import evaluate_pretraining
from albert_tf.pretraining.train import pretrain
from albert_tf.training.checkpoint_files import read_checkpoint
from albert_tf.training.logging import read_metrics

RTD = {
    "objective": "rtd",
    "objective_settings": {"generator_hidden_size": 16},
    "save_checkpoints_steps": 3,
    "log_steps": 3,
    "eval_steps": 6,
    "num_warmup_steps": 1,
    "best_metric": "rtd_loss",
}
# Slices are summed in another order, which costs float32 an ulp of a gradient.
# AdamW divides small gradients by themselves, which can double that.
TOLERANCE = 2e-6


def values_at(folder, step):
    return read_checkpoint(folder / "checkpoints" / f"step-{step:08d}")


@pytest.fixture(scope="module")
def trained(records, tmp_path_factory, pretrain_config):
    """A run of 6 steps on two slices of each batch."""
    folder = tmp_path_factory.mktemp("rtd") / "run"
    config = pretrain_config(
        records, folder, 6, **RTD, gradient_accumulation_steps=2
    )
    return folder, pretrain(config)


@pytest.mark.long
@pytest.mark.usefixtures("without_graphs")
def test_a_run_has_all_scores_beside_guessing(trained, records):
    folder, result = trained
    scores = evaluate_pretraining(folder, str(records))
    names = {"generator_loss", "rtd_accuracy", "rtd_chance", "rtd_recall"}
    assert names < set(scores)
    assert 0.5 < scores["rtd_chance"] < 0.95
    assert scores["mlm_unigram_accuracy"] > 0
    parts = (scores[f"{x}_loss"] for x in ("generator", "sop"))
    assert scores["loss"] == pytest.approx(
        sum(parts) + 50 * scores["rtd_loss"], rel=1e-5
    )
    losses = [
        line["values"]["generator_loss"]
        for line in read_metrics(folder)
        if line["split"] == "train"
    ]
    assert losses[-1] < losses[0]
    assert (folder / "checkpoints" / "best.json").exists()
    assert result.evaluation["rtd_loss"] > 0


@pytest.mark.long
def test_a_killed_run_resumes_bit_for_bit(
    trained, records, rewound, pretrain_config
):
    folder = rewound(trained[0], 5)
    pretrain(
        pretrain_config(
            records, folder, 6, **RTD, gradient_accumulation_steps=2
        )
    )
    expected, found = values_at(trained[0], 6), values_at(folder, 6)
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(value, found[name], err_msg=name)


@pytest.mark.long
def test_replicas_and_micro_batches_are_the_same_slices(
    trained, records, tmp_path, pretrain_config
):
    """The draws of a slice depend on its number, not on what cuts it."""
    folder = tmp_path / "run"
    pretrain(
        pretrain_config(records, folder, 6, **RTD, distribution="mirrored")
    )
    expected, found = values_at(trained[0], 6), values_at(folder, 6)
    for name, value in expected.items():
        np.testing.assert_allclose(
            value, found[name], rtol=0, atol=TOLERANCE, err_msg=name
        )


@pytest.mark.long
@pytest.mark.usefixtures("without_graphs")
def test_another_run_starts_from_all_weights(
    trained, records, tmp_path, pretrain_config
):
    folder = tmp_path / "next"
    settings = {
        **RTD,
        "learning_rate": 1e-9,
        "num_warmup_steps": 0,
        "best_metric": "",
    }
    pretrain(
        pretrain_config(
            records, folder, 1, **settings, init_from=str(trained[0])
        )
    )
    expected, found = values_at(trained[0], 6), values_at(folder, 1)
    # Untrained positions become copies of the trained ones.
    names = [
        name
        for name in expected
        if name.startswith("model/") and "position_emb" not in name
    ]
    assert any("generator/" in name for name in names)
    for name in names:
        np.testing.assert_allclose(
            found[name], expected[name], atol=1e-7, err_msg=name
        )
    assert "newly initialized" not in (folder / "init.txt").read_text()


@pytest.mark.long
def test_a_generator_of_another_size_is_an_error(
    trained, records, tmp_path, pretrain_config
):
    settings = {**RTD, "objective_settings": {}, "num_warmup_steps": 0}
    config = pretrain_config(
        records, tmp_path / "run", 1, **settings, init_from=str(trained[0])
    )
    with pytest.raises(InputError, match=r"generator/.* not .*settings that"):
        pretrain(config)


@pytest.mark.long
@pytest.mark.usefixtures("without_graphs")
def test_a_saved_model_has_the_scores_of_its_run(trained, records, tmp_path):
    """Its settings are saved, too: the generator has another size."""
    folder = trained[0]
    checkpoint = open_checkpoint(folder)
    objective = make_objective("rtd", RTD["objective_settings"])
    model = objective.create_model(checkpoint.config)
    assign_weights(model, checkpoint, new_head=False)
    model.save_pretrained(tmp_path / "saved")
    found = evaluate_pretraining(tmp_path / "saved", str(records))
    expected = evaluate_pretraining(folder, str(records))
    assert expected.pop("step") == 6
    assert found == pytest.approx(expected, rel=1e-5, nan_ok=True)


@pytest.mark.long
@pytest.mark.usefixtures("without_graphs")
def test_masked_language_modeling_goes_on_from_its_encoder(
    trained, records, tmp_path, pretrain_config
):
    folder = tmp_path / "mlm"
    settings = {"learning_rate": 1e-9, "num_warmup_steps": 0}
    pretrain(
        pretrain_config(
            records, folder, 1, **settings, init_from=str(trained[0])
        )
    )
    report = (folder / "init.txt").read_text()
    assert "newly initialized: mlm_head" in report
    assert "skipped (unused by this model): generator" in report
    name = "model/encoder/embeddings/word_embeddings"
    np.testing.assert_allclose(
        values_at(folder, 1)[name], values_at(trained[0], 6)[name], atol=1e-7
    )


@pytest.mark.long
def test_its_encoder_opens_like_any_other(trained):
    checkpoint = open_checkpoint(trained[0])
    assert {"encoder", "pooler", "sop_head"} <= checkpoint.components
    assert "heads of the objective: generator" in checkpoint.report()
    encoder = AlbertEncoder.from_pretrained(trained[0])
    assert encoder.tokenizer is not None
    np.testing.assert_array_equal(
        encoder.weights[0],
        values_at(trained[0], 6)[f"model/{encoder.weights[0].path}"],
    )


def test_metrics_are_those_of_the_objective(records, tmp_path, pretrain_config):
    config = pretrain_config(
        records, tmp_path / "run", **{**RTD, "best_metric": "mlm_loss"}
    )
    with pytest.raises(InputError, match="best_metric='mlm_loss'.*rtd_loss"):
        pretrain(config)
    assert not (tmp_path / "run").exists()
