"""Conversion of one random checkpoint to the formats of all systems.

Each format is written in its own process by `MAKERS[name](folder, output,
threads)`, from formats in `folder` that were written before.
"""

from __future__ import annotations

import importlib
import json
import os

import numpy as np

CONFIG = "model.json"


def _checkpoint(folder, output, threads):
    """Writes our checkpoint of a pretrainer, which transformers also opens."""
    del threads
    os.environ["KERAS_BACKEND"] = "tensorflow"
    import keras
    from cpu_work import text_tokenizer

    from albert_tf.config import AlbertConfig
    from albert_tf.finetuning.text_classification.model import AlbertClassifier
    from albert_tf.models.pretrainer import AlbertPretrainer

    described = json.loads((folder / CONFIG).read_text())
    config = AlbertConfig.from_dict(described["config"])
    tokenizer = None
    if described["vocabulary"]:
        tokenizer = text_tokenizer(described["vocabulary"])
    keras.utils.set_random_seed(0)
    model = AlbertPretrainer(config)
    # Larger than initial weights, so that attention is not uniform.
    rng = np.random.default_rng(0)
    for variable in model.trainable_variables:
        if len(variable.shape) > 1:
            variable.assign(rng.normal(0, 0.04, variable.shape))
    model.save_pretrained(output, tokenizer)
    classifier = AlbertClassifier.from_pretrained(
        output, new_head=True, num_labels=2, dropout=0.0
    )
    classifier.save_pretrained(folder / "classifier", tokenizer)


def _saved_model(folder, output, threads):
    """Writes the export of `albert export --kind=encoder`."""
    del threads
    from albert_tf.exporting.encoder import export_encoder
    from albert_tf.models.encoder import AlbertEncoder

    model = AlbertEncoder.from_pretrained(folder / "checkpoint")
    export_encoder(model, output, tokenizer=None)


def _text_model(folder, output, threads):
    """Writes the export of `albert export --kind=text_encoder`."""
    del threads
    from albert_tf.exporting.text_encoder import export_text_encoder
    from albert_tf.models.encoder import AlbertEncoder

    described = json.loads((folder / CONFIG).read_text())
    if not described["vocabulary"]:
        return
    model = AlbertEncoder.from_pretrained(folder / "checkpoint")
    assert model.tokenizer is not None
    export_text_encoder(model, output, tokenizer=model.tokenizer)


def _converted(to, *drops):
    def make(folder, output, threads):
        del threads
        from albert_tf.interop.convert import convert
        from albert_tf.interop.convert_config import ConvertConfig

        described = json.loads((folder / CONFIG).read_text())
        drop = tuple(
            x for x in drops if x != "tokenizer" or described["vocabulary"]
        )
        convert(
            ConvertConfig(
                input=folder / "checkpoint", output=output, to=to, drop=drop
            )
        )

    return make


def _onnx(folder, output, threads):
    """Writes PyTorch's export, optimized by ONNX Runtime for Transformers.

    The optimizer only recognizes graphs of PyTorch's tracing exporter with
    eager attention.

    Raises:
      RuntimeError: if the attention of a block is not fused.
    """
    import onnx
    import torch
    import transformers
    from onnxruntime.transformers import optimizer
    from onnxruntime.transformers.fusion_options import FusionOptions

    output.mkdir()
    torch.set_num_threads(threads)
    model = transformers.AlbertModel.from_pretrained(
        folder / "checkpoint", attn_implementation="eager"
    ).eval()
    model.config.return_dict = False
    ids = torch.ones([2, 8], dtype=torch.long)
    names = ["input_ids", "attention_mask", "token_type_ids"]
    outputs = ["sequence_output", "pooled_output"]
    axes = {name: {0: "batch", 1: "length"} for name in [*names, outputs[0]]}
    torch.onnx.export(
        model,
        (ids, ids, torch.zeros_like(ids)),
        output / "exported.onnx",
        input_names=names,
        output_names=outputs,
        dynamic_axes={**axes, outputs[1]: {0: "batch"}},
        opset_version=17,
        dynamo=False,
    )
    graph = onnx.load(output / "exported.onnx")
    _put_attention_first(graph.graph)
    onnx.save(graph, output / "exported.onnx")
    config = model.config
    optimized = optimizer.optimize_model(
        os.fspath(output / "exported.onnx"),
        model_type="bert",
        num_heads=config.num_attention_heads,
        hidden_size=config.hidden_size,
        optimization_options=FusionOptions("bert"),
    )
    fused = optimized.get_fused_operator_statistics()
    blocks = config.num_hidden_layers * config.inner_group_num
    if fused["Attention"] + fused.get("MultiHeadAttention", 0) != blocks:
        raise RuntimeError(f"{blocks} blocks, but of fused nodes {fused}")
    (output / "exported.onnx").unlink()
    onnx.save(optimized.model, output / "model.onnx")


def _put_attention_first(graph):
    """Swaps the terms of the first block's residual sum.

    The optimizer follows the first term that is an addition. In the first block
    that is the embedding projection, and the attention would not be fused.
    """
    projection = "embedding_hidden_mapping_in"
    for node in graph.node:
        if (
            node.op_type == "Add"
            and projection in node.input[0]
            and "attention" in node.name
        ):
            first, second = node.input
            node.input[:] = [second, first]


def _onnx_int8(folder, output, threads):
    """Quantizes dynamically with ONNX Runtime."""
    del threads
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    output.mkdir()
    quantize_dynamic(
        folder / "onnx" / "model.onnx",
        output / "model.onnx",
        weight_type=QuantType.QInt8,
        per_channel=True,
        # For outputs of fused nodes, whose types onnx cannot infer.
        extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
    )


def _exported(kind, quantization):
    """Returns a maker of `albert export --kind=onnx` or `openvino`."""

    def make(folder, output, threads):
        del threads
        from albert_tf.exporting.config import ExportConfig
        from albert_tf.exporting.runtimes import export_for_runtime
        from albert_tf.models.encoder import AlbertEncoder
        from albert_tf.runtimes.ids_program import encoder_program

        model = AlbertEncoder.from_pretrained(folder / "checkpoint")
        if model.tokenizer is None:
            raise RuntimeError("this export needs a vocabulary: see --data")
        longest = model.config.max_position_embeddings
        export_for_runtime(
            encoder_program(model, seq_length=longest),
            ExportConfig(
                model=folder / "checkpoint",
                output=output,
                kind=kind,
                quantization=quantization,
                packed=True,
            ),
            tokenizer=model.tokenizer,
        )

    return make


def _openvino_int8(folder, output, threads):
    """Quantizes with NNCF and calibration, for Transformers."""
    del threads
    import nncf
    import openvino

    described = json.loads((folder / CONFIG).read_text())["config"]
    rng = np.random.default_rng(1)
    shape = [1, 64]
    rows = [
        {
            "input_word_ids": rng.integers(
                5, described["vocab_size"], shape, dtype="int32"
            ),
            "input_mask": np.ones(shape, "int32"),
            "input_type_ids": np.zeros(shape, "int32"),
        }
        for _ in range(32)
    ]
    model = nncf.quantize(
        openvino.Core().read_model(folder / "openvino" / "model.xml"),
        nncf.Dataset(rows),
        model_type=nncf.ModelType.TRANSFORMER,
        subset_size=len(rows),
    )
    openvino.save_model(model, output / "model.xml", compress_to_fp16=False)


def _model_garden(folder, output, threads):
    importlib.import_module("cpu_systems.model_garden").make(
        folder, output, threads
    )


MAKERS = {
    "checkpoint": _checkpoint,
    "saved_model": _saved_model,
    "text_model": _text_model,
    "keras_hub": _converted("keras_hub", "tokenizer", "sop_head"),
    "google": _converted("google", "tokenizer"),
    "onnx": _onnx,
    "onnx_int8": _onnx_int8,
    "onnx_export": _exported("onnx", "none"),
    "onnx_export_dynamic": _exported("onnx", "dynamic"),
    "openvino": _exported("openvino", "none"),
    "openvino_dynamic": _exported("openvino", "dynamic"),
    "openvino_int8": _openvino_int8,
    "model_garden": _model_garden,
}
