"""Exports for ONNX Runtime and OpenVINO, run by these runtimes."""

import io

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.exporting import runtime_formats
from albert_tf.exporting.check_program import load_export, relative_error
from albert_tf.exporting.config import ExportConfig
from albert_tf.exporting.manifest import read_export
from albert_tf.exporting.runtimes import export_for_runtime
from albert_tf.finetuning.text_classification.model import AlbertClassifier
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.runtimes import onnx_graph
from albert_tf.runtimes.ids_program import IdsProgram, encoder_program
from albert_tf.text.tokenizer_files import load_tokenizer

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("tf2onnx", reason="tf2onnx is not installed")
onnxruntime = pytest.importorskip(
    "onnxruntime", reason="onnxruntime is not installed"
)
openvino = pytest.importorskip("openvino", reason="openvino is not installed")

RUNTIMES = ("onnx", "openvino")
# tf2onnx takes several seconds for each model.
LONG = pytest.mark.long
# Sums in another order; the measured difference is 2e-6.
TOLERANCE = 1e-5


def rows(batch, length, vocab_size):
    """Returns random ids; all rows but the first are padded."""
    rng = np.random.default_rng(length)
    lengths = np.append(length, rng.integers(1, length + 1, batch - 1))
    mask = (np.arange(length) < lengths[:, None]).astype("int32")
    ids = rng.integers(5, vocab_size, mask.shape, "int32")
    types = (np.arange(length) > length // 2).astype("int32")
    return {
        "input_word_ids": ids * mask,
        "input_mask": mask,
        "input_type_ids": types * mask,
    }


def load(kind, model):
    """Returns a function from inputs to outputs, by name, in a runtime."""
    content = model.SerializeToString()
    if kind == "onnx":
        session = onnxruntime.InferenceSession(content)
        names = [x.name for x in session.get_outputs()]
        return lambda inputs: dict(
            zip(names, session.run(names, inputs), strict=True)
        )
    compiled = openvino.Core().compile_model(
        openvino.convert_model(io.BytesIO(content)),
        "CPU",
        {"INFERENCE_PRECISION_HINT": "f32"},
    )
    return lambda inputs: {
        name.get_any_name(): values for name, values in compiled(inputs).items()
    }


GROUPS = {
    "num_hidden_layers": 4,
    "num_hidden_groups": 2,
    "embedding_size": 16,
    "project_equal_sizes": True,
    "hidden_act": "gelu_erf",
}
LONG_ROWS = {
    "max_position_embeddings": 128,
    "inner_group_num": 2,
    "hidden_act": "relu",
}


@pytest.mark.parametrize(
    ("changes", "packed"),
    [
        (GROUPS, False),
        (GROUPS, True),
        pytest.param(LONG_ROWS, True, marks=LONG),
        pytest.param(
            {"sharing": "ffn", "hidden_act": "tanh"}, False, marks=LONG
        ),
        pytest.param(
            {"sharing": "none", "hidden_act": "linear"},
            True,
            marks=pytest.mark.slow,
        ),
    ],
    ids=str,
)
def test_encoder(config, perturb, changes, packed):
    encoder = AlbertEncoder(config.replace(**changes), packed=packed)
    perturb(encoder, 3)
    model = onnx_graph.onnx_model(
        encoder_program(encoder, seq_length=8), packed=packed
    )
    onnx.checker.check_model(model, full_check=True)
    models = {kind: load(kind, model) for kind in RUNTIMES}
    for batch, length in ((1, 3), (5, 17), (2, 128)):
        if length > encoder.config.max_position_embeddings:
            continue
        inputs = rows(batch, length, config.vocab_size)
        expected = dict(encoder(inputs))
        del expected["encoder_outputs"]
        expected["mean_output"] = encoder.mean_output(inputs)
        for kind, run in models.items():
            outputs = run(inputs)
            assert set(outputs) == set(expected)
            for name, values in outputs.items():
                np.testing.assert_allclose(
                    values,
                    expected[name],
                    rtol=0,
                    atol=TOLERANCE,
                    err_msg=f"{kind}: {name}, {length}",
                )


@pytest.fixture(scope="module")
def quantized(wide, tokenizer, tmp_path_factory):
    """(kind, quantization or "packed") -> the folder of an export."""
    folder = tmp_path_factory.mktemp("runtimes")
    program = encoder_program(wide, seq_length=24)
    made = {}
    for kind in RUNTIMES:
        for name in ("none", "float16", "dynamic", "packed"):
            packed = name == "packed"
            made[kind, name] = folder / f"{kind}-{name}"
            export_for_runtime(
                program,
                ExportConfig(
                    model="wide",
                    output=made[kind, name],
                    kind=kind,
                    quantization="none" if packed else name,
                    packed=packed,
                ),
                tokenizer=tokenizer,
                task={"labels": ["bad", "good"]},
            )
    return made


@pytest.mark.parametrize("kind", RUNTIMES)
@pytest.mark.parametrize(
    ("quantization", "least", "most", "size"),
    [
        # Sums in another order.
        ("none", 0, 1e-5, 1.0),
        # 11 bits: each weight is off by 2**-12 at most.
        ("float16", 1e-5, 2e-3, 0.6),
        # 8 bits, 7 of ONNX Runtime: see litert/test_conversion.py.
        ("dynamic", 2e-3, 0.05, 0.45),
    ],
)
def test_quantization(
    quantized, wide, config, kind, quantization, least, most, size
):
    folder = quantized[kind, quantization]
    inputs = rows(5, 17, config.vocab_size)
    outputs = load_export(folder).call("", inputs)
    expected = dict(wide(inputs), mean_output=wide.mean_output(inputs))
    errors = [relative_error(outputs[name], expected[name]) for name in outputs]
    assert least <= min(errors) <= max(errors) <= most
    weights = {"onnx": "model.onnx", "openvino": "model.bin"}[kind]
    of_float32 = 4 * wide.count_params()
    # Beside the weights, there are the graph's nodes.
    nodes = 40_000 if kind == "onnx" else 2_000
    assert (folder / weights).stat().st_size < size * of_float32 + nodes


@pytest.mark.parametrize("kind", RUNTIMES)
def test_folder(quantized, tokenizer, kind):
    folder = quantized[kind, "none"]
    models = {"onnx": ["model.onnx"], "openvino": ["model.bin", "model.xml"]}
    model = models[kind]
    beside = ["labels.txt", "spiece.model", "tokenizer_config.json"]
    values = read_export(folder)
    assert sorted(values["files"]) == sorted(model + beside)
    names = [path.name for path in folder.iterdir()]
    assert sorted(names) == sorted(
        ["README.md", "export.json", *model, *beside]
    )
    assert (folder / "labels.txt").read_text() == "bad\ngood\n"
    text = "I have really seen 1,000 good movies"
    assert load_tokenizer(folder).encode(text) == tokenizer.encode(text)


def test_equal_exports_have_equal_bytes(quantized, wide, tokenizer, tmp_path):
    export_for_runtime(
        encoder_program(wide, seq_length=24),
        ExportConfig(
            model="wide", output=tmp_path / "again", kind="onnx", packed=False
        ),
        tokenizer=tokenizer,
        task={"labels": ["bad", "good"]},
    )
    for name in ("model.onnx", "export.json"):
        again = (tmp_path / "again" / name).read_bytes()
        assert again == (quantized["onnx", "none"] / name).read_bytes(), name


@pytest.mark.parametrize(
    ("kind", "quantization"),
    [("onnx", "none"), ("onnx", "dynamic"), ("openvino", "dynamic")],
)
def test_shared_layers_are_stored_once(
    config, tokenizer, tmp_path, kind, quantization
):
    sizes = []
    for layers in (2, 4):
        model = AlbertEncoder(
            config.replace(
                num_hidden_layers=layers, hidden_size=128, intermediate_size=512
            )
        )
        folder = tmp_path / str(layers)
        export_for_runtime(
            encoder_program(model, seq_length=8),
            ExportConfig(
                model="m", output=folder, kind=kind, quantization=quantization
            ),
            tokenizer=tokenizer,
        )
        files = [x for x in folder.glob("model.*") if x.suffix != ".xml"]
        sizes.append(sum(file.stat().st_size for file in files))
    of_a_layer = 12 * 128 * 128 * {"none": 4, "dynamic": 1}[quantization]
    assert sizes[0] > of_a_layer
    # Two more layers: their nodes, but no weights.
    assert sizes[1] - sizes[0] < min(of_a_layer, 24_000), sizes


def test_weights_of_more_than_two_gigabytes(
    wide, tokenizer, tmp_path, monkeypatch
):
    monkeypatch.setattr(runtime_formats, "_LARGEST_FILE", 10_000)
    program = encoder_program(wide, seq_length=24)
    inputs = rows(2, 7, wide.config.vocab_size)
    for kind, quantization, name in (
        ("onnx", "none", "model.onnx.data"),
        ("onnx", "dynamic", "model.onnx.data"),
        ("openvino", "none", "model.bin"),
    ):
        folder = tmp_path / f"{kind}-{quantization}"
        export_for_runtime(
            program,
            ExportConfig(
                model="m", output=folder, kind=kind, quantization=quantization
            ),
            tokenizer=tokenizer,
        )
        assert name in read_export(folder)["files"]
        model = load_export(folder)
        error = relative_error(
            model.call("", inputs)["pooled_output"],
            wide(inputs)["pooled_output"],
        )
        assert error < (0.05 if quantization == "dynamic" else 1e-5)
        if (kind, quantization) == ("onnx", "none"):
            assert (folder / "model.onnx").stat().st_size < 100_000
            model.weights()


def test_onnx_runtime_optimizer_fuses(quantized, wide):
    """Its transformer optimizer finds attention, LayerNorm and GELU."""
    from onnxruntime.transformers import optimizer

    config = wide.config
    path = quantized["onnx", "none"] / "model.onnx"
    model = optimizer.optimize_model(
        str(path),
        model_type="bert",
        num_heads=config.num_attention_heads,
        hidden_size=config.hidden_size,
        opt_level=0,
    )
    counts = model.get_fused_operator_statistics()
    layers = config.num_hidden_layers
    assert counts["Attention"] == layers
    # One after the embeddings, and two in each layer.
    assert (
        counts["SkipLayerNormalization"] + counts["LayerNormalization"]
        == 1 + 2 * layers
    )
    assert counts["BiasGelu"] + counts["FastGelu"] == layers


@pytest.mark.parametrize("name", ["none", "packed"])
def test_onnx_runtime_fuses(quantized, wide, tmp_path, name):
    """A session fuses GELU without the optimizer."""
    path = quantized["onnx", name] / "model.onnx"
    layers = wide.config.num_hidden_layers
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    onnxruntime.InferenceSession(path, options)
    nodes = onnx.load(tmp_path / "optimized.onnx").graph.node
    found = [node.op_type for node in nodes]
    assert found.count("FastGelu") + found.count("BiasGelu") == layers
    assert "Tanh" not in found or found.count("Tanh") == 1  # the pooler's


@pytest.mark.parametrize("name", ["none", "dynamic", "packed"])
def test_openvino_fuses(quantized, wide, name):
    model = openvino.Core().compile_model(
        quantized["openvino", name] / "model.xml",
        "CPU",
        {"INFERENCE_PRECISION_HINT": "f32"},
    )
    nodes = []
    for node in model.get_runtime_model().get_ops():
        info = node.get_rt_info()
        nodes.append(
            tuple(
                str(info[name].value)
                for name in (
                    "layerType",
                    "originalLayersNames",
                    "runtimePrecision",
                )
            )
        )
    layers = wide.config.num_hidden_layers
    # Scores, mask, softmax and context of a layer are one node, ...
    fused = ("Subgraph", "ScaledDotProductAttention")
    attention = [n for t, n, _ in nodes if "Softmax" in n or t == fused[1]]
    assert len(attention) == layers
    assert {t for t, n, _ in nodes if "Softmax" in n} <= set(fused)
    # ... GELU is a part of the product before it, ...
    types = [layer_type for layer_type, _, _ in nodes]
    assert types.count("MVN") == 1 + 2 * layers
    assert "Tanh" not in types
    assert "Math" not in types
    # ... and products are in 8 bits if the weights are.
    products = [p for t, _, p in nodes if t == "FullyConnected"]
    # Query, key, value, output and two of the feed-forward in each layer; the
    # projection and the pooler.
    assert len(products) == 6 * layers + 2
    expected = "i8" if name == "dynamic" else "f32"
    if name != "dynamic" or products.count("i8"):
        assert products.count(expected) >= 6 * layers


def test_operations_that_onnx_does_not_have(wide):
    def forward(model, inputs):
        pooled = model.pooled_output(inputs)
        return {"pooled": tf.math.igamma(pooled, pooled)}

    program = IdsProgram(model=wide, forward=forward, seq_length=8)
    with pytest.raises(
        InputError, match="computes Igamma, for which ONNX has no"
    ):
        onnx_graph.onnx_model(program)


@pytest.mark.long
@pytest.mark.parametrize("packed", [False, True])
def test_any_program_of_a_model(wide, config, packed):
    """Hidden states, two calls, and a head of TensorFlow's operations."""

    def forward(model, inputs):
        states = model(inputs)["encoder_outputs"]
        swapped = {**inputs, "input_type_ids": 1 - inputs["input_type_ids"]}
        mask = tf.cast(inputs["input_mask"], tf.float32)[:, :, None]
        mean = tf.reduce_sum(states[0] * mask, 1) / tf.reduce_sum(mask, 1)
        other = model.states_at(swapped, inputs["input_mask"][:, :2])
        return {"mean": mean, "other": tf.nn.l2_normalize(other, -1)}

    program = IdsProgram(model=wide, forward=forward, seq_length=8)
    model = onnx_graph.onnx_model(program, packed=packed)
    inputs = rows(3, 9, config.vocab_size)
    expected = forward(wide, {x: tf.constant(y) for x, y in inputs.items()})
    for kind in RUNTIMES:
        outputs = load(kind, model)(inputs)
        for name, values in outputs.items():
            np.testing.assert_allclose(
                values, expected[name], rtol=0, atol=TOLERANCE, err_msg=name
            )


@LONG
def test_through_keras(config, tmp_path):
    """`model.export(format="onnx")` of Keras."""
    model = AlbertClassifier(config, num_labels=3)
    path = tmp_path / "classifier.onnx"
    model.export(path, format="onnx", verbose=False)
    run = load("onnx", onnx.load(path))
    for batch, length in ((1, 5), (3, 17)):
        inputs = rows(batch, length, config.vocab_size)
        (logits,) = run(inputs).values()
        np.testing.assert_allclose(
            logits, model(inputs), rtol=0, atol=TOLERANCE
        )
