"""Properties of all models."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.finetuning.text_classification.model import AlbertClassifier
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.text.packing import ENCODER_INPUTS


@pytest.fixture(scope="module")
def model(make, config):
    """Each model; tests must not change it."""
    return make(config)


def flat(outputs):
    return [np.asarray(tf.cast(x, "float32")) for x in tf.nest.flatten(outputs)]


def test_keras_file(model, inputs, round_trip):
    loaded = round_trip(model)
    assert type(loaded) is type(model)
    assert loaded.get_config() == model.get_config()
    for x, y in zip(flat(model(inputs)), flat(loaded(inputs)), strict=True):
        np.testing.assert_array_equal(x, y)


def test_paths_are_unique_and_do_not_depend_on_names(name, model, make, config):
    paths = [v.path for v in model.trainable_variables]
    assert len(set(paths)) == len(paths)
    if name.startswith("encoder"):
        return  # The encoder's name is the first part of the path.
    again = make(config, name="other").trainable_variables
    assert [v.path for v in again] == paths


def test_packed_equals_padded_on_real_tokens(
    model, make, config, batch, inputs
):
    packed = make(config, packed=True)
    packed.set_weights(model.get_weights())
    real = batch["input_mask"].astype(bool)
    for x, y in zip(flat(model(inputs)), flat(packed(inputs)), strict=True):
        if x.shape[:2] == real.shape:
            x, y = x[real], y[real]
        np.testing.assert_allclose(x, y, atol=1e-5)


def test_keras_does_not_compile_packed_rows_with_xla(make, config):
    padded = make(config)
    padded.compile(jit_compile=True)
    assert padded.jit_compile
    packed = make(config, packed=True)
    with pytest.warns(UserWarning, match="doesn't support `jit_compile=True`"):
        packed.compile(jit_compile=True)
    assert not packed.jit_compile


def test_logits_are_float32_in_mixed_precision(make, config, inputs):
    model = make(config, dtype="mixed_bfloat16")
    assert all(v.dtype == "float32" for v in model.trainable_variables)
    states = ("sequence_output", "pooled_output", "encoder_outputs")
    outputs = model(inputs)
    if isinstance(outputs, dict):
        outputs = {k: v for k, v in outputs.items() if k not in states}
    for value in tf.nest.flatten(outputs):
        assert value.dtype in (tf.float32, tf.int32)


def exported(model, inputs, folder):
    """Exports a model with Keras and returns the export's outputs."""
    model.export(folder, verbose=False)
    loaded = tf.saved_model.load(folder)
    return loaded.serve({x: tf.constant(v, "int32") for x, v in inputs.items()})


@pytest.mark.parametrize(
    "name",
    [
        "encoder",
        *(
            pytest.param(x, marks=pytest.mark.long)
            for x in ("pretrainer", "multiple choice", "joint spans")
        ),
        *(
            pytest.param(x, marks=pytest.mark.slow)
            for x in ("classifier", "token classifier", "spans")
        ),
    ],
    scope="module",
)
def test_keras_export(name, make, config, inputs, tmp_path):
    model = make(config.replace(num_hidden_layers=1))
    found, expected = exported(model, inputs, tmp_path / "e"), model(inputs)
    if name.startswith("encoder"):
        assert set(expected) - set(found) == {"encoder_outputs"}
        expected = {x: expected[x] for x in found}
    for x, y in zip(flat(found), flat(expected), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-5)


@pytest.mark.long
def test_keras_export_of_a_trained_model(config, batch, tmp_path):
    config = config.replace(num_hidden_layers=1)
    model = AlbertClassifier(config, 2, packed=True)
    model.compile("sgd", "mse")
    model.fit(batch, np.zeros([4, 2]), verbose=0)
    expected = model.predict(batch, verbose=0)
    found = exported(model, batch, tmp_path / "e")
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
def test_keras_export_in_half_precision(config, batch, dtype, tmp_path):
    config = config.replace(num_hidden_layers=1)
    model = AlbertClassifier(config, 2, dtype=dtype)
    expected = model(batch)
    found = exported(model, batch, tmp_path / "e")
    # Fused operations round at other places.
    np.testing.assert_allclose(found, expected, atol=0.02)


@pytest.mark.peer
def test_keras_export_to_onnx(config, batch, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("tf2onnx")
    model = AlbertPretrainer(config.replace(num_hidden_layers=2))
    model.export(tmp_path / "model.onnx", "onnx", verbose=False)
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    positions = np.array([[1, 2, 3]] * 4, np.int32)
    for size in (4, 1):
        inputs = {k: np.asarray(v)[:size] for k, v in batch.items()}
        inputs["masked_lm_positions"] = positions[:size]
        expected = model(inputs)
        outputs = [output.name for output in session.get_outputs()]
        found = session.run(outputs, inputs)
        for name, value in zip(outputs, found, strict=True):
            np.testing.assert_allclose(value, expected[name], atol=1e-5)


class Subclassed(keras.Model):
    """A user's model, which Keras traces with float32 inputs for exports."""

    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def call(self, inputs, training=False):
        return self.encoder(inputs, training=training)["sequence_output"]


def test_keras_export_of_a_subclassed_model(config, batch, tmp_path):
    model = Subclassed(AlbertEncoder(config.replace(num_hidden_layers=1)))
    expected = model(batch)
    model.export(tmp_path / "e", verbose=False)
    loaded = tf.saved_model.load(tmp_path / "e")
    found = loaded.serve({x: tf.cast(v, "float32") for x, v in batch.items()})
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_ids_are_errors(config, batch, dtype):
    rounded = {x: tf.cast(v, dtype) for x, v in batch.items()}
    with pytest.raises(
        ValueError, match="is float16, which cannot|is bfloat16"
    ):
        AlbertEncoder(config, dtype=f"mixed_{dtype}")(rounded)


def test_a_name_instead_of_a_config_is_an_error(make):
    with pytest.raises(
        InputError, match=r"from_official\('albert_base_v2'\).*from_pretrained"
    ):
        make("albert_base_v2")
    with pytest.raises(InputError, match="config=768 must be an AlbertConfig"):
        make(768)
    with pytest.raises(
        InputError, match=r"official\('albert_base_v2'\).*from_p"
    ):
        make("https://tfhub.dev/google/albert_base/3")


def test_takes_the_input_names_of_hugging_face(model, inputs):
    names = ("input_ids", "attention_mask", "token_type_ids")
    theirs = dict(zip(ENCODER_INPUTS, names, strict=True))
    renamed = {theirs.get(key, key): x for key, x in inputs.items()}
    for x, y in zip(flat(model(inputs)), flat(model(renamed)), strict=True):
        np.testing.assert_array_equal(x, y)
    with pytest.raises(
        ValueError, match=r"token_type_ids\) .*\(input_word_ids"
    ):
        model({**renamed, "input_word_ids": renamed["input_ids"]})
    del renamed["input_ids"]
    with pytest.raises(ValueError, match="missing: input_ids; unknown: x"):
        model({**renamed, "x": renamed["attention_mask"]})


def test_summary_shows_shapes(name, model):
    lines = []
    model.summary(print_fn=lines.append, line_length=100)
    text = "\n".join(lines)
    hidden = model.config.hidden_size
    expected = "None, " if name.startswith("encoder") else "None, None, "
    assert f"({expected}{hidden})" in text
    # The joint head has five outputs.
    assert text.count("?") == (name == "joint spans"), text


def test_takes_lists_and_ids_alone(model, inputs):
    """As Model Garden's and transformers' models do."""
    ids, mask, types = (np.asarray(inputs[x]) for x in ENCODER_INPUTS)
    further = [x for name, x in inputs.items() if name not in ENCODER_INPUTS]
    for x, y in zip(
        flat(model(inputs)),
        flat(model([ids, mask, types, *further])),
        strict=True,
    ):
        np.testing.assert_array_equal(x, y)
    padded = np.where(mask == 1, np.maximum(ids, 1), 0)
    plain = {**inputs, ENCODER_INPUTS[0]: padded, ENCODER_INPUTS[2]: 0 * types}
    expected = flat(model(plain))
    for name in ENCODER_INPUTS[1:]:
        del plain[name]
    variants = [plain]
    if not further:
        variants += [padded, [padded], (padded, mask)]
        symbolic = keras.Input(padded.shape[1:], dtype="int32")
        outer = keras.Model(symbolic, tf.nest.flatten(model(symbolic)))
        for x, y in zip(expected, flat(outer(padded)), strict=True):
            np.testing.assert_allclose(x, y, rtol=0, atol=1e-5)
    for variant in variants:
        for x, y in zip(expected, flat(model(variant)), strict=True):
            np.testing.assert_array_equal(x, y)
    for texts in ("a film", ["a film"], np.array(["a film"])):
        with pytest.raises(ValueError, match="inputs are texts, .*tokenizer"):
            model(texts)
    with pytest.raises(ValueError, match="a list of 6, but must be ids"):
        model([ids] * 6)
