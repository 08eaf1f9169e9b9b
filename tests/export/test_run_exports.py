"""Exports of a pretraining run of mixed precision, with averaged weights."""

import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.create_data import create_pretraining_data
from albert_tf.data.data_config import PretrainingDataConfig
from albert_tf.data.manifest import read_manifest
from albert_tf.exporting.config import ExportConfig
from albert_tf.exporting.export import export
from albert_tf.exporting.origin import origin_of_checkpoint
from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.training.checkpoint_files import read_checkpoint
from albert_tf.training.logging import read_metrics

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def records(tokenizer, tmp_path_factory):
    """Pretraining records of a small text."""
    folder = tmp_path_factory.mktemp("records")
    text = folder / "text.txt"
    document = "I have seen movie {}, really.\nThe plot was bad.\n" * 9
    text.write_text(
        "\n".join(document.replace("{}", str(n)) for n in range(40))
    )
    create_pretraining_data(
        PretrainingDataConfig(
            input=[str(text)],
            output=folder / "data",
            tokenizer=tokenizer,
            max_seq_length=32,
            max_predictions_per_seq=5,
            heldout_fraction=0.3,
            masking="static",
            dupe_factor=1,
        )
    )
    return folder / "data"


@pytest.fixture(scope="module")
def run(records, run_albert, tmp_path_factory):
    run = tmp_path_factory.mktemp("a-private-place") / "run"
    done = run_albert(
        "pretrain",
        f"--input={records}",
        f"--output={run}",
        "--config=albert_mini",
        "--config_overrides=vocab_size=90,embedding_size=8,hidden_size=16,"
        "num_hidden_layers=1,num_attention_heads=2,intermediate_size=32,"
        "max_position_embeddings=32",
        "--precision=mixed_bfloat16",
        "--ema_decay=0.9",
        "--num_train_steps=4",
        "--train_batch_size=8",
        "--num_warmup_steps=1",
        "--learning_rate=0.01",
        "--save_checkpoints_steps=2",
        "--eval_steps=2",
        "--max_eval_steps=1",
    )
    assert done.returncode == 0, done.stderr
    assert "mixed_bfloat16 on 1 x CPU" in done.stderr
    return run


@pytest.fixture(scope="module")
def exported(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exports") / "e"
    export(ExportConfig(model=run, output=folder))
    return folder


def weights(folder):
    loaded = tf.saved_model.load(folder)
    return {
        variable.name.removesuffix(":0"): variable.numpy()
        for part in (loaded, loaded.mlm, loaded.sop)
        for variable in part.variables
    }


def test_averages_of_the_latest_checkpoint(run, exported, tmp_path):
    found = weights(exported)
    values = read_checkpoint(run / "checkpoints" / "step-00000004")
    averages = {
        name.removeprefix("average/"): value
        for name, value in values.items()
        if name.startswith("average/")
    }
    assert found.keys() == averages.keys()
    for name, value in found.items():
        assert value.dtype == np.float32
        np.testing.assert_array_equal(value, averages[name], name)
    # They differ from the weights, and from those of the previous checkpoint.
    name = "encoder/embeddings/word_embeddings"
    name = next(x for x in found if x.startswith(name))
    assert np.any(values[f"model/{name}"] != found[name])
    export(
        ExportConfig(
            model=run / "checkpoints" / "step-00000002", output=tmp_path / "f"
        )
    )
    assert np.any(weights(tmp_path / "f")[name] != found[name])
    manifest = json.loads((exported / "export.json").read_text())
    assert manifest["origin"]["source"].endswith("step 4")


@pytest.mark.parametrize("step", [2, 4])
def test_origin(run, records, step):
    source = run / "checkpoints" / f"step-{step:08d}" if step == 2 else run
    origin = origin_of_checkpoint(open_checkpoint(source), source)
    assert origin.name == "run"
    assert origin.source == f"training run of albert_tf, step {step}"
    assert origin.data_manifest == read_manifest(records)
    flags = origin.training_flags
    assert flags["ema_decay"] == "0.9"
    assert flags["precision"] == "mixed_bfloat16"
    assert flags["input"] == records.name
    assert flags["output"] == "run"
    assert not {"alsologtostderr", "verbosity", "debug"} & flags.keys()
    (line,) = (
        line
        for line in read_metrics(run)
        if line["split"] == "eval" and line["step"] == step
    )
    assert origin.scores == line["values"]
    assert origin.scored_on == f"held-out documents, by the run at step {step}"
