"""Exports for ONNX Runtime and OpenVINO, run by these."""

import io

import numpy as np
import pytest

from albert_tf.export import onnx_graph
from albert_tf.export.litert_conversion import encoder_program
from albert_tf.models.encoder import AlbertEncoder

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("tf2onnx", reason="tf2onnx is not installed")
onnxruntime = pytest.importorskip(
    "onnxruntime", reason="onnxruntime is not installed"
)
openvino = pytest.importorskip("openvino", reason="openvino is not installed")

RUNTIMES = ("onnx", "openvino")
# Sums in another order; what was measured is 2e-6.
TOLERANCE = 1e-5
# Matrices of less than 1024 values are not quantized.
WIDE = {"embedding_size": 32, "hidden_size": 64, "intermediate_size": 128}


def rows(batch, length, vocab_size, names=()):
    """Returns ids of rows that are padded from the second on."""
    rng = np.random.default_rng(length)
    lengths = np.append(length, rng.integers(1, length + 1, batch - 1))
    mask = (np.arange(length) < lengths[:, None]).astype("int32")
    ids = rng.integers(5, vocab_size, mask.shape, "int32")
    types = (np.arange(length) > length // 2).astype("int32")
    return dict.fromkeys(names, np.zeros_like(mask)) | {
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


@pytest.mark.parametrize(
    "changes",
    [
        {"max_position_embeddings": 128},
        {"num_hidden_layers": 4, "num_hidden_groups": 2},
        {"inner_group_num": 2, "hidden_act": "gelu_erf"},
        {"embedding_size": 16, "hidden_act": "relu"},
        {"embedding_size": 16, "project_equal_sizes": True},
        {"sharing": "ffn", "hidden_act": "tanh"},
        {"sharing": "none", "hidden_act": "linear"},
    ],
    ids=str,
)
def test_encoder(config, perturb, changes):
    encoder = perturb(AlbertEncoder(config.replace(**changes)), 3)
    model = onnx_graph.onnx_model(encoder_program(encoder, seq_length=8))
    onnx.checker.check_model(model, full_check=True)
    models = {kind: load(kind, model) for kind in RUNTIMES}
    for batch, length in ((1, 3), (5, 17), (2, 128)):
        if length > encoder.config.max_position_embeddings:
            continue
        inputs = rows(batch, length, config.vocab_size)
        expected = encoder(inputs)
        for kind, run in models.items():
            outputs = run(inputs)
            assert set(outputs) == {"sequence_output", "pooled_output"}
            for name, values in outputs.items():
                np.testing.assert_allclose(
                    values,
                    expected[name],
                    rtol=0,
                    atol=TOLERANCE,
                    err_msg=f"{kind}: {name}, {length}",
                )


@pytest.mark.parametrize(
    "name", ["mrpc", "stsb", "dream", "ner", "squad1.1", "squad2.0"]
)
def test_tasks(make_finetuned, tmp_path, name):
    from albert_tf.export.litert import task_program
    from albert_tf.finetuning.model_folder import load_model

    source = make_finetuned(name, max_seq_length=32, max_query_length=8)
    program = task_program(load_model(source, {}, packed=False))
    model = onnx_graph.onnx_model(program)
    models = {kind: load(kind, model) for kind in RUNTIMES}
    for batch, length in ((1, 7), (5, 17)):
        inputs = rows(batch, length, 90, program.inputs)
        expected = program.forward(program.model, inputs)
        for kind, run in models.items():
            outputs = run(inputs)
            assert set(outputs) == set(expected)
            for output, values in outputs.items():
                assert values.dtype == expected[output].dtype
                np.testing.assert_allclose(
                    values,
                    expected[output],
                    rtol=0,
                    atol=TOLERANCE,
                    err_msg=f"{kind}: {output}",
                )
