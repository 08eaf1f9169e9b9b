"""The models against inputs and outputs of the original's graph."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.objectives.masked_language_modeling import MaskedLanguageModeling

CASES = ["a_base", "b_groups2_inner2", "c_no_projection", "d_relu"]

# The original's own outputs move by 6e-6 between TensorFlow versions.
TOLERANCE = 2e-5


@dataclasses.dataclass
class Case:
    name: str
    model: AlbertPretrainer
    batch: dict
    outputs: dict

    @property
    def encoder_inputs(self):
        names = ("input_word_ids", "input_mask", "input_type_ids")
        return {name: self.batch[name] for name in names}


@pytest.fixture(scope="module", params=CASES)
def case(request, shared, google_weights):
    folder = shared("golden", "google", "model", request.param)
    config = AlbertConfig.from_json(folder / "albert_config.json")
    model = AlbertPretrainer(config)
    google_weights.load(model, folder / "model.ckpt-best")
    inputs = np.load(folder / "inputs.npz")
    batch = {
        "input_word_ids": inputs["input_ids"],
        "input_mask": inputs["input_mask"],
        "input_type_ids": inputs["segment_ids"],
        "masked_lm_positions": inputs["masked_lm_positions"],
        "masked_lm_ids": inputs["masked_lm_ids"],
        "masked_lm_weights": inputs["masked_lm_weights"],
        "sentence_order_labels": inputs["next_sentence_labels"][:, 0],
    }
    batch = {name: tf.constant(value) for name, value in batch.items()}
    outputs = dict(np.load(folder / "outputs.npz"))
    return Case(request.param, model, batch, outputs)


def assert_close(actual, expected):
    np.testing.assert_allclose(
        np.asarray(actual), expected, rtol=0, atol=TOLERANCE
    )


def test_encoder_outputs(case):
    outputs = case.model.encoder(case.encoder_inputs)
    layers = np.stack([np.asarray(x) for x in outputs["encoder_outputs"]])
    assert_close(layers, case.outputs["all_encoder_layers"])
    assert_close(outputs["sequence_output"], case.outputs["sequence_output"])
    assert_close(outputs["pooled_output"], case.outputs["pooled_output"])


def test_embedding_output(case):
    embedded = case.model.encoder.embeddings(
        case.batch["input_word_ids"], case.batch["input_type_ids"]
    )
    assert_close(embedded, case.outputs["embedding_output"])


def test_head_outputs(case):
    names = AlbertPretrainer.INPUTS
    outputs = case.model({name: case.batch[name] for name in names})
    mlm = np.asarray(outputs["mlm_logits"])
    assert_close(
        mlm.reshape(-1, mlm.shape[-1]), case.outputs["masked_lm_logits"]
    )
    assert_close(outputs["sop_logits"], case.outputs["sentence_order_logits"])
    assert_close(outputs["pooled_output"], case.outputs["pooled_output"])


@pytest.mark.parametrize("packed", [False, True])
def test_losses_metrics_and_gradients(case, google_weights, packed):
    loss_fn = MaskedLanguageModeling()
    case.model.encoder.packed = packed

    def run(batch):
        with tf.GradientTape() as tape:
            loss, metrics = loss_fn(
                case.model, batch, loss_fn.normalizers(batch), None
            )
        variables = [v.value for v in case.model.trainable_variables]
        return loss, metrics, tape.gradient(loss, variables)

    # Tracing takes seconds, so only one case has a graph, as in training.
    run = tf.function(run) if case.name == CASES[0] else run
    loss, metrics, gradients = run(case.batch)
    case.model.encoder.packed = False
    values = {name: (x[0] / x[1]).numpy() for name, x in metrics.items()}
    expected = case.outputs
    assert_close(loss, expected["total_loss"])
    # The original divides by sum(weight) + 1e-5: a difference of 1e-6 relative.
    assert_close(values["mlm_loss"], expected["masked_lm_loss"])
    assert_close(values["sop_loss"], expected["sentence_order_loss"])
    assert_close(
        values["mlm_accuracy"], expected["eval_metric/masked_lm_accuracy"]
    )
    assert_close(
        values["sop_accuracy"], expected["eval_metric/sentence_order_accuracy"]
    )
    squares = 0.0
    gradients = google_weights.gradients(case.model, gradients)
    for name, gradient in gradients.items():
        squares += np.sum(np.square(gradient, dtype=np.float64))
        assert_close(gradient, expected[f"grad/{name}"])
    np.testing.assert_allclose(
        np.sqrt(squares), expected["global_norm_of_dense_gradients"], rtol=1e-5
    )
