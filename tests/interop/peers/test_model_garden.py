"""TensorFlow Model Garden's ALBERT and ours, and what its converter loses.

Model Garden needs Keras 2, so it runs in an environment of its own; see
requirements-model-garden.txt.
"""

import json
import os
import pathlib
import re
import subprocess

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from albert_tf.errors import InputError
from albert_tf.interop.convert import convert
from albert_tf.interop.convert_config import ConvertConfig
from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import VocabularyConfig, train_vocabulary

pytestmark = pytest.mark.model_garden

TOLERANCE = 2e-5
SCRIPT = pathlib.Path(__file__).parent / "scripts" / "model_garden.py"
PYTHON = pathlib.Path(
    os.environ.get(
        "ALBERT_TF_MODEL_GARDEN_PYTHON",
        pathlib.Path(__file__).parents[3] / ".venv-model-garden/bin/python",
    )
)
# It knows one group, and only the original's GELU.
WRITTEN = ("base", "relu", "equal_sizes", "dropout", "attention_dropout")
CONVERTED = ("base", "relu", "equal_sizes", "two_groups")
POSITIONS = np.array([[1, 5, 3], [2, 4, 1], [1, 3, 2], [4, 1, 0]], "int32")


@pytest.fixture(scope="module")
def all_configs(configs):
    base = configs["base"]
    return {
        **configs,
        "dropout": base.replace(
            hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.2
        ),
        "attention_dropout": base.replace(attention_probs_dropout_prob=0.1),
        "two_groups": base.replace(num_hidden_layers=4, num_hidden_groups=2),
    }


@pytest.fixture(scope="module")
def batch(configs, random_batch):
    inputs = random_batch(configs["base"])
    return {**inputs, "masked_lm_positions": POSITIONS}


@pytest.fixture(scope="module")
def run_model_garden(tmp_path_factory, batch):
    """Returns `run(command, jobs)`, which runs the script once for all jobs."""
    if not PYTHON.exists():
        pytest.skip("Model Garden is absent: run `make test-model-garden`")

    def run(command, jobs):
        folder = tmp_path_factory.mktemp(f"model-garden-{command}")
        np.savez(folder / "inputs.npz", **batch)
        for job in jobs:
            job["inputs"] = str(folder / "inputs.npz")
        (folder / "jobs.json").write_text(json.dumps(jobs))
        result = subprocess.run(
            [PYTHON, SCRIPT, command, folder / "jobs.json"],
            env={**os.environ, "TF_USE_LEGACY_KERAS": "1"},
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stderr[-4000:]

    return run


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    """A vocabulary of 60 pieces."""
    words = "a the good bad film plot was really seen not".split()
    rng = np.random.default_rng(0)
    lines = [f"{' '.join(rng.choice(words, 8))} {n}" for n in range(200)]
    prefix = tmp_path_factory.mktemp("vocabulary") / "spiece"
    return train_vocabulary(lines, prefix, VocabularyConfig(vocab_size=60))


@pytest.fixture(scope="module")
def theirs(run_model_garden, all_configs, vocabulary, tmp_path_factory):
    """Name of a config -> folder of what Model Garden wrote."""
    root = tmp_path_factory.mktemp("theirs")
    run_model_garden(
        "write",
        [
            {
                "config": google_keys(all_configs[name]),
                "output": str(root / name),
                "vocabulary": str(vocabulary),
                "train": name == "base",
            }
            for name in WRITTEN
        ],
    )
    return {name: root / name for name in WRITTEN}


@pytest.fixture(scope="module")
def ours(all_configs, random_model):
    """Name of a config -> our pretrainer with random weights."""
    return {
        name: random_model(AlbertPretrainer, all_configs[name])
        for name in CONVERTED
    }


@pytest.fixture(scope="module")
def converted(run_model_garden, ours, tmp_path_factory):
    """Name of a config -> folder of what Model Garden made of our model."""
    root = tmp_path_factory.mktemp("converted")
    jobs = []
    for name, model in ours.items():
        model.save_pretrained(root / "ours" / name)
        google = root / "google" / name
        convert(
            ConvertConfig(
                input=root / "ours" / name, output=google, to="google"
            )
        )
        config_file = google / "albert_config.json"
        jobs.append(
            {
                "config": json.loads(config_file.read_text()),
                "output": str(root / name),
                "checkpoint": str(google / "model.ckpt-best"),
            }
        )
    run_model_garden("convert", jobs)
    return {name: root / name for name in CONVERTED}


def google_keys(config):
    activation = {"gelu_tanh": "gelu"}.get(config.hidden_act)
    return {**config.to_dict(), "hidden_act": activation or config.hidden_act}


def encoder_inputs(batch):
    return {k: v for k, v in batch.items() if k != "masked_lm_positions"}


def assert_close(actual, expected):
    np.testing.assert_allclose(
        np.asarray(actual), expected, rtol=0, atol=TOLERANCE
    )


def assert_same_outputs(pretrainer, folder, batch):
    with np.load(folder / "outputs.npz") as expected:
        outputs = pretrainer.encoder(encoder_inputs(batch))
        layers = outputs["encoder_outputs"]
        theirs = [name for name in expected if name.startswith("layer_")]
        assert len(theirs) in (len(layers), 0)
        for number in range(len(theirs)):
            assert_close(layers[number], expected[f"layer_{number}"])
        assert_close(outputs["sequence_output"], expected["sequence_output"])
        assert_close(outputs["pooled_output"], expected["pooled_output"])
        logits = pretrainer(batch)["mlm_logits"]
        assert_close(logits, expected["mlm_logits"])


@pytest.mark.parametrize("name", WRITTEN)
def test_their_saved_model_here(name, theirs, all_configs, batch, vocabulary):
    model = AlbertPretrainer.from_pretrained(
        theirs[name] / "saved_model", sop_head=False
    )
    # No config travels with it: all this is from weights and graph.
    assert model.config == all_configs[name]
    assert_same_outputs(model, theirs[name], batch)
    text = ["the good film"]
    expected = AlbertTokenizer.from_file(vocabulary).encode(text)
    assert model.tokenizer.encode(text) == expected


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("checkpoint", ["pretrainer-1", "model"])
def test_their_checkpoint_here(name, checkpoint, theirs, all_configs, batch):
    model = AlbertPretrainer.from_pretrained(
        theirs[name] / checkpoint, sop_head=False, config=all_configs[name]
    )
    assert_same_outputs(model, theirs[name], batch)


def test_their_encoder_checkpoint_here(theirs, all_configs, batch):
    model = AlbertEncoder.from_pretrained(
        theirs["base"] / "encoder", config=all_configs["base"]
    )
    outputs = model(encoder_inputs(batch))
    with np.load(theirs["base"] / "outputs.npz") as expected:
        assert_close(outputs["sequence_output"], expected["sequence_output"])
        assert_close(outputs["pooled_output"], expected["pooled_output"])


@pytest.mark.parametrize("checkpoint", ["trainer", "trainer_legacy"])
def test_their_training_checkpoint_here(checkpoint, theirs, all_configs):
    opened = open_checkpoint(
        theirs["base"] / checkpoint, config=all_configs["base"]
    )
    assert opened.heads == ("mlm_head",)
    slots = [k for k, v in opened.skipped.items() if v == "optimizer state"]
    # Two moments of all but the pooler, which has no part in the loss.
    assert len(slots) >= 2 * (len(opened.arrays) - 2)


def test_a_head_of_theirs_that_has_no_place_is_named(theirs, all_configs):
    with pytest.raises(
        InputError, match="unexpected tensor bert/next_sentence/logits/"
    ):
        open_checkpoint(
            theirs["base"] / "next_sentence", config=all_configs["base"]
        )


@pytest.mark.parametrize("name", ["base", "relu", "equal_sizes"])
def test_our_google_checkpoint_there(name, ours, converted, batch):
    assert_same_outputs(ours[name], converted[name], batch)


# What Model Garden does differently: the rows of docs/checkpoints.md.


def test_it_does_not_project_equal_sizes(theirs):
    counts = {
        name: len(tf.train.list_variables(str(theirs[name] / "encoder")))
        for name in ("base", "equal_sizes")
    }
    assert counts["base"] - counts["equal_sizes"] == 2  # kernel and bias


def test_it_drops_out_what_attention_adds_at_the_attentions_rate(theirs):
    """The original has the hidden rate there."""
    file = theirs["dropout"] / "saved_model" / "saved_model.pb"
    saved_model = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    functions = saved_model.meta_graphs[0].graph_def.library.function
    rates = {
        node.name.split("/")[1]: tf.make_ndarray(node.attr["value"].tensor)
        for function in functions
        for node in function.node_def
        if re.fullmatch(r"transformer/dropout.*/GreaterEqual/y", node.name)
    }
    after_attention, after_feed_forward = sorted(rates)
    assert rates[after_attention] == np.float32(0.2)
    assert rates[after_feed_forward] == np.float32(0.1)


def test_its_converter_drops_all_but_one_group(ours, converted, batch):
    """Two groups become one, without a word; so this library has strictness."""
    model = ours["two_groups"]
    one_group = AlbertPretrainer(model.config.replace(num_hidden_groups=1))
    kept = {variable.path: variable for variable in model.weights}
    for variable in one_group.weights:
        variable.assign(kept[variable.path])
    assert_same_outputs(one_group, converted["two_groups"], batch)
    with np.load(converted["two_groups"] / "outputs.npz") as theirs:
        logits = np.asarray(model(batch)["mlm_logits"])
        assert np.abs(logits - theirs["mlm_logits"]).max() > 0.1


def test_its_converter_drops_the_sentence_order_head(ours, converted):
    hidden = ours["base"].config.hidden_size
    assert ours["base"].sop_head is not None
    path = tf.train.latest_checkpoint(converted["base"])
    shapes = [tuple(shape) for _, shape in tf.train.list_variables(path)]
    assert (hidden, hidden) in shapes  # The pooler is there.
    assert not {(hidden, 2), (2, hidden), (2,)} & set(shapes)
