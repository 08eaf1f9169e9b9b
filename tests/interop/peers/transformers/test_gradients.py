"""Gradients of pretraining, ours and PyTorch's, in files of Hugging Face."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.objectives.masked_language_modeling import (
    MaskedLanguageModeling,
)

pytestmark = pytest.mark.peer

# Relative to the largest entry of a tensor's gradient. The largest error seen
# is 5e-5, in the bias of the sentence order; of all others, 6e-6.
TOLERANCE = 1e-4

# A softmax does not see what is added to all its scores.
ZERO = ("key.bias",)

STARTS, ENDS = np.array([1, 0, 3, 2]), np.array([2, 0, 4, 2])
TABLE = "albert.embeddings.word_embeddings.weight"


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


def assert_same(ours, model, loss):
    """Compares `gradients_of` ours with those of a loss of their model."""
    loss.backward()
    our_loss, gradients = ours
    np.testing.assert_allclose(our_loss, loss.item(), rtol=1e-5)
    theirs = {name: weight.grad for name, weight in model.named_parameters()}
    assert set(gradients) == set(theirs)
    for name, gradient in gradients.items():
        largest = theirs[name].abs().max()
        if name.endswith(ZERO):
            assert largest < 1e-7
            assert gradient.abs().max() < 1e-7
        else:
            assert largest > 1e-4, name
            error = (gradient - theirs[name]).abs().max()
            assert error < TOLERANCE * largest, name


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
        "sentence_order_labels": np.array([0, 1, 1, 0], "int32"),
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
    configs, name, packed, pairs, hf, both, random_batch, gradients_of
):
    config = configs[name]
    ours, theirs = both(pairs["pretrainer"], config)
    ours.encoder.packed = packed
    batch = predictions(config, random_batch(config))
    expected = pretraining_loss(theirs(**hf.inputs(batch)), batch)
    loss_fn = MaskedLanguageModeling()
    batch = {name: tf.constant(value) for name, value in batch.items()}
    gradients = gradients_of(
        ours, lambda: loss_fn(ours, batch, loss_fn.normalizers(batch), None)[0]
    )
    assert_same(gradients, theirs, expected)


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
    assert error < TOLERANCE * expected.abs().max()


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
