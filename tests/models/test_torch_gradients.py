"""Losses and gradients of fine-tuning, ours and those of PyTorch's ALBERT.

Ours are what the training loop computes: its losses, in a graph, in training
mode. Theirs are those of transformers' classes on the same weights, in eager
PyTorch and float64, so that all rounding that is compared is ours.
"""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.finetuning.losses import CrossEntropyLoss
from albert_tf.finetuning.multiple_choice.model import AlbertMultipleChoice
from albert_tf.finetuning.question_answering.losses import SpanLoss
from albert_tf.finetuning.question_answering.model import (
    AlbertQuestionAnswering,
)
from albert_tf.finetuning.text_classification.model import (
    AlbertClassifier,
    RegressionLoss,
)
from albert_tf.finetuning.token_classification.model import (
    AlbertTokenClassifier,
    TokenClassificationLoss,
)
from albert_tf.interop.names import component_of, tensors_of
from albert_tf.training.loss import Loss

pytestmark = pytest.mark.peer

# Relative; float32 rounds to 6e-8, and the largest error seen is 1.4e-7.
LOSS_TOLERANCE = 1e-6

# Relative to the largest entry of a tensor's gradient. The largest error seen
# is 4e-6, in 8 blocks, and as large in PyTorch's own float32; other processors
# add up in other orders.
GRADIENT_TOLERANCE = 2e-5

# Of largest entries: what a softmax does not see at all is below this in
# float64 (6e-17 seen), and everything else above that (1.2e-3 seen).
NOTHING, SOMETHING = 1e-14, 1e-4

SHARED = AlbertConfig(
    vocab_size=60,
    embedding_size=12,
    hidden_size=24,
    num_hidden_layers=3,
    num_attention_heads=3,
    intermediate_size=40,
    max_position_embeddings=20,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)
# Layers 0 and 1 share weights, as do 2 and 3; of 2 blocks.
GROUPS = SHARED.replace(
    num_hidden_layers=4,
    num_hidden_groups=2,
    inner_group_num=2,
    hidden_act="gelu_erf",
)


@dataclasses.dataclass(frozen=True)
class Case:
    """A model and its loss.

    Attributes:
      ours: our class.
      theirs: name of the class of transformers.
      loss: our loss; theirs is the class's own.
      labels: of a batch of six rows, under the names that both have for them.
      arguments: of our class.
      config: the architecture.
      zero: ends of their names of biases that move all scores of a softmax
        alike, so that the loss does not depend on them.
    """

    ours: type
    theirs: str
    loss: Loss
    labels: dict
    arguments: dict = dataclasses.field(default_factory=dict)
    config: AlbertConfig = SHARED
    zero: tuple[str, ...] = ("key.bias",)


CASES = {
    "classifier_of_2": Case(
        AlbertClassifier,
        "AlbertForSequenceClassification",
        CrossEntropyLoss(),
        {"labels": [1, 0, 0, 1, 1, 0]},
        {"num_labels": 2},
    ),
    "classifier_of_3": Case(
        AlbertClassifier,
        "AlbertForSequenceClassification",
        CrossEntropyLoss(),
        {"labels": [2, 0, 1, 2, 0, 1]},
        {"num_labels": 3},
        GROUPS,
    ),
    "regression": Case(
        AlbertClassifier,
        "AlbertForSequenceClassification",
        RegressionLoss(),
        {"labels": [0.5, -1.0, 3.0, 2.0, 5.0, 4.25]},
        {"num_labels": 1},
    ),
    "multiple_choice": Case(
        AlbertMultipleChoice,
        "AlbertForMultipleChoice",
        CrossEntropyLoss(),
        {"labels": [2, 0]},
        config=GROUPS,
        zero=("key.bias", "classifier.bias"),
    ),
    "token_classifier": Case(
        AlbertTokenClassifier,
        "AlbertForTokenClassification",
        TokenClassificationLoss(),
        # Some tokens, and a whole row, have no label, like padding.
        {
            "labels": [
                [-1, 2, 0, -1, 1, 1, 2, -1, 0, 0, 1, -1],
                [-1, 0, -1, 1, -1, -1, -1, -1, -1, -1, -1, -1],
                [-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1],
                [-1, 2, 2, -1, -1, -1, -1, -1, -1, -1, -1, -1],
                [-1, 1, -1, 0, 2, -1, -1, -1, -1, -1, -1, -1],
                [-1, 1, 2, -1, 0, -1, -1, -1, -1, -1, -1, -1],
            ]
        },
        {"num_labels": 3},
    ),
    "span_labeler": Case(
        AlbertQuestionAnswering,
        "AlbertForQuestionAnswering",
        SpanLoss(),
        # In real tokens: no row has fewer than six.
        {
            "start_positions": [1, 0, 3, 2, 5, 4],
            "end_positions": [9, 0, 4, 2, 5, 5],
        },
        {"head": "v1"},
        GROUPS,
        zero=("key.bias", "qa_outputs.bias"),
    ),
}


@pytest.fixture
def compare(tmp_path):
    """Returns `run(case, packed, batch, change)`, which compares.

    `change(theirs, inputs)` may make their model another one.
    """
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")

    def run(case, packed, batch, change=None):
        ours = random_model(case, packed)
        ours.save_pretrained(tmp_path)
        theirs = getattr(transformers, case.theirs).from_pretrained(
            tmp_path, attn_implementation="eager"
        )
        theirs = theirs.double().train()
        inputs = their_batch(batch)
        if change is not None:
            change(theirs, inputs)
        their_loss = theirs(**inputs).loss
        their_loss.backward()
        loss, gradients = our_gradients(ours, case.loss, batch)
        assert loss == pytest.approx(their_loss.item(), rel=LOSS_TOLERANCE)
        expected = {n: p.grad.numpy() for n, p in theirs.named_parameters()}
        assert_same_gradients(gradients, expected, case.zero)

    return run


def pairs(rows=6, length=12, padded=True):
    """`[CLS] a [SEP] b [SEP]`; padding in all rows but the first, or none."""
    rng = np.random.default_rng(0)
    ids = np.zeros((rows, length), "int32")
    types, mask = np.zeros_like(ids), np.zeros_like(ids)
    for row in range(rows):
        real = int(rng.integers(6, length)) if padded and row else length
        middle = int(rng.integers(2, real - 2))
        ids[row, :real] = rng.integers(5, SHARED.vocab_size, real)
        ids[row, [0, middle, real - 1]] = 2, 3, 3
        types[row, middle + 1 : real] = 1
        mask[row, :real] = 1
    return {"input_word_ids": ids, "input_mask": mask, "input_type_ids": types}


def batch_of(case, padded=True):
    """Inputs and labels of a case, as the training loop has them."""
    inputs = pairs(padded=padded)
    if case.ours is AlbertMultipleChoice:
        inputs = {name: x.reshape(2, 3, -1) for name, x in inputs.items()}
    labels = {name: np.array(x) for name, x in case.labels.items()}
    return inputs | {
        name: x.astype("float32" if x.dtype.kind == "f" else "int32")
        for name, x in labels.items()
    }


def their_batch(batch):
    """Converts our batch to theirs."""
    import torch

    names = {
        "input_word_ids": "input_ids",
        "input_mask": "attention_mask",
        "input_type_ids": "token_type_ids",
    }
    tensors = {}
    for name, x in batch.items():
        if x.dtype.kind == "f":
            tensors[name] = torch.tensor(x, dtype=torch.float64)
        else:
            # Their label of unlabeled tokens.
            x = np.where(x < 0, -100, x)
            tensors[names.get(name, name)] = torch.tensor(x, dtype=torch.long)
    return tensors


def random_model(case, packed):
    """Returns distinct weights far from 0 and 1, so that each one matters."""
    model = case.ours(case.config, packed=packed, dropout=0.0, **case.arguments)
    rng = np.random.default_rng(1)
    for variable in model.trainable_variables:
        kind = variable.path.rpartition("/")[2]
        mean = 1.0 if kind == "gamma" else 0.0
        deviation = {"gamma": 0.2, "beta": 0.1, "bias": 0.1}.get(kind, 0.15)
        variable.assign(rng.normal(mean, deviation, variable.shape))
    return model


def our_gradients(model, loss_fn, batch):
    """Returns the loss, and the gradients in their names and shapes."""

    @tf.function(autograph=False)
    def step(batch):
        with tf.GradientTape() as tape:
            # The seed switches training on; the model has no dropout.
            loss, _ = loss_fn(
                model, batch, loss_fn.normalizers(batch), tf.constant([1, 2])
            )
        variables = [v.value for v in model.trainable_variables]
        return loss, tape.gradient(loss, variables)

    loss, found = step({name: tf.constant(x) for name, x in batch.items()})
    parts = {component_of(v.path) for v in model.trainable_variables}
    num_labels = getattr(model, "num_labels", 1)
    names = {
        tensor.path: tensor.names["huggingface"]
        for tensor in tensors_of(model.config, parts, num_labels)
    }
    gradients = {}
    for variable, gradient in zip(
        model.trainable_variables, found, strict=True
    ):
        theirs = names[variable.path]
        gradient = tf.convert_to_tensor(gradient).numpy()
        gradients[theirs.name] = theirs.transform.to_theirs(gradient)
    return float(loss), gradients


def assert_same_gradients(ours, theirs, zero):
    assert set(ours) == set(theirs)
    for name, expected in theirs.items():
        largest = np.abs(expected).max()
        if name.endswith(zero):
            assert largest < NOTHING, name
            # Ours is what rounding leaves, of sums such as the weight's.
            weight = name.removesuffix("bias") + "weight"
            largest = np.abs(theirs[weight]).max()
        assert largest > SOMETHING, name
        error = np.abs(ours[name] - expected).max()
        assert error < GRADIENT_TOLERANCE * largest, name


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_same_loss_and_gradients(name, packed, compare):
    case = CASES[name]
    # Their spans may start and end in padding: see the test below.
    batch = batch_of(case, padded=name != "span_labeler")
    compare(case, packed, batch)


@pytest.mark.parametrize("packed", [False, True])
def test_spans_of_padded_rows(packed, compare):
    """Theirs, once padding is no place for an answer there either."""

    def mask_padding(theirs, inputs):
        padding = inputs["attention_mask"][..., None] == 0
        theirs.qa_outputs.register_forward_hook(
            lambda layer, arguments, scores: scores.masked_fill(padding, -1e30)
        )

    case = CASES["span_labeler"]
    compare(case, packed, batch_of(case), mask_padding)
