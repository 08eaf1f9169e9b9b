import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.exporting.config import QUANTIZATIONS
from albert_tf.exporting.litert_conversion import (
    ConstantGraph,
    convert,
    signature_runner,
)
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.runtimes.ids_program import encoder_program
from albert_tf.text.packing import ENCODER_INPUTS

ATTENTION = ("SOFTMAX", "BATCH_MATMUL")
LAYER_NORM = ("MEAN", "RSQRT")
MEAN_POOLING = ("SUM", "DIV")
OUTPUTS = {"mean_output", "pooled_output", "sequence_output"}


@pytest.fixture(scope="module")
def models(wide, length, make_rows):
    """Quantization -> the model's bytes."""
    graph = ConstantGraph(encoder_program(wide, seq_length=length))
    rows = make_rows(8, seed=1)
    return {
        name: convert(graph, name, rows if name == "int8" else None)
        for name in QUANTIZATIONS
    }


@pytest.fixture(scope="module")
def resizable(wide, length):
    """Quantization -> the bytes of a resizable model."""
    program = encoder_program(wide, seq_length=length, resizable=True)
    graph = ConstantGraph(program)
    return {name: convert(graph, name) for name in ("none", "dynamic")}


def operations(model):
    interpreter = tf.lite.Interpreter(model_content=model)
    return {op["op_name"] for op in interpreter._get_ops_details()}


def relative_error(ours, theirs):
    return np.linalg.norm(ours - theirs) / np.linalg.norm(theirs)


@pytest.mark.parametrize(
    ("quantization", "limit"),
    [
        # Sums in another order.
        ("none", 1e-5),
        # Weights have 11 bits, so each is off by 2**-12 at most.
        ("float16", 1e-3),
        # Weights and rows have 8 bits, so values are off by 2**-8 of the
        # largest in their row; two blocks with a dozen roundings each.
        ("dynamic", 0.05),
        # ... of the largest value in the calibration data.
        ("int8", 0.15),
    ],
)
def test_numbers_are_those_of_the_encoder(
    models, wide, make_rows, quantization, limit
):
    run = signature_runner(models[quantization])
    errors = {name: [] for name in OUTPUTS}
    for row in make_rows(6, seed=2):
        real = row["input_mask"] == 1
        ours, theirs = run(**row), dict(wide(row))
        theirs["mean_output"] = wide.mean_output(row)
        assert set(ours) == OUTPUTS
        for name in OUTPUTS:
            mine, exact = ours[name], theirs[name].numpy()
            if name == "sequence_output":
                mine, exact = mine[real], exact[real]
            assert mine.dtype == np.float32
            errors[name].append(relative_error(mine, exact))
    worst = {name: max(values) for name, values in errors.items()}
    assert max(worst.values()) < limit, worst
    # It is quantized as its name says, not more finely.
    assert quantization == "none" or max(worst.values()) > limit / 100, worst


def test_operations_are_built_in_and_weights_constants(models):
    for name in QUANTIZATIONS:
        found = operations(models[name])
        assert {"FULLY_CONNECTED", "SOFTMAX", "GELU"} <= found
        # Names of TensorFlow operations begin with Flex, and those of custom
        # ones are in lower case.
        assert not [x for x in found if x != x.upper()]
        assert not {"VAR_HANDLE", "READ_VARIABLE"} & found
    interpreter = tf.lite.Interpreter(model_content=models["none"])
    products = [
        op["op_name"]
        for op in interpreter._get_ops_details()
        if op["op_name"] in ("FULLY_CONNECTED", "BATCH_MATMUL")
    ]
    # A layer: query, key and value, attention output, feed-forward; scores and
    # context. Once: projection and pooler.
    # TensorFlow 2.19's converter multiplies twice by the projection.
    assert products.count("FULLY_CONNECTED") - (2 * 4 + 2) in (0, 1)
    assert products.count("BATCH_MATMUL") == 2 * 2


def test_only_matrices_are_8_bit_in_int8(models):
    interpreter = tf.lite.Interpreter(
        model_content=models["int8"],
        experimental_op_resolver_type=tf.lite.experimental.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    types = {
        tensor["index"]: tensor["dtype"]
        for tensor in interpreter.get_tensor_details()
    }
    for op in interpreter._get_ops_details():
        first = types[op["inputs"][0]]
        if op["op_name"] == "FULLY_CONNECTED":
            assert first == np.int8
        if op["op_name"] in (*ATTENTION, *LAYER_NORM, *MEAN_POOLING):
            assert first == np.float32, op["op_name"]


@pytest.mark.parametrize("quantization", ["none", "dynamic"])
def test_resizable_takes_batches_of_any_shape(
    resizable, wide, config, make_rows, quantization
):
    run = signature_runner(resizable[quantization])
    limit = {"none": 1e-5, "dynamic": 0.05}[quantization]  # as above
    longest = config.max_position_embeddings
    for batch, length in ((1, 7), (1, 1), (2, longest), (5, 12)):
        rows = make_rows(batch, length)
        inputs = {
            name: np.concatenate([row[name] for row in rows])
            for name in rows[0]
        }
        output = run(**inputs)["sequence_output"]
        assert output.shape == (batch, length, wide.config.hidden_size)
        exact = wide(inputs)["sequence_output"].numpy()
        assert relative_error(output, exact) < limit, (batch, length)


def test_signature_tells_shapes(models, resizable, length):
    for model, shape in (
        (models["none"], [1, length]),
        (resizable["none"], [-1, -1]),
    ):
        interpreter = tf.lite.Interpreter(model_content=model)
        (name,) = interpreter.get_signature_list()
        assert name == "serving_default"
        inputs = interpreter.get_signature_runner().get_input_details()
        assert set(inputs) == {"input_word_ids", "input_mask", "input_type_ids"}
        for details in inputs.values():
            assert details["dtype"] == np.int32
            assert list(details["shape_signature"]) == shape


@pytest.fixture(scope="module")
def shallow_and_deep(config, length):
    """Graphs of 2 and 4 layers, large enough that copies would show."""
    config = config.replace(hidden_size=128, intermediate_size=512)
    return [
        ConstantGraph(
            encoder_program(
                AlbertEncoder(config.replace(num_hidden_layers=layers)),
                seq_length=length,
            )
        )
        for layers in (2, 4)
    ]


@pytest.mark.parametrize(
    "quantization",
    [
        x if x == "dynamic" else pytest.param(x, marks=pytest.mark.long)
        for x in QUANTIZATIONS
    ],
)
def test_shared_layers_are_stored_once(
    shallow_and_deep, make_rows, quantization
):
    rows = make_rows(2) if quantization == "int8" else None
    shallow, deep = (
        len(convert(graph, quantization, rows)) for graph in shallow_and_deep
    )
    bytes_of_weight = {"none": 4, "float16": 2}.get(quantization, 1)
    of_a_layer = 12 * 128 * 128 * bytes_of_weight
    assert shallow > of_a_layer
    # Two more layers: their operations, but no weights.
    assert deep - shallow < min(of_a_layer, 24_000)


def test_calibration_is_deterministic(models, wide, length, make_rows):
    graph = ConstantGraph(encoder_program(wide, seq_length=length))
    again = signature_runner(convert(graph, "int8", make_rows(8, seed=1)))
    other = signature_runner(convert(graph, "int8", make_rows(8, seed=5)))
    (row,) = make_rows(1, seed=3)
    expected = signature_runner(models["int8"])(**row)["sequence_output"]
    np.testing.assert_array_equal(again(**row)["sequence_output"], expected)
    assert np.any(other(**row)["sequence_output"] != expected)


@pytest.mark.slow
@pytest.mark.parametrize("quantization", ["dynamic", "int8"])
def test_base_has_at_most_13_megabytes(quantization):
    model = AlbertEncoder(AlbertConfig.from_official("albert_base_v2"))
    rows = [{x: np.ones([1, 128], "int32") for x in ENCODER_INPUTS}]
    graph = ConstantGraph(encoder_program(model, seq_length=128))
    calibration = rows if quantization == "int8" else None
    assert len(convert(graph, quantization, calibration)) <= 13e6
