"""Losses and gradients, ours and PyTorch's, in files of Hugging Face.

Ours are those of the training loop; theirs are those of transformers' classes
on the same weights, in float64, so that all rounding that is compared is ours.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.finetuning.losses import CrossEntropyLoss
from albert_tf.finetuning.question_answering.model import SpanLoss
from albert_tf.finetuning.text_classification.model import RegressionLoss
from albert_tf.finetuning.token_classification.model import (
    TokenClassificationLoss,
)
from albert_tf.objectives.masked_language_modeling import (
    MaskedLanguageModeling,
)

pytestmark = pytest.mark.peer

# Relative to the largest entry of a tensor's gradient; 4e-6 was seen.
TOLERANCE = 2e-5

STARTS, ENDS = np.array([1, 0, 3, 2]), np.array([2, 0, 4, 2])
TABLE = "albert.embeddings.word_embeddings.weight"

# Name of a pair -> config, loss, labels, and ends of their names of biases that
# move all scores of a softmax alike, so that the loss does not depend on them.
KEY = ("key.bias",)
FINE_TUNING = {
    "classifier": (
        "groups",
        CrossEntropyLoss(),
        {"labels": [2, 0, 1, 2]},
        KEY,
    ),
    "regression": (
        "base",
        RegressionLoss(),
        {"labels": [0.5, -1.0, 3.0, 4.25]},
        KEY,
    ),
    "multiple_choice": (
        "groups",
        CrossEntropyLoss(),
        {"labels": [1, 0]},
        (*KEY, "classifier.bias"),
    ),
    "token_classifier": (
        "base",
        TokenClassificationLoss(),
        # Some tokens, and a whole row, have no label, like padding.
        {
            "labels": [
                [-1, 2, 0, -1, 1, 1, 2, -1, 0, 0, 1, -1],
                [-1, 0, -1, 1, -1, -1, -1, -1, -1, -1, -1, -1],
                [-1] * 12,
                [-1, 2, 2, 0, -1, -1, -1, -1, -1, -1, -1, -1],
            ]
        },
        KEY,
    ),
    "span_labeler": (
        "groups",
        SpanLoss(),
        {"start_positions": STARTS, "end_positions": ENDS},
        (*KEY, "qa_outputs.bias"),
    ),
}


@pytest.fixture
def gradients_of(hf, tmp_path):
    """Returns `compute(model, loss)`: a loss, and their name -> gradient.

    By way of a file, in which the gradients take the places of the weights.
    """

    def compute(model, loss):
        with tf.GradientTape() as tape:
            value = loss()
        variables = model.trainable_variables
        gradients = tape.gradient(value, [v.value for v in variables])
        for variable, gradient in zip(variables, gradients, strict=True):
            variable.assign(tf.convert_to_tensor(gradient))
        model.save_pretrained(tmp_path / "gradients")
        return float(value), hf.tensors(tmp_path / "gradients")

    return compute


@pytest.fixture
def compare(gradients_of):
    """Compares loss and gradients of `loss_fn` with those of their model."""

    def check(ours, loss_fn, batch, theirs, their_loss, zero):
        batch = {name: tf.constant(value) for name, value in batch.items()}
        normalizers = loss_fn.normalizers(batch)
        loss, found = gradients_of(
            ours, lambda: loss_fn(ours, batch, normalizers, None)[0]
        )
        their_loss.backward()
        assert loss == pytest.approx(their_loss.item(), rel=1e-6)
        expected = {name: p.grad for name, p in theirs.named_parameters()}
        assert set(found) == set(expected)
        for name, gradient in expected.items():
            scale = gradient.abs().max()
            if name.endswith(zero):
                assert scale < 1e-14, name
                # Ours is what rounding leaves, of sums such as the weight's.
                weight = name.removesuffix("bias") + "weight"
                scale = expected[weight].abs().max()
            assert scale > 1e-4, name
            error = (found[name] - gradient).abs().max()
            assert error < TOLERANCE * scale, name

    return check


def predictions(config, batch):
    """Adds what is to be predicted; some predictions have no weight."""
    rng = np.random.default_rng(3)
    weights = np.array([[1, 1, 1], [1, 1, 0], [1, 0, 0], [1, 1, 1]], "float32")
    labels = rng.integers(5, config.vocab_size, weights.shape, "int32")
    positions = rng.integers(1, 5, weights.shape, "int32")
    return {
        **batch,
        "masked_lm_positions": positions * (weights > 0),
        "masked_lm_ids": labels * (weights > 0),
        "masked_lm_weights": weights,
        "sentence_order_labels": np.array([0, 1, 1, 1], "int32"),
    }


def pretraining_loss(outputs, batch):
    """The loss of Google's code, of outputs of theirs."""
    import torch

    def tensor(name):
        return torch.tensor(batch[name])

    rows = torch.arange(len(batch["input_mask"]))[:, None]
    positions = tensor("masked_lm_positions").long()
    nll = torch.nn.functional.cross_entropy(
        outputs.prediction_logits[rows, positions].flatten(0, 1),
        tensor("masked_lm_ids").long().flatten(),
        reduction="none",
    )
    weights = tensor("masked_lm_weights").flatten()
    return (weights * nll).sum() / (weights.sum() + 1e-5) + (
        torch.nn.functional.cross_entropy(
            outputs.sop_logits, tensor("sentence_order_labels").long()
        )
    )


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    "name", ["base", "gelu_erf", "relu", "groups", "equal_sizes_projected"]
)
def test_pretraining(
    configs, name, packed, pairs, hf, both, random_batch, compare
):
    config = configs[name]
    ours, theirs = both(pairs["pretrainer"], config)
    ours.encoder.packed = packed
    batch = predictions(config, random_batch(config))
    expected = pretraining_loss(theirs.double()(**hf.inputs(batch)), batch)
    compare(ours, MaskedLanguageModeling(), batch, theirs, expected, KEY)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", FINE_TUNING)
def test_fine_tuning(
    configs, name, packed, pairs, hf, both, random_batch, compare
):
    import torch

    architecture, loss_fn, labels, zero = FINE_TUNING[name]
    config = configs[architecture]
    ours, theirs = both(pairs[name], config)
    ours.encoder.packed = packed
    batch = random_batch(config)
    if name == "multiple_choice":
        batch = {key: x.reshape(2, 2, -1) for key, x in batch.items()}
    labels = {key: np.array(x) for key, x in labels.items()}
    # Their label of unlabeled tokens.
    inputs = hf.inputs(batch) | {
        key: torch.tensor(np.where(x == -1, -100, x) if x.ndim == 2 else x)
        for key, x in labels.items()
    }
    if name == "span_labeler":
        # Ours has no answers in padding.
        padding = inputs["attention_mask"][..., None] == 0
        theirs.qa_outputs.register_forward_hook(
            lambda layer, arguments, scores: scores.masked_fill(padding, -1e30)
        )
    expected = theirs.double()(**inputs).loss
    batch |= {
        key: x.astype("float32" if x.dtype.kind == "f" else "int32")
        for key, x in labels.items()
    }
    compare(ours, loss_fn, batch, theirs, expected, zero)


def test_transformers_never_trains_the_padding_word(
    configs, pairs, hf, both, random_batch, gradients_of
):
    """Its row gets no gradient, not even where the loss sees padding."""
    config = configs["base"]
    ours, theirs = both(pairs["span_labeler"], config)
    batch = random_batch(config)
    assert not batch["input_mask"].all()
    _, gradients = gradients_of(ours, lambda: our_span_loss(ours, batch))
    their_span_loss(hf, theirs, batch).backward()
    expected = theirs.get_parameter(TABLE).grad
    assert not expected[0].any()
    assert gradients[TABLE][0].abs().max() > 0.01 * expected.abs().max()
    error = (gradients[TABLE][1:] - expected[1:]).abs().max()
    assert error < 1e-4 * expected.abs().max()  # Both in float32.


def our_span_loss(model, batch):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    outputs = model(batch)
    return 0.5 * (
        loss(STARTS, outputs["start_logits"])
        + loss(ENDS, outputs["end_logits"])
    )


def their_span_loss(hf, model, batch):
    import torch

    return model(
        **hf.inputs(batch),
        start_positions=torch.tensor(STARTS),
        end_positions=torch.tensor(ENDS),
    ).loss
