import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.export.hub_layer import HubLayer
from albert_tf.export.task import export_task
from albert_tf.export.text_encoder import export_text_encoder
from albert_tf.finetuning.registry import make_task_type, with_settings
from albert_tf.finetuning.text_classification.examples import TextTask
from albert_tf.finetuning.text_classification.model import AlbertClassifier
from albert_tf.finetuning.text_classification.task import text_task_config

LABELS = ("no", "yes")
PAIR = {
    "text": tf.constant(["the good movie", "a bad film was it", "", "seen"]),
    "text_pair": tf.constant(["bad", "", "a movie", "I have seen it"]),
}


@pytest.fixture(scope="module")
def graph(config, tokenizer):
    """The graph of a task of pairs."""
    task = TextTask(
        name="pairs",
        labels=LABELS,
        metrics=("accuracy",),
        text="text",
        pair="pair",
    )
    task = with_settings(text_task_config(task), {"max_seq_length": 20})
    return make_task_type(task, tokenizer).serving_graph(
        AlbertClassifier(config, len(LABELS))
    )


@pytest.fixture(scope="module")
def path(graph, tmp_path_factory):
    path = tmp_path_factory.mktemp("tasks") / "task"
    export_task(graph, path, task={"name": "pairs", "kind": "classes"})
    return path


@pytest.mark.long
def test_in_keras_layer(run_program, path, pretrainer, tokenizer, tmp_path):
    text_encoder = tmp_path / "text_encoder"
    export_text_encoder(pretrainer, text_encoder, tokenizer=tokenizer)
    run_program(
        "strings_in_keras_layer.py",
        text_encoder,
        path,
        TF_USE_LEGACY_KERAS="1",
    )


@pytest.mark.long
def test_trains_on_in_keras_3(path, changed):
    layer = HubLayer(path)
    inputs = {name: keras.Input((), dtype="string", name=name) for name in PAIR}
    model = keras.Model(inputs, layer(inputs)["logits"])
    assert len(model.trainable_weights) == 27
    model.compile(
        "adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    labels = np.array([0, 1, 1, 0])
    assert all(changed(layer, lambda: model.fit(PAIR, labels, verbose=0)))


def test_what_it_says_of_itself(path):
    values = json.loads((path / "export.json").read_text())
    assert values["task"] == {"name": "pairs", "kind": "classes"}
    assert values["signatures"] == {
        "serving_default": {
            "inputs": ["text", "text_pair"],
            "outputs": ["label", "logits", "probabilities"],
        }
    }
    assert values["tokenizer"]["file"] == "spiece.model"
    assert len(values["weights"]) == 27
    assert "classifier_head/kernel" in values["weights"]
    labels = tf.saved_model.load(path).labels()
    assert labels.numpy().tolist() == [b"no", b"yes"]


def test_a_path_that_is_taken(graph, path):
    before = sorted(path.iterdir())
    with pytest.raises(InputError, match="exists"):
        export_task(graph, path, task={})
    assert sorted(path.iterdir()) == before
