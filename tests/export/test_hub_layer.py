import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.exporting import hub
from albert_tf.exporting.check_program import compare
from albert_tf.exporting.hub_layer import HubLayer

HEAD = 2  # kernel and bias of a Dense


def symbolic_inputs():
    return {
        name: keras.Input((None,), dtype="int32", name=name)
        for name in ("input_word_ids", "input_mask", "input_type_ids")
    }


def classifier(layer):
    inputs = symbolic_inputs()
    logits = keras.layers.Dense(1)(layer(inputs)["pooled_output"])
    return keras.Model(inputs, logits)


def test_same_numbers(encoder_path, inputs, pretrainer):
    expected = dict(pretrainer.encoder(inputs))
    del expected["encoder_outputs"]
    compare(HubLayer(encoder_path)(inputs), expected)


def test_weights_are_found_under_readable_names(encoder_path):
    layer = HubLayer(encoder_path)
    assert len(classifier(layer).trainable_weights) == 25 + HEAD
    # Unique, as optimizers exclude weights from decay by name.
    names = [weight.name for weight in layer.weights]
    assert "encoder_embeddings_layer_norm_gamma" in names
    assert len(set(names)) == 25


def test_dropout_only_while_it_trains(encoder_path, inputs, has_dropout):
    layer = HubLayer(encoder_path)

    def train():
        return layer(inputs, training=True)["pooled_output"]

    assert has_dropout(train)
    assert not has_dropout(lambda: layer(inputs)["pooled_output"])
    layer.trainable = False
    assert not has_dropout(train)


def test_head_of_a_pretrainer(encoder_path, inputs, pretrainer):
    layer = HubLayer(encoder_path, endpoint="mlm")
    assert len(layer.trainable_weights) == 30
    batch = {**inputs, "masked_lm_positions": np.ones((4, 2), "int32")}
    compare(layer(batch), {"mlm_logits": pretrainer(batch)["mlm_logits"]})


@pytest.mark.long
def test_exports_of_model_garden(model_garden, model_garden_path, has_dropout):
    expected = np.load(model_garden / "model_garden.npz")
    inputs = {name: expected[name] for name in symbolic_inputs()}
    layer = HubLayer(model_garden_path)
    names = ("sequence_output", "pooled_output")
    compare(layer(inputs), {name: expected[name] for name in names})
    # test_preprocessor_contract.py trains it.
    assert len(layer.trainable_weights) == 25
    assert has_dropout(lambda: layer(inputs, training=True)["pooled_output"])

    mlm = HubLayer(model_garden_path, endpoint="mlm")
    assert len(mlm.trainable_weights) == 30
    positions = expected["masked_lm_positions"]
    found = mlm({**inputs, "masked_lm_positions": positions})
    compare(found, {"mlm_logits": expected["mlm_logits"]})


def test_follows_the_lists_of_the_contract(tmp_path):
    """Only `trainable_variables` are trained."""
    root = tf.train.Checkpoint()
    kernel, frozen = tf.Variable([[1.0]]), tf.Variable([2.0])
    root.__call__ = tf.function(
        lambda inputs: inputs @ kernel + frozen,
        input_signature=[tf.TensorSpec([None, 1], tf.float32)],
    )
    root.variables = [kernel, frozen]
    root.trainable_variables = [kernel]
    root.regularization_losses = [
        tf.function(lambda: 3.0 * kernel[0, 0], input_signature=[])
    ]
    tf.saved_model.save(root, tmp_path / "toy")

    layer = HubLayer(tmp_path / "toy")
    np.testing.assert_array_equal(layer(np.ones((2, 1), "float32")), [[3], [3]])
    assert [w.numpy().item() for w in layer.trainable_weights] == [1.0]
    assert [w.numpy().item() for w in layer.non_trainable_weights] == [2.0]
    assert [float(loss) for loss in layer.losses] == [3.0]
    layer.trainable = False
    layer(np.ones((2, 1), "float32"))
    assert not layer.losses
    assert not layer.trainable_weights
    layer.trainable = True
    assert [w.numpy().item() for w in layer.trainable_weights] == [1.0]


def test_keras_export_takes_the_encoder_along(encoder_path, inputs, tmp_path):
    model = classifier(HubLayer(encoder_path))
    model.export(tmp_path / "served", verbose=False)
    served = tf.saved_model.load(tmp_path / "served")
    np.testing.assert_allclose(
        served.serve({name: tf.constant(x) for name, x in inputs.items()}),
        model(inputs),
        atol=1e-6,
    )


def test_hub_is_a_replacement_of_tensorflow_hub(
    encoder_path, preprocessor_path
):
    strings = keras.Input((), dtype="string")
    preprocessor = hub.KerasLayer(
        preprocessor_path, arguments={"seq_length": 9}
    )
    packed = preprocessor(strings)
    assert packed["input_mask"].shape == (None, 9)
    # As in tensorflow_hub, weights are frozen by default.
    assert not hub.KerasLayer(encoder_path, endpoint="mlm").trainable_weights
    encoder = hub.KerasLayer(encoder_path, trainable=True)
    model = keras.Model(strings, encoder(packed)["pooled_output"])
    assert len(model.trainable_weights) == 25


def test_one_output(encoder_path, inputs):
    layer = hub.KerasLayer(encoder_path, output_key="pooled_output")
    pooled = hub.KerasLayer(encoder_path)(inputs)["pooled_output"]
    np.testing.assert_array_equal(layer(inputs), pooled)
    again = HubLayer.from_config(layer.get_config(), safe_mode=False)
    assert again.output_key == "pooled_output"
    wrong = hub.KerasLayer(encoder_path, output_key="pooled")
    with pytest.raises(InputError, match="one of .*sequence_output"):
        wrong(inputs)


def test_a_loaded_object(encoder_path, inputs):
    loaded = tf.saved_model.load(encoder_path)
    layer = hub.KerasLayer(loaded, trainable=True)
    compare(layer(inputs), dict(HubLayer(encoder_path)(inputs)))
    assert len(classifier(layer).trainable_weights) == 25 + HEAD
    assert len(hub.KerasLayer(loaded.mlm, trainable=True).weights) == 30
    with pytest.raises(InputError, match="cannot be saved; give it the path"):
        layer.get_config()


@pytest.mark.parametrize(
    "argument", [{"signature": "serving_default"}, {"tags": {"serve"}}]
)
def test_arguments_that_are_not_taken(encoder_path, argument):
    with pytest.raises(InputError, match="is not supported: .*; remove it"):
        hub.KerasLayer(encoder_path, load_options=None, **argument)


def test_errors(tmp_path):
    with pytest.raises(InputError, match="cannot load .*nothing"):
        HubLayer(tmp_path / "nothing")
    tf.saved_model.save(tf.train.Checkpoint(), tmp_path / "bare")
    with pytest.raises(InputError, match="no callable root"):
        HubLayer(tmp_path / "bare")
    with pytest.raises(InputError, match="no callable nsp"):
        HubLayer(tmp_path / "bare", endpoint="nsp")
