"""ONNX models in the layout of Hugging Face's libraries.

Folders that transformers.js and optimum open: `config.json`, `tokenizer.json`,
`tokenizer_config.json`, `onnx/model.onnx` and `onnx/model_quantized.onnx`.
"""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import numpy as np

from albert_tf.errors import InputError
from albert_tf.exporting.runtime_formats import purpose_of, save, save_quantized
from albert_tf.finetuning.multiple_choice.model import AlbertMultipleChoice
from albert_tf.finetuning.question_answering.model import (
    AlbertQuestionAnswering,
)
from albert_tf.finetuning.text_classification.model import AlbertClassifier
from albert_tf.finetuning.token_classification.model import (
    AlbertTokenClassifier,
)
from albert_tf.interop.checkpoint import Checkpoint
from albert_tf.interop.huggingface import (
    CONFIG_FILE,
    config_text,
    huggingface_config,
)
from albert_tf.models.base import AlbertModel
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.inputs import HUGGING_FACE_INPUTS
from albert_tf.models.pretrained import checkpoint_of
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.optional_packages import import_package
from albert_tf.runtimes.ids_program import IdsProgram
from albert_tf.runtimes.onnx_graph import onnx_model
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.tokenizer_files import huggingface_files
from albert_tf.text.tokenizer_json import TOKENIZER_JSON, wordpiece_json
from albert_tf.text.wordpiece_tokenizer import AlbertWordPieceTokenizer

MODEL_FILE = "onnx/model.onnx"
QUANTIZED_FILE = "onnx/model_quantized.onnx"
# Our names of the inputs -> Hugging Face's.
INPUT_NAMES = {ours: theirs for theirs, ours in HUGGING_FACE_INPUTS.items()}
# Task head -> the model that has it. Hugging Face's libraries have no others.
_MODELS = {
    "classifier_head": AlbertClassifier,
    "token_head": AlbertTokenClassifier,
    "span_head": AlbertQuestionAnswering,
}
_PAGE_MODELS = {**_MODELS, "choice_head": AlbertMultipleChoice}


def huggingface_program(
    checkpoint: Checkpoint, seq_length: int, *, page: bool = False
) -> IdsProgram:
    """Returns a program with the outputs of Hugging Face's models.

    They are `logits` for a classifier of texts or tokens, `start_logits` and
    `end_logits` for question answering, and otherwise `last_hidden_state`, for
    a masked language model together with the `logits` of all positions.

    Args:
      checkpoint: the model.
      seq_length: maximum number of tokens in a row.
      page: whether the program is that of a web page, which may also choose
        from options: a row is one of them, and `logits` are `[batch]`.

    Raises:
      InputError: if Hugging Face's libraries do not have its head.
    """
    return IdsProgram(
        model=_load(checkpoint, page), forward=_forward, seq_length=seq_length
    )


def _load(checkpoint: Checkpoint, page: bool) -> AlbertModel:
    models = _PAGE_MODELS if page else _MODELS
    for head in checkpoint.heads:
        if head in models:
            return models[head].from_checkpoint(checkpoint)
        if head not in ("mlm_head", "sop_head"):
            raise InputError(
                f"{checkpoint.source} has a {head}, which "
                f"{'kind=web' if page else 'layout=huggingface'} does not "
                f"support (only {', '.join(models)}, a masked language model "
                "or the encoder); use another layout or kind"
            )
    if "mlm_head" in checkpoint.components:
        return AlbertPretrainer.from_checkpoint(
            checkpoint, sop_head=False, pooler=False
        )
    return AlbertEncoder.from_checkpoint(checkpoint, pooler=False)


def _forward(model, inputs):
    if isinstance(model, AlbertQuestionAnswering):
        return model(inputs)
    if isinstance(model, AlbertMultipleChoice):
        rows = {name: values[:, None] for name, values in inputs.items()}
        return {"logits": model(rows)[:, 0]}
    if isinstance(model, tuple(_MODELS.values())):
        return {"logits": model(inputs)}
    if isinstance(model, AlbertEncoder):
        return {"last_hidden_state": model(inputs)["sequence_output"]}
    states = model.encoder(inputs)["sequence_output"]
    logits = model.mlm_head(states, model.encoder.word_embeddings)
    return {"last_hidden_state": states, "logits": logits}


def write_huggingface_models(
    program: IdsProgram, folder: pathlib.Path, packed: bool
) -> list[str]:
    """Writes a float32 and an int8 model; returns their output names."""
    onnx = import_package("onnx", purpose_of("onnx"))
    model = onnx_model(program, purpose=purpose_of("onnx"), packed=packed)
    _rename_inputs(onnx, model)
    (folder / MODEL_FILE).parent.mkdir()
    save(onnx, model, folder / MODEL_FILE)
    _quantize_table(onnx, model)
    save_quantized(model, folder / QUANTIZED_FILE)
    return [output.name for output in model.graph.output]


def _rename_inputs(onnx, model: Any) -> None:
    """Gives an ONNX model Hugging Face's inputs, in int64, in place."""
    casts = []
    for tensor in model.graph.input:
        ours = tensor.name
        tensor.name = INPUT_NAMES[ours]
        tensor.type.tensor_type.elem_type = onnx.TensorProto.INT64
        casts.append(
            onnx.helper.make_node(
                "Cast",
                [tensor.name],
                [ours],
                f"{tensor.name}/int32",
                to=onnx.TensorProto.INT32,
            )
        )
    _prepend(model, casts)


def _quantize_table(onnx, model: Any) -> None:
    """Stores an ONNX model's word embeddings in int8, in place.

    Each row has a scale. Runtimes decode the table when they load it, so it is
    stored once although both the embeddings and the head for masked words read
    it; ONNX Runtime's quantization would keep a copy in float32 for the head.
    """
    (tensor,) = (
        x
        for x in model.graph.initializer
        if x.name.endswith("/word_embeddings")
    )
    name, table = tensor.name, onnx.numpy_helper.to_array(tensor)
    scales = np.abs(table).max(axis=1, keepdims=True) / 127
    scales = np.where(scales == 0, 1, scales).astype("float32")
    rows = np.round(table / scales).astype("int8")
    tensor.CopyFrom(onnx.numpy_helper.from_array(rows, f"{name}/int8"))
    model.graph.initializer.append(
        onnx.numpy_helper.from_array(scales, f"{name}/scale")
    )
    nodes = [
        ("Cast", [f"{name}/int8"], f"{name}/cast", {"to": tensor.FLOAT}),
        ("Mul", [f"{name}/cast", f"{name}/scale"], name, {}),
    ]
    _prepend(
        model,
        [
            onnx.helper.make_node(kind, inputs, [output], output, **attributes)
            for kind, inputs, output, attributes in nodes
        ],
    )


def _prepend(model: Any, nodes: list[Any]) -> None:
    nodes = [*nodes, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def huggingface_layout_files(
    model: AlbertModel, tokenizer: Tokenizer, max_length: int
) -> dict[str, bytes]:
    """Returns `config.json` and the tokenizer's files, by name.

    Args:
      model: the exported model.
      tokenizer: its tokenizer.
      max_length: maximum number of tokens in a row.
    """
    checkpoint = checkpoint_of(model)
    # Which blocks share weights is a matter of the graph, in which these
    # programs find them.
    shared = dataclasses.replace(
        checkpoint, config=checkpoint.config.replace(sharing="all")
    )
    files = huggingface_files(tokenizer, max_length=max_length)
    if isinstance(tokenizer, AlbertWordPieceTokenizer):
        files[TOKENIZER_JSON] = wordpiece_json(tokenizer)
    config = config_text(huggingface_config(shared))
    return {CONFIG_FILE: config.encode(), **files}
