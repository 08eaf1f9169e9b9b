"""Pretraining runs with phases."""

import dataclasses
import functools
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.data.records import open_records
from albert_tf.errors import InputError
from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.objectives.masked_language_modeling import MaskedLanguageModeling
from albert_tf.pretraining.config import PretrainConfig
from albert_tf.pretraining.evaluate import evaluate_pretraining
from albert_tf.pretraining.phase_config import (
    Phase,
    ends_of_phases,
    parse_phases,
)
from albert_tf.pretraining.phase_records import (
    open_phases,
    with_example_settings,
)
from albert_tf.pretraining.train import pretrain
from albert_tf.training.checkpoint_files import checkpoint_path, read_checkpoint
from albert_tf.training.evaluation import Evaluator
from albert_tf.training.logging import read_metrics


@pytest.fixture(scope="module")
def make_texts(corpus, created):
    """Returns `make(**settings)`: a folder with a few text records."""
    short = {"max_seq_length": 32, "max_predictions_per_seq": 8}
    few = {"input": f"{corpus}/a.txt", "heldout_fraction": 0.2, "num_shards": 2}

    def make(**settings):
        return created(masking="dynamic", **few | short | settings)[0]

    return make


@pytest.fixture(scope="module")
def short(make_texts):
    return make_texts()


@pytest.fixture(scope="module")
def long(make_texts):
    return make_texts(max_seq_length=64)


@pytest.fixture(scope="module")
def config(pretrain_config, small_model, short, long, tmp_path_factory):
    """Returns `make(name="run", **changes)`: two phases in six steps."""
    folder = tmp_path_factory.mktemp("runs")

    def make(name="run", **changes):
        phases = [
            {"steps": 3, "sentence_order": "none", "masked_lm_prob": 0.2},
            {
                "input": str(long),
                "train_batch_size": 8,
                "gradient_accumulation_steps": 2,
                "max_predictions_per_seq": 9,
                "ngram": 1,
            },
        ]
        settings = {"phases": phases, "num_warmup_steps": 1, "eval_steps": 0}
        settings |= {"save_checkpoints_steps": 2, "max_eval_steps": 1}
        settings |= {"model": small_model}
        return pretrain_config(short, folder / name, 6, **settings | changes)

    return make


@pytest.fixture(scope="module")
def whole(config, eagerly):
    with eagerly():
        pretrain(config("whole"))
    return config("whole").output


def read_weights(run, step):
    return read_checkpoint(checkpoint_path(str(run / "checkpoints"), step))


def test_a_run_goes_through_phases(whole, long, eagerly):
    lines = [x for x in read_metrics(whole) if x["split"] == "train"]
    found = [(line["step"], line["values"]["phase"]) for line in lines]
    assert found == [(2, 1), (3, 1), (4, 2), (6, 2)]
    assert ["sop_loss" in line["values"] for line in lines] == [
        *(False, False, True, True)
    ]
    settings = json.loads((whole / "run.json").read_text())["settings"]
    assert [phase["steps"] for phase in settings["phases"]] == [3, 3]
    assert settings["phases"][0]["masked_lm_prob"] == 0.2
    assert len({phase["records"] for phase in settings["phases"]}) == 2
    assert str(long) not in (whole / "run.json").read_text()
    # It is scored on what it ends with.
    (evaluation,) = (x for x in read_metrics(whole) if x["split"] == "eval")
    with eagerly():
        scores = evaluate_pretraining(whole, long, max_steps=1)
    assert evaluation["values"]["loss"] == pytest.approx(scores["loss"])


def test_positions_are_trained_phase_by_phase(
    whole, long, short, caplog, eagerly
):
    assert AlbertConfig.from_json(whole / "config.json").trained_positions is (
        None  # all 64
    )
    for step, positions, records in ((2, 32, short), (4, None, long)):
        path = checkpoint_path(str(whole / "checkpoints"), step)
        assert open_checkpoint(path).config.trained_positions == positions
        with eagerly():
            evaluate_pretraining(whole, records, checkpoint=step, max_steps=1)
        assert "trained_positions" not in caplog.text
    with eagerly():
        scores = evaluate_pretraining(whole, long, checkpoint=2, max_steps=1)
        assert "inputs may have 64 tokens, but the model was" in caplog.text
        # As if it was opened: with copies of the trained positions.
        path = checkpoint_path(str(whole / "checkpoints"), 2)
        model = AlbertPretrainer.from_pretrained(path)
        evaluator = Evaluator(
            tf.distribute.get_strategy(), model, MaskedLanguageModeling(), 64
        )
        records = open_records(long, "heldout")
        dataset = records.dataset(64, training=False)
        opened = evaluator(dataset, 1)
    assert scores["loss"] == pytest.approx(opened["loss"], rel=1e-5)


def test_untrained_positions_start_as_copies(config, long, tmp_path, eagerly):
    run = config(
        output=tmp_path / "run",
        phases=[{"steps": 2}, {"input": str(long), "train_batch_size": 64}],
        num_train_steps=3,
        ema_decay=0.9,
        # The update of the second phase changes next to nothing.
        schedule="warmup_stable_decay",
        decay_steps=1,
        learning_rate=1e-30,
        num_warmup_steps=0,
        weight_decay=0.0,
        eval_steps=2,
    )
    with eagerly():
        pretrain(run)
        scores = evaluate_pretraining(
            run.output, long, checkpoint=2, max_steps=1
        )
    logged, _ = (x for x in read_metrics(run.output) if x["split"] == "eval")
    assert logged["values"]["loss"] == pytest.approx(scores["loss"], rel=1e-6)
    before, after = (read_weights(run.output, step) for step in (2, 3))
    table = "encoder/embeddings/position_embeddings"
    copies = np.arange(64) % 32
    for name in (f"model/{table}", f"average/{table}"):
        assert not np.array_equal(before[name], before[name][copies])
        np.testing.assert_array_equal(after[name], before[name][copies])
    # One step further, the moments have decayed, and a gradient is added.
    for moment, decay in (("adam_m", 0.9), ("adam_v", 0.999)):
        name = f"optimizer/{table}/{moment}"
        assert np.all(before[name][32:] == 0.0)
        added = after[name] - decay * before[name][copies]
        largest = np.abs(added).max(axis=1)
        assert largest[32:].max() > 0
        assert np.abs(after[name][32:]).min(axis=0).max() > 0
    # Opened, both are models of 64 positions.
    path = checkpoint_path(str(run.output / "checkpoints"), 2)
    rows = open_checkpoint(path).arrays[table]
    np.testing.assert_array_equal(rows, before[f"average/{table}"][copies])
    assert "positions: 32 of 64 are trained" in open_checkpoint(path).report()
    rows = open_checkpoint(run.output).arrays[table]
    np.testing.assert_array_equal(rows, after[f"average/{table}"])


@pytest.mark.long
def test_a_run_resumed_at_the_boundary_ends_bit_equal(
    whole, config, rewound, capfd, eagerly
):
    """tests/test_kill.py and tests/training/test_phases.py resume elsewhere."""
    run = config("", output=rewound(whole, 3))
    with eagerly():
        pretrain(run)
    np.testing.assert_equal(read_weights(run.output, 6), read_weights(whole, 6))
    said = capfd.readouterr().err
    assert "phase 1 of 2" not in said
    assert "phase 2 of 2, steps 4 to 6: 8 examples of 64 tokens, 1 la" in said
    assert "positions: 32 of 64 are trained; the rows from" in said
    assert "yer, max_predictions_per_seq=9, ngram=1, from " in said
    assert "records 1" in said
    assert "; sentence_order=none; masked_lm_prob=0.2\n" in said
    assert "in 2 micro-batches, steps 4 to 6\n" in said


def test_phases_of_a_run_may_not_change(whole, config):
    phases = config().phases
    for changed in (
        [{"steps": 2}, *phases[1:]],
        [phases[0], dataclasses.replace(phases[1], ngram=2)],
        [phases[0], dataclasses.replace(phases[1], input=None)],
        [],
    ):
        with pytest.raises(InputError, match="holds a run with "):
            pretrain(config("whole", phases=changed))


@pytest.fixture(scope="module")
def opened(config, long):
    """Three phases; the first two share their records."""
    other = {"steps": 1, "max_predictions_per_seq": 9, "ngram": 1}
    phases = [config().phases[0], other, {"input": str(long)}]
    return open_phases(config(phases=phases))


def test_phases_that_train_on_what_is_scored(config, make_texts, short, caplog):
    open_phases(config())
    assert not caplog.text
    other = make_texts(seed=7)
    open_phases(config(phases=[{"steps": 3}, {"input": str(other)}]))
    (warning,) = caplog.messages
    assert f"{short}: made from text of {other} with seed=12345 (not" in warning


@pytest.mark.long
def test_phases_continue_in_shared_records(opened):
    phases = opened
    assert [phase.first_example for phase in phases] == [0, 48, 0]
    read = functools.partial(phases[1].records.dataset, 16, seed=3, model=None)
    whole = list(read().take(4).as_numpy_iterator())
    later = next(read(first_example=48).as_numpy_iterator())
    np.testing.assert_equal(later, whole[3])


@pytest.mark.long
def test_examples_are_those_of_the_phase(opened):
    alone, pairs, _ = opened
    batch = next(iter(alone.records.dataset(256, seed=1)))
    assert not np.any(batch["sentence_order_labels"])
    assert not np.any(batch["input_type_ids"])
    rate = _masking_rate(batch)
    batch = next(iter(pairs.records.dataset(256, seed=1)))
    # A chunk of one sentence has no label.
    labelled = np.asarray(batch["sentence_order_weights"]) > 0
    labels = np.asarray(batch["sentence_order_labels"])[labelled]
    assert 0.2 < np.mean(labels) < 0.8
    assert batch["masked_lm_ids"].shape == [256, 9]
    assert 0.17 < rate < 0.21
    assert 0.12 < _masking_rate(batch) < 0.15


@pytest.fixture
def other_order(config):
    """A run whose last phase trains another order than its held-out split."""
    changes = {"sentence_order": "nsp", "max_predictions_per_seq": 5}
    run = config("scored", phases=[{"steps": 1}, changes])
    return dataclasses.replace(run, num_train_steps=2)


def test_order_that_is_not_trained_is_no_best_metric(other_order):
    with pytest.raises(InputError, match="has loss, mlm_loss, mlm_accuracy$"):
        pretrain(dataclasses.replace(other_order, best_metric="nsp_loss"))


@pytest.mark.long
def test_evaluation_has_the_examples_of_create_data(
    other_order, short, eagerly
):
    run = other_order
    with eagerly():
        result = pretrain(run)
        scores = evaluate_pretraining(run.output, short, max_steps=1)
    assert "nsp_loss" in result.metrics
    names = {"loss", "mlm_loss", "mlm_accuracy", "mlm_unigram_accuracy"}
    assert result.evaluation.keys() == names
    assert scores["mlm_loss"] == pytest.approx(result.evaluation["mlm_loss"])


@pytest.mark.long
def test_packed_rows_have_examples_of_the_phase(make_texts):
    packed = open_records(make_texts(pack=True, max_sequences_per_row=3))
    changes = {"sentence_order": "none", "max_predictions_per_seq": 4}
    changed = with_example_settings(packed, changes)
    batch = next(iter(changed.dataset(64, seed=1)))
    assert batch["masked_lm_ids"].shape == [64, 4]
    assert not np.any(batch["sentence_order_labels"])
    assert np.max(batch["sequence_ids"]) > 1
    before = next(iter(packed.dataset(64, seed=1)))
    assert np.any(before["sentence_order_labels"])
    # The same text, with a [SEP] fewer in each sequence.
    tokens, others = (np.sum(x["input_mask"]) for x in (batch, before))
    assert np.any(before["sentence_order_weights"])
    assert others - tokens == np.sum(before["sentence_order_weights"])


def _masking_rate(batch):
    weights, mask = batch["masked_lm_weights"], batch["input_mask"]
    return np.sum(weights) / np.sum(mask)


def test_settings_that_do_not_fit_the_records_are_errors(
    config, short, tmp_path, edited
):
    masked = f"{short}/heldout-*"
    single = shutil.copytree(short, tmp_path / "single")
    with edited(single / "manifest.json") as manifest:
        manifest["settings"]["sentence_order"] = "none"
    for phase, message in (
        (
            {"input": masked, "ngram": 1},
            "ngram=1: the records .* are already masked",
        ),
        ({"input": str(single), "sentence_order": "sop"}, "span documents"),
        ({"max_predictions_per_seq": 32}, "must be below the 32 tokens"),
        ({"masked_lm_prob": 0.5}, "of 32 tokens is 16 predictions"),
        ({"input": str(tmp_path / "absent")}, "absent"),
    ):
        with pytest.raises(InputError, match=message):
            pretrain(config("bad", phases=[{"steps": 1}, phase]))
        assert not config("bad").output.exists()


@pytest.mark.parametrize(
    ("phases", "message"),
    [
        ([{"step": 1}], "unknown key 'step'; did you mean 'steps'"),
        ([{"bogus": 5}], "unknown key 'bogus'; expected steps, share, input"),
        (
            [{}, {"max_seq_length": 64}],
            r"phases\[1\]: max_seq_length is set by",
        ),
        ([{"steps": 0}], r"phases\[0\]: steps=0 must be at least 1"),
        ([{"steps": "3"}], r"phases\[0\]: steps='3' must be an integer"),
        ([{"steps": 3, "share": 0.1}], "share=0.1 must be left out"),
        ([5], r"phases\[0\]=5 must be an object"),
        ([{"steps": 6}, {"steps": 5}], "add up to 11, but num_train_steps=10"),
        ([{"share": 0.5}, {"share": 0.4}], "add up to 9, but"),
        ([{"steps": 10}, {}], r"phases\[1\] has none of the 10 steps"),
        ([{"share": 0.01}, {}], r"phases\[0\] has none of the 10 steps"),
        ([{}, {"steps": 1}, {}], r"phases\[0\] and phases\[2\] have nei"),
        ([{"sentence_order": "nps"}], "must be one of sop, nsp, none"),
        ("[]", "must be a list"),
    ],
)
def test_invalid_phases_are_errors(phases, message):
    settings = {"input": "data", "output": "run", "num_warmup_steps": 0}
    with pytest.raises(InputError, match=message):
        PretrainConfig(num_train_steps=10, phases=phases, **settings)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"early_stopping_patience": 2}, "patience=2 must be 0 with phases"),
        ({"scale_lr_with_batch": True}, "with_batch=True must be false if"),
    ],
)
def test_settings_that_phases_exclude(config, changes, message):
    with pytest.raises(InputError, match=message):
        config(eval_steps=2, best_metric="loss", **changes)


def test_lengths_are_steps_or_shares():
    def ends(*lengths, steps=10):
        keys = {int: "steps", float: "share"}
        phases = [Phase(**{keys[type(x)]: x} if x else {}) for x in lengths]
        return ends_of_phases(phases, steps)

    assert ends(None) == [10]
    assert ends(3, None) == [3, 10]
    assert ends(None, 0.1) == [9, 10]
    assert ends(0.9, 0.1, steps=15) == [14, 15]
    assert ends(0.7, 0.2, 0.1, steps=125_000) == [87_500, 112_500, 125_000]
    assert ends(2, 0.5, None, 1) == [2, 7, 9, 10]


def test_flag_is_a_list_or_a_file(tmp_path):
    text = '[{"share": 0.9}, {"input": ["a", "b"], "ngram": 1}]'
    expected = [Phase(share=0.9), Phase(input=["a", "b"], ngram=1)]
    assert parse_phases(text) == expected
    file = tmp_path / "phases.json"
    file.write_text(text)
    assert parse_phases(str(file)) == expected
    file.write_text('{"phases": []}')
    with pytest.raises(InputError, match=r"phases\.json: expected a JSON list"):
        parse_phases(str(file))
    for text, message in (
        ("[}", "--phases is not JSON"),
        ("{}", "--phases: expected a JSON list"),
        (" ", "--phases must not be empty"),
    ):
        with pytest.raises(InputError, match=message):
            parse_phases(text)
