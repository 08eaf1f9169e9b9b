"""`output_attentions`."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.finetuning.text_classification.model import AlbertClassifier
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.model_graph import float32_copy
from albert_tf.models.pretrainer import AlbertPretrainer


def attentive(config, **arguments):
    return AlbertEncoder(config, output_attentions=True, **arguments)


def twins(make, config, **arguments):
    """The same model without and with attentions."""
    models = [
        make(config, output_attentions=on, **arguments) for on in (False, True)
    ]
    models[1].set_weights(models[0].get_weights())
    return models


@pytest.mark.parametrize("packed", [False, True])
def test_attentions_are_the_softmax_of_the_scores(config, batch, packed):
    encoder = attentive(config, packed=packed, dtype="float32")
    outputs = encoder(batch)
    assert len(outputs["attentions"]) == 2
    # The second block, recomputed from the output of the first.
    layer = encoder.stack.attentions[0]
    states = outputs["encoder_outputs"][0].numpy()
    query, key = (
        (states @ part.kernel.numpy() + part.bias.numpy())
        .reshape(4, 12, 4, 4)
        .transpose(0, 2, 1, 3)
        for part in (layer.query, layer.key)
    )
    real = batch["input_mask"].astype(bool)
    scores = query @ key.transpose(0, 1, 3, 2) / np.sqrt(4)
    scores[~np.broadcast_to(real[:, None, None], scores.shape)] = -np.inf
    expected = np.exp(scores - scores.max(-1, keepdims=True))
    expected /= expected.sum(-1, keepdims=True)
    expected *= real[:, None, :, None]
    found = outputs["attentions"][1].numpy()
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert not found[
        ~(real[:, None, :, None] & real[:, None, None]).repeat(4, axis=1)
    ].any()


@pytest.mark.parametrize("packed", [False, True])
def test_sequences_of_a_row_do_not_attend_to_each_other(config, batch, packed):
    starts = np.array([[0, 4]] * 4, "int32")
    ids = batch["input_mask"] * (1 + (np.arange(12) >= 4))
    found = attentive(config, packed=packed)(
        {**batch, "sequence_ids": ids, "sequence_starts": starts}
    )["attentions"]
    other = (ids[:, None, :, None] != ids[:, None, None]).repeat(4, axis=1)
    for probs in found:
        assert not probs.numpy()[other].any()
        sums = probs.numpy().sum(-1)
        np.testing.assert_allclose(
            sums, np.broadcast_to(ids[:, None] > 0, sums.shape), atol=1e-6
        )


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
def test_attentions_are_float32_and_without_dropout(config, batch, dtype):
    config = config.replace(attention_probs_dropout_prob=0.5)
    encoder = attentive(config, dtype=dtype)
    trained = encoder(batch, training=True)["attentions"][0]
    assert trained.dtype == tf.float32
    # The inputs of the first block are equal: there is no dropout before it.
    np.testing.assert_array_equal(trained, encoder(batch)["attentions"][0])


def test_attentions_do_not_change_other_outputs(name, make, config, inputs):
    """Even if the last block computes only a few rows without attentions."""
    plain, model = twins(make, config)
    outputs, expected = dict(model(inputs)), plain(inputs)
    attentions = outputs.pop("attentions")
    choices = [2] if name == "multiple choice" else []
    assert [x.shape for x in attentions] == [(4, *choices, 4, 12, 12)] * 2
    if not isinstance(expected, dict):
        expected = {"logits": expected}
    assert list(outputs) == list(expected)
    for key, value in expected.items():
        for x, y in zip(
            tf.nest.flatten(outputs[key]), tf.nest.flatten(value), strict=True
        ):
            np.testing.assert_allclose(x, y, atol=1e-5)
    again = type(model).from_config(model.get_config())
    assert again.get_config() == model.get_config()
    assert getattr(again, "encoder", again).output_attentions
    # Exports have none.
    copy = float32_copy(model, packed=False)
    assert copy.get_config()["output_attentions"] is False


def test_no_cost_without_attentions(config):
    """Without the nodes of the attentions, the graphs are equal."""
    spec = tf.TensorSpec([None, None], tf.int32)
    names = ("input_word_ids", "input_mask", "input_type_ids")

    def operations(model):
        graph = tf.function(
            lambda x: model(x)["sequence_output"], autograph=False
        ).get_concrete_function(dict.fromkeys(names, spec))
        needed = tf.compat.v1.graph_util.extract_sub_graph(
            graph.graph.as_graph_def(), [graph.outputs[0].op.name]
        )
        kinds = sorted(node.op for node in needed.node)
        return kinds, len(graph.graph.get_operations())

    (plain, count), (needed, larger) = map(
        operations, twins(AlbertEncoder, config)
    )
    assert needed == plain
    assert larger > count


def test_fit_ignores_them(config, batch):
    config = config.replace(num_hidden_layers=1)
    labels, losses = np.array([0, 1, 2, 1]), []
    for model in twins(AlbertClassifier, config, num_labels=3, dropout=0.0):
        model.compile(
            keras.optimizers.SGD(0.1),
            keras.losses.SparseCategoricalCrossentropy(True),
            metrics=["accuracy"],
            run_eagerly=True,
        )
        history = model.fit(batch, labels, epochs=2, verbose=0).history
        assert len(history["accuracy"]) == 2
        losses.append(history["loss"])
    np.testing.assert_allclose(*losses, rtol=1e-5)
    assert set(model.predict_on_batch(batch)) == {"logits", "attentions"}


@pytest.mark.long
def test_keras_export_leaves_them_out(config, batch, tmp_path):
    config = config.replace(num_hidden_layers=1)
    model = AlbertClassifier(config, num_labels=3, output_attentions=True)
    expected = model(batch)
    model.export(tmp_path / "export", verbose=False)
    loaded = tf.saved_model.load(tmp_path / "export")
    logits = loaded.serve({x: tf.constant(v) for x, v in batch.items()})
    np.testing.assert_allclose(logits, expected["logits"], atol=1e-5)


def test_attentions_of_rematerialized_blocks_have_gradients(config, batch):
    encoder = attentive(config, rematerialize=True)
    kernel = encoder.stack.attentions[0].query.kernel
    with tf.GradientTape() as tape:
        probs = encoder(batch, training=True)["attentions"]
        loss = tf.reduce_sum(probs[1] ** 2)
    assert np.abs(tape.gradient(loss, kernel.value)).max() > 1e-4


def test_from_pretrained_and_keras_file(config, batch, round_trip, tmp_path):
    AlbertPretrainer(config).save_pretrained(tmp_path / "model")
    for cls in (AlbertPretrainer, AlbertEncoder):
        model = cls.from_pretrained(tmp_path / "model", output_attentions=True)
        loaded = round_trip(model)
        encoder = getattr(loaded, "encoder", loaded)
        np.testing.assert_array_equal(
            encoder(batch)["attentions"],
            getattr(model, "encoder", model)(batch)["attentions"],
        )
