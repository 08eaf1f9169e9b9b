"""Models with a dense head on the encoder."""

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.multiple_choice.model import AlbertMultipleChoice
from albert_tf.finetuning.text_classification.model import (
    AlbertClassifier,
    AlbertPairClassifier,
)
from albert_tf.finetuning.token_classification.model import (
    AlbertTokenClassifier,
)

# Class -> arguments, name of the head, shape of the output.
MODELS = {
    AlbertClassifier: ({"num_labels": 3}, "classifier_head", (4, 3)),
    AlbertPairClassifier: ({"num_labels": 3}, "pair_head", (4, 3)),
    AlbertTokenClassifier: ({"num_labels": 3}, "token_head", (4, 12, 3)),
    AlbertMultipleChoice: ({}, "choice_head", (4, 3)),
}
CLASSES = pytest.mark.parametrize("model_class", MODELS)


@pytest.fixture
def choices(batch):
    """Three choices for each of four questions: `[4, 3, 12]`."""
    return {
        name: np.stack([np.roll(values, n, axis=0) for n in range(3)], axis=1)
        for name, values in batch.items()
    }


@pytest.fixture
def make(config, batch, choices):
    """Returns `make(class, **arguments)`: the model, and inputs of it."""

    def make(model_class, **arguments):
        arguments = {**MODELS[model_class][0], **arguments}
        is_choice = model_class is AlbertMultipleChoice
        return model_class(config, **arguments), choices if is_choice else batch

    return make


@CLASSES
def test_head_weights_output_and_dropout(make, model_class):
    _, head, shape = MODELS[model_class]
    model, inputs = make(model_class, dropout=0.5)
    assert model(inputs).shape == shape
    paths = {v.path for v in model.trainable_variables}
    own = paths - {v.path for v in model.encoder.trainable_variables}
    assert own == {f"{head}/kernel", f"{head}/bias"}
    pooled = any("pooler" in path for path in paths)
    assert pooled == (
        model_class not in (AlbertPairClassifier, AlbertTokenClassifier)
    )
    # Only the head has dropout.
    first, second = (np.asarray(model(inputs, training=True)) for _ in "ab")
    assert np.abs(first - second).max() > 1e-3
    model, _ = make(model_class, dropout=0.0)
    np.testing.assert_array_equal(model(inputs, training=True), model(inputs))


@pytest.mark.parametrize(
    "model_class", [AlbertClassifier, AlbertTokenClassifier]
)
def test_labels_are_saved_with_the_model(make, model_class, round_trip):
    arguments = {"num_labels": 2, "labels": ["no", "yes"], "dropout": 0.2}
    model, _ = make(model_class, **arguments)
    loaded = round_trip(model)
    assert (loaded.labels, loaded.dropout.rate) == (("no", "yes"), 0.2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_labels": 0}, "num_labels=0 must be an integer of at least 1"),
        ({"num_labels": 2.0}, "num_labels=2.0 must be an integer"),
        ({"num_labels": True}, "num_labels=True must be an integer"),
        ({"num_labels": 2, "dropout": 1.0}, r"dropout=1.0 must be in \[0, 1\)"),
        ({"num_labels": 2, "dropout": "a"}, r"dropout='a' must be in \[0, 1\)"),
        ({"num_labels": 2, "labels": ["no"]}, "must be num_labels=2 strings"),
        ({"num_labels": 2, "labels": [0, 1]}, "must be num_labels=2 strings"),
        ({"num_labels": 2, "labels": "ab"}, "must be num_labels=2 strings"),
    ],
)
def test_bad_arguments(make, arguments, message):
    for model_class in (AlbertClassifier, AlbertTokenClassifier):
        name = model_class.__name__
        with pytest.raises(InputError, match=f"{name}: .*{message}"):
            make(model_class, **arguments)


def test_bad_choices(make, batch):
    with pytest.raises(InputError, match="AlbertMultipleChoice: dropout=2"):
        make(AlbertMultipleChoice, dropout=2)
    model, _ = make(AlbertMultipleChoice)
    with pytest.raises(ValueError, match=r"2 dimensions.*\[batch, choices, s"):
        model(batch)
    del batch["input_word_ids"]
    with pytest.raises(ValueError, match="missing: input_word_ids"):
        model(batch)
