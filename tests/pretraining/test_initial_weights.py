"""Runs that start from the weights of a checkpoint."""

import functools
import json
import os
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.data.records import open_records
from albert_tf.errors import InputError
from albert_tf.interop.checkpoint import check_tokenizer
from albert_tf.interop.growing import grow
from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.objectives.masked_language_modeling import MaskedLanguageModeling
from albert_tf.pretraining.initial_weights import (
    resolve_initial_weights,
)
from albert_tf.pretraining.train import pretrain
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.training.evaluation import Evaluator
from albert_tf.training.logging import read_metrics

STORED = pathlib.Path(__file__).parents[1] / "interop" / "data" / "stored"
GOOGLE = STORED / "google_tf1"
RUN = STORED / "albert_tf_run"


@pytest.fixture(scope="module")
def config_from(pretrain_config):
    """Returns settings whose first update changes no weight.

    It has rate 0, the warm-up's; a run of a single step has no warm-up, and a
    rate that is lost in rounding.
    """

    def make(records, run, steps=1, **changes):
        first = {"model": None, "log_steps": 1, "eval_steps": 0}
        first["num_warmup_steps"] = min(1, steps - 1)
        first["learning_rate"] = 5e-3 if steps > 1 else 1e-30
        first |= {"save_checkpoints_steps": 1000}
        return pretrain_config(records, run, steps, **first | changes)

    return make


@pytest.fixture(scope="module")
def tokens(create_at, tmp_path_factory):
    """Returns `tokens(**settings)`: records with the stored vocabulary."""
    folder = tmp_path_factory.mktemp("stored")
    lines = ["the cat sat on the mat", "a dog sees the cat", "rats run"]
    documents = ["\n".join(lines * n) for n in range(5, 35)]
    (folder / "text.txt").write_text("\n\n".join(documents))

    def make(model=STORED / "spiece.model", **settings):
        data, _ = create_at(
            folder / f"data-{len(list(folder.iterdir()))}",
            input=folder / "text.txt",
            tokenizer=AlbertTokenizer.from_file(model, **settings),
            max_seq_length=16,
            max_predictions_per_seq=3,
            heldout_fraction=0.2,
            dupe_factor=1,
        )
        return data

    return make


@pytest.fixture(scope="module")
def stored_records(tokens):
    return tokens()


@pytest.mark.parametrize(
    ("name", "new"),
    [
        ("google_tf1", ""),
        ("huggingface_classifier", "mlm_head, sop_head"),  # a classifier
        ("keras_hub_backbone.tar.gz", "mlm_head, sop_head"),
        ("keras_hub_masked_lm.tar.gz", "sop_head"),
        ("albert_tf_unshared", "sop_head"),
        ("albert_tf_run", ""),
        ("albert_tf_run/checkpoints/step-00000002", ""),
    ],
)
def test_starts_from_any_checkpoint(tmp_path, name, new, config_from):
    config, initial = resolve_initial_weights(
        config_from("records", tmp_path / "new", init_from=STORED / name)
    )
    expected = open_checkpoint(STORED / name, head="classifier_head")
    assert config.model == expected.config
    model = AlbertPretrainer(config.model)
    fresh = {v.path: np.asarray(v) for v in model.weights}
    initial.assign(model)
    made = set()
    for variable in model.weights:
        value = np.asarray(variable)
        if variable.path in expected.arrays:
            np.testing.assert_array_equal(value, expected.arrays[variable.path])
        else:
            made.add(variable.path.split("/")[0])
            np.testing.assert_array_equal(value, fresh[variable.path])
    assert ", ".join(sorted(made)) == new
    assert (f"newly initialized: {new}" in initial.report) == bool(new)
    assert ("newly" in initial.report) == bool(new)
    assert ("(unused by this model): classifier_head" in initial.report) == (
        name == "huggingface_classifier"
    )


@pytest.mark.long
def test_run_starts_with_the_scores_of_the_checkpoint(
    pretrained, records, tmp_path, capfd, config_from, tiny_model
):
    settings = {"init_from": pretrained, "max_eval_steps": 0}
    result = pretrain(config_from(records, tmp_path / "new", **settings))
    # Scores to the last bit, for the first update has rate 0.
    expected = read_metrics(pretrained)[-1]["values"]
    assert {name: result.evaluation[name] for name in expected} == expected
    said = (tmp_path / "new" / "init.txt").read_text()
    assert f"{pretrained}/checkpoints/step-00000012 (training run" in said
    assert "components: encoder, pooler, mlm_head, sop_head" in said
    assert "tokenizer: 600 pieces" in said
    assert "(optimizer state)" in said
    assert said in capfd.readouterr().err
    record = json.loads((tmp_path / "new" / "run.json").read_text())
    assert record["settings"]["init_from"] == str(pretrained)
    assert record["settings"]["model"] == tiny_model.to_dict()


@pytest.mark.long
def test_command_grows_and_trains(
    pretrained, records, run_albert, tmp_path, tiny_model
):
    changes = "num_hidden_layers=2,num_hidden_groups=2,hidden_dropout_prob=0,"
    result = run_albert(
        *("pretrain", f"--input={records}", "--output=new"),
        *(f"--init_from={pretrained}", "--seed=5"),
        f"--config_overrides={changes}attention_probs_dropout_prob=0",
        *("--num_train_steps=3", "--num_warmup_steps=1", "--log_steps=1"),
        *("--train_batch_size=16", "--max_eval_steps=1"),
        cwd=tmp_path,
        env={**os.environ, "TF_NUM_INTRAOP_THREADS": "1"},
    )
    assert result.returncode == 0, result.stderr
    new = tmp_path / "new"
    config = tiny_model.replace(
        num_hidden_layers=2,
        num_hidden_groups=2,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        trained_positions=32,
    )
    assert AlbertConfig.from_json(new / "config.json") == config
    said = (new / "init.txt").read_text()
    assert "grown: num_hidden_layers 1 -> 2, num_hidden_groups 1 -> 2" in said
    assert f"--init_from={pretrained}" in (new / "flags.txt").read_text()
    # The loss of step 0 is that of the grown model on the first batch.
    model = AlbertPretrainer.from_checkpoint(
        grow(open_checkpoint(pretrained), config)
    )
    batch = open_records(records).dataset(16, seed=5).take(1)
    strategy = tf.distribute.get_strategy()
    expected = Evaluator(strategy, model, MaskedLanguageModeling(), 16)(batch)
    lines = (new / "metrics.jsonl").read_text().splitlines()
    first = json.loads(lines[0])
    assert (first["step"], first["split"]) == (1, "train")
    for name in ("loss", "mlm_loss", "sop_loss"):
        assert first["values"][name] == pytest.approx(expected[name], rel=1e-5)


@pytest.mark.slow
def test_resuming_does_not_need_the_initial_checkpoint(
    stored_records, tmp_path, config_from
):
    copy = shutil.copytree(GOOGLE, tmp_path / "copy")
    start = functools.partial(
        config_from, stored_records, tmp_path / "run", max_eval_steps=1
    )
    config = start(init_from=copy, config_overrides={"sharing": "ffn"})
    assert pretrain(config).steps == 1
    before = (tmp_path / "run" / "init.txt").read_text()
    shutil.rmtree(copy)
    resolved, initial = resolve_initial_weights(config)
    assert initial is None
    assert resolved.model.sharing == "ffn"
    assert pretrain(config).steps == 1
    assert (tmp_path / "run" / "init.txt").read_text() == before
    # Another start is another run.
    for other in (None, str(RUN)):
        with pytest.raises(InputError, match=f'init_from="{copy}", not'):
            pretrain(start(init_from=other, model=resolved.model))
    # Without a checkpoint of its own, it would have to start again.
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    with pytest.raises(InputError, match="copy"):
        pretrain(config)
    # From the same weights, that is.
    model = AlbertPretrainer.from_pretrained(GOOGLE)
    bias = model.encoder.pooler.bias
    bias.assign(bias + 1.0)
    model.save_pretrained(copy)
    with pytest.raises(InputError, match="copy: has changed since the run in"):
        pretrain(config)
    assert (tmp_path / "run" / "init.txt").read_text() == before


def test_different_vocabularies_are_an_error(
    stored_records, records, tokens, tmp_path, config_from
):
    cased = tokens(do_lower_case=False)
    other = _with_two_pieces_exchanged(STORED / "spiece.model", tmp_path)
    for data, init_from, message in (
        (records, GOOGLE, "not that of the records: 40 .* records' 600; make"),
        (cased, GOOGLE, "case=True, that of the records do_lower_case=False"),
        (stored_records, STORED / "huggingface", "case=False, that of the"),
        (tokens(other), GOOGLE, "piece 14 is 'the', the records' 's'"),
    ):
        with pytest.raises(InputError, match=message):
            pretrain(config_from(data, tmp_path / "run", init_from=init_from))
    assert not (tmp_path / "run").exists()
    # What KerasHub's tokenizers do says nothing about the weights.
    config = config_from(
        records, tmp_path, init_from=STORED / "keras_hub_classifier"
    )
    _, initial = resolve_initial_weights(config)
    for tokenizer in (open_records(cased).tokenizer, None):
        check_tokenizer("", initial.checkpoint, tokenizer)


def _with_two_pieces_exchanged(model, folder):
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto.FromString(model.read_bytes())
    pieces = proto.pieces
    pieces[14].piece, pieces[15].piece = pieces[15].piece, pieces[14].piece
    path = folder / "exchanged.model"
    path.write_bytes(proto.SerializeToString())
    return path
