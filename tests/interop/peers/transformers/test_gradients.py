"""Losses and gradients of the training loop, and PyTorch's in float64.

Those of Google's code, in tests/models, need data that a clone does not have.
"""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.finetuning.losses import CrossEntropyLoss
from albert_tf.finetuning.multiple_choice.model import AlbertMultipleChoice
from albert_tf.finetuning.text_classification.model import (
    AlbertClassifier,
    RegressionLoss,
)
from albert_tf.finetuning.token_classification.model import (
    AlbertTokenClassifier,
    TokenClassificationLoss,
)
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.objectives.masked_language_modeling import MaskedLanguageModeling

pytestmark = pytest.mark.peer

# The last one has no weight.
POSITIONS = np.array([[1, 3], [2, 4], [3, 1], [2, 0]], "int32")
WORDS = np.array([[7, 9], [8, 5], [30, 31], [59, 0]], "int32")
ORDERS = np.array([0, 1, 1, 0], "int32")
# Some tokens, and a whole row, have no label, like padding.
TOKENS = np.full((4, 12), -1, "int32")
TOKENS[[0, 0, 0, 1, 3], [1, 2, 11, 3, 1]] = 2, 0, 1, 1, 2

# Name of a case -> our class and its arguments, their class, config, loss, and
# what it takes.
CASES = {
    "pretrainer": (
        (AlbertPretrainer, {}),
        "AlbertForPreTraining",
        "equal_sizes_projected",
        MaskedLanguageModeling(),
        {
            "masked_lm_positions": POSITIONS,
            "masked_lm_ids": WORDS,
            "masked_lm_weights": np.float32(POSITIONS > 0),
            "sentence_order_labels": ORDERS,
        },
    ),
    "classifier": (
        (AlbertClassifier, {"num_labels": 3}),
        "AlbertForSequenceClassification",
        "groups",
        CrossEntropyLoss(),
        {"labels": ORDERS + 1},
    ),
    "regression": (
        (AlbertClassifier, {"num_labels": 1}),
        "AlbertForSequenceClassification",
        "gelu_erf",
        RegressionLoss(),
        {"labels": np.array([0.5, -2.0, 3.0, 4.25], "float32")},
    ),
    "multiple_choice": (
        (AlbertMultipleChoice, {}),
        "AlbertForMultipleChoice",
        "relu",
        CrossEntropyLoss(),
        {"labels": ORDERS[:2]},
    ),
    "token_classifier": (
        (AlbertTokenClassifier, {"num_labels": 3}),
        "AlbertForTokenClassification",
        "base",
        TokenClassificationLoss(),
        {"labels": TOKENS},
    ),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_losses_and_gradients(
    configs, name, packed, hf, random_model, random_batch, tmp_path
):
    import torch

    (kind, arguments), their_class, architecture, loss_fn, labels = CASES[name]
    config = configs[architecture]
    ours = random_model(kind, config, packed=packed, **arguments)
    ours.save_pretrained(tmp_path / "weights")
    theirs = hf.open(their_class, tmp_path / "weights")
    batch = random_batch(config)
    if name == "multiple_choice":
        batch = {key: x.reshape(2, 2, -1) for key, x in batch.items()}
    inputs = hf.inputs(batch)
    if name == "pretrainer":
        words = np.full(batch["input_mask"].shape, -1, "int32")
        np.put_along_axis(words, POSITIONS, WORDS, 1)
        words[:, 0] = -1
        inputs["labels"] = words
        inputs["sentence_order_label"] = ORDERS
    else:
        inputs |= labels
    for key, values in inputs.items():
        if isinstance(values, np.ndarray):
            dtype = torch.double if values.dtype.kind == "f" else torch.long
            values = np.where(values == -1, -100, values)
            inputs[key] = torch.tensor(values, dtype=dtype)
    expected = theirs.double()(**inputs).loss
    expected.backward()

    batch = {key: tf.constant(x) for key, x in (batch | labels).items()}
    normalizers = loss_fn.normalizers(batch)
    with tf.GradientTape() as tape:
        loss, _ = loss_fn(ours, batch, normalizers, None)
    # Ours include 1e-5 in the sum of weights, as Google's.
    assert float(loss) == pytest.approx(expected.item(), rel=2e-6)
    # A file of gradients has their names and shapes.
    variables = ours.trainable_variables
    gradients = tape.gradient(loss, [v.value for v in variables])
    for variable, gradient in zip(variables, gradients, strict=True):
        variable.assign(tf.convert_to_tensor(gradient))
    ours.save_pretrained(tmp_path / "gradients")
    found = hf.tensors(tmp_path / "gradients")
    slopes = {name: p.grad for name, p in theirs.named_parameters()}
    assert set(found) == set(slopes)
    for name, slope in slopes.items():
        # Some are zero: a softmax does not depend on a bias of all its scores.
        scale = max(float(slope.abs().max()), 0.01)
        assert float((found[name] - slope).abs().max()) < 2e-5 * scale, name
