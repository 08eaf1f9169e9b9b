import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrainer import AlbertPretrainer


@pytest.fixture(scope="module")
def config(config):
    """Two groups of two blocks."""
    return config.replace(num_hidden_groups=2, inner_group_num=2)


@pytest.fixture(scope="module")
def one_block(config):
    """Tracing a graph takes a second for each block."""
    return config.replace(
        num_hidden_layers=1, num_hidden_groups=1, inner_group_num=1
    )


@pytest.fixture
def batch(batch):
    """`batch`, of which a row has one token."""
    kept = np.arange(12) < np.array([7, 1, 12, 4])[:, None]
    return {name: x * kept for name, x in batch.items()}


@pytest.fixture(scope="module", params=["all", "none"])
def built(request, config):
    """An encoder with shared and one with unshared layers."""
    return AlbertEncoder(config.replace(sharing=request.param))


@pytest.fixture
def encoder(built):
    """An encoder with padded rows; tests of packed rows set `packed`."""
    built.packed = False
    return built


def test_packed_equals_padded(encoder, batch):
    check_packed(encoder, batch, lambda function: function)


def test_packed_equals_padded_in_a_graph(one_block, batch):
    encoder = AlbertEncoder(one_block)
    check_packed(encoder, batch, lambda run: tf.function(run, autograph=False))


def check_packed(encoder, batch, compiled):
    """Compares outputs and gradients of packed rows with those of padded."""
    weights = np.random.default_rng(2).normal(size=(4, 12, 16))
    weights = tf.constant(weights * batch["input_mask"][..., None], "float32")
    variables = [v.value for v in encoder.trainable_variables]

    def run(inputs):
        with tf.GradientTape() as tape:
            outputs = encoder(inputs)
            loss = tf.reduce_sum(outputs["sequence_output"] * weights)
            loss += tf.reduce_sum(outputs["pooled_output"])
        gradients = tape.gradient(loss, variables)
        return outputs, [tf.convert_to_tensor(g) for g in gradients]

    padded, padded_gradients = run(batch)
    encoder.packed = True
    packed, packed_gradients = compiled(run)(batch)
    real = batch["input_mask"].astype(bool)
    for x, y in zip(
        padded["encoder_outputs"], packed["encoder_outputs"], strict=True
    ):
        np.testing.assert_allclose(x.numpy()[real], y.numpy()[real], atol=1e-5)
        assert np.all(y.numpy()[~real] == 0.0)
    np.testing.assert_allclose(
        padded["pooled_output"], packed["pooled_output"], atol=1e-5
    )
    for x, y in zip(padded_gradients, packed_gradients, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-5 * max(1, np.abs(x).max()))


@pytest.mark.parametrize("sequences", [False, True])
@pytest.mark.parametrize("graph", [False, True])
def test_packed_batches_without_tokens(one_block, graph, sequences):
    """As the last one of several replicas may be."""
    model = AlbertPretrainer(one_block, packed=True)
    names = ["input_word_ids", "input_mask", "input_type_ids"]
    names += ["sequence_ids", "sequence_starts"] if sequences else []
    call = tf.function(model, autograph=False) if graph else model
    for rows in (2, 0):
        batch = {name: tf.zeros([rows, 12], "int32") for name in names}
        outputs = call({**batch, "masked_lm_positions": batch[names[0]][:, :3]})
        assert outputs["mlm_logits"].shape == (rows, 3, 50)
        assert all(np.isfinite(x).all() for x in outputs.values())
        states = model.encoder(batch)["sequence_output"]
        assert not np.any(states)


@pytest.mark.parametrize("packed", [False, True])
def test_states_at_equals_the_full_computation(encoder, batch, packed):
    encoder.packed = packed
    positions = np.array([[0, 3, 6], [0, 0, 0], [0, 11, 2], [0, 1, 3]])
    states = encoder.states_at(batch, positions)
    full = encoder(batch)["sequence_output"].numpy()
    expected = np.take_along_axis(full, positions[..., None], axis=1)
    np.testing.assert_allclose(states, expected, atol=1e-5)


@pytest.mark.parametrize("packed", [False, True])
def test_pooled_output_alone_equals_the_full_computation(
    encoder, batch, packed
):
    encoder.packed = packed
    np.testing.assert_allclose(
        encoder.pooled_output(batch), encoder(batch)["pooled_output"], atol=1e-5
    )


def test_without_pooler(config, batch):
    encoder = AlbertEncoder(config, pooler=False)
    assert not any("pooler" in v.path for v in encoder.weights)
    outputs = encoder(batch)
    assert set(outputs) == {"sequence_output", "encoder_outputs"}
    with pytest.raises(
        ValueError, match="encoder was created with pooler=False"
    ):
        encoder.pooled_output(batch)


def test_padding_does_not_change_real_tokens(encoder, batch):
    wide = {k: np.pad(v, ((0, 0), (0, 6))) for k, v in batch.items()}
    real = batch["input_mask"].astype(bool)
    x = encoder(batch)["sequence_output"].numpy()
    y = encoder(wide)["sequence_output"].numpy()[:, :12]
    np.testing.assert_allclose(x[real], y[real], atol=1e-5)


def test_only_layers_of_a_group_share_weights(config):
    config = config.replace(num_hidden_layers=4)
    paths = {v.path for v in AlbertEncoder(config).trainable_variables}
    scopes = {p.split("/attention/")[0] for p in paths if "/attention/" in p}
    assert scopes == {
        f"encoder/transformer/group_{g}/inner_{i}"
        for g in (0, 1)
        for i in (0, 1)
    }
    unshared = AlbertEncoder(config.replace(sharing="attention"))
    paths = {v.path for v in unshared.trainable_variables}
    assert len(paths) == len(unshared.trainable_variables)
    for layer in range(4):
        assert (
            f"encoder/transformer/layer_{layer}/inner_1/feed_forward/output/"
            "kernel"
        ) in paths


def test_initial_weights_are_truncated_normal_and_differ():
    keras.utils.set_random_seed(4)
    encoder = AlbertEncoder(AlbertConfig(vocab_size=2000))
    values = {v.path: np.asarray(v) for v in encoder.trainable_variables}
    scope = "encoder/transformer/group_0/inner_0/attention/"
    query, key = values[scope + "query/kernel"], values[scope + "key/kernel"]
    assert not np.array_equal(query, key)
    for kernel in (query, values["encoder/embeddings/word_embeddings"]):
        assert np.abs(kernel).max() <= 0.04  # cut at two standard deviations
        # A normal cut at 2 sigma has 0.88 of its standard deviation.
        assert kernel.std() == pytest.approx(0.02 * 0.88, rel=0.02)
    assert np.all(values[scope + "query/bias"] == 0)
    assert np.all(values[scope + "layer_norm/gamma"] == 1)


def test_trains_in_a_functional_model(one_block, batch):
    names = ("input_word_ids", "input_mask", "input_type_ids")
    inputs = {
        name: keras.Input((None,), dtype="int32", name=name) for name in names
    }
    encoder = AlbertEncoder(one_block)
    pooled = encoder(inputs)["pooled_output"]
    model = keras.Model(inputs, keras.layers.Dense(1)(pooled))
    model.compile("adam", "mse", run_eagerly=True)  # Tracing takes seconds.
    before = np.asarray(encoder.word_embeddings).copy()
    history = model.fit(
        batch, np.array([0.0, 1.0, 0.0, 1.0]), epochs=3, verbose=0
    )
    assert history.history["loss"][-1] < history.history["loss"][0]
    assert np.abs(np.asarray(encoder.word_embeddings) - before).max() > 0


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64"])
def test_inputs_of_any_type(encoder, batch, dtype):
    ids, mask = (np.asarray(batch[x]) for x in ("input_word_ids", "input_mask"))
    expected = encoder({"input_word_ids": ids, "input_mask": mask})
    kind = "int32" if dtype in ("bool", "int8") else dtype
    found = encoder(
        {"input_word_ids": ids.astype(kind), "input_mask": mask.astype(dtype)}
    )
    np.testing.assert_array_equal(
        found["sequence_output"], expected["sequence_output"]
    )


def test_wrong_inputs_are_named(config, batch):
    encoder = AlbertEncoder(config)
    with pytest.raises(ValueError, match="missing: input_word_ids"):
        encoder({k: v for k, v in batch.items() if "word" not in k})
    with pytest.raises(ValueError, match="unknown: segment_ids"):
        encoder({**batch, "segment_ids": batch["input_type_ids"]})
    long = {k: np.pad(v, ((0, 0), (0, 9))) for k, v in batch.items()}
    with pytest.raises(ValueError, match="max_position_embeddings is 20"):
        encoder(long)
    with pytest.raises(ValueError, match=r"ids has .*\[12\].* \[batch, seq\]"):
        encoder({k: v[0] for k, v in batch.items()})
    short = {**batch, "input_mask": batch["input_mask"][:, :5]}
    with pytest.raises(ValueError, match=r"input_mask has the shape \[4, 5\]"):
        encoder(short)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("input_word_ids", 50),
        ("input_type_ids", 2),
        ("masked_lm_positions", 12),
    ],
)
def test_ids_out_of_range_are_errors(one_block, batch, name, size, packed):
    """Negative ids do not count from the end, nor reach other sequences."""
    model = AlbertPretrainer(one_block, packed=packed)
    batch = {**batch, "masked_lm_positions": np.zeros((4, 2), "int32")}
    for value in (-1, size):
        inputs = {key: array.copy() for key, array in batch.items()}
        inputs[name][0, 1] = value
        for call in (model, model.predict_on_batch):
            with pytest.raises(
                tf.errors.InvalidArgumentError,
                match=rf"= {value} is not in \[0, {size}\)",
            ):
                call(inputs)
