"""Metadata of LiteRT models, by which MediaPipe Tasks takes strings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import flatbuffers
import numpy as np
from tensorflow.lite.python import schema_py_generated as schema
from tensorflow.lite.tools import flatbuffer_utils

from albert_tf.runtimes.ids_program import IdsProgram
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.character_map import with_own_normalizer
from albert_tf.text.packing import ENCODER_INPUTS
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer

# A SentencePiece model for programs that normalize no text.
OWN_NORMALIZER_FILE = "vocabulary.spm"

# Fields and values of MediaPipe's metadata_schema.fbs.
_SUBGRAPHS = 3  # ModelMetadata
_INPUTS, _OUTPUTS, _INPUT_UNITS = 2, 3, 5  # SubGraphMetadata
_NAME, _TENSOR_FILES = 0, 6  # TensorMetadata
_OPTIONS_TYPE, _OPTIONS = 0, 1  # ProcessUnit
_BERT, _SENTENCEPIECE = 4, 5  # ProcessUnitOptions
_FILES = 0  # BertTokenizerOptions, SentencePieceTokenizerOptions
_FILE_NAME, _FILE_TYPE = 0, 2  # AssociatedFile
_AXIS_LABELS, _VOCABULARY = 2, 5  # AssociatedFileType
_THEIR_NAMES = dict(
    zip(ENCODER_INPUTS, ("ids", "mask", "segment_ids"), strict=True)
)


def mediapipe_task(
    program: IdsProgram,
    tokenizer: Tokenizer,
    output_ranks: Mapping[str, int],
    has_labels: bool,
) -> str:
    """Returns the class of MediaPipe Tasks that runs a program on strings.

    It is "TextClassifier", "TextEmbedder" or "". MediaPipe lower-cases ASCII,
    makes a row of one text, and cuts it to a fixed length only.

    Args:
      program: the program.
      tokenizer: its tokenizer.
      output_ranks: the number of axes of each output, sorted by name.
      has_labels: whether there is a label for each value of the only output.
    """
    ranks = list(output_ranks.values())
    if (
        program.inputs != ENCODER_INPUTS
        or program.has_pairs
        or program.resizable
        or not tokenizer.settings["do_lower_case"]
        or ranks[0] != 2
    ):
        return ""
    if len(ranks) == 1:
        return "TextClassifier" if has_labels else "TextEmbedder"
    # An encoder's second vectors are those of tokens. Tasks with several
    # outputs decode them.
    return "TextEmbedder" if "sequence_output" in output_ranks else ""


def metadata_files(tokenizer: Tokenizer) -> dict[str, bytes]:
    """Returns the files that the metadata need beside those of a tokenizer."""
    if not isinstance(tokenizer, AlbertTokenizer):
        return {}
    return {OWN_NORMALIZER_FILE: with_own_normalizer(tokenizer)}


def with_metadata(
    model: bytes, tokenizer: Tokenizer, labels_file: str | None = None
) -> bytes:
    """Adds metadata to a model of the encoder's inputs.

    They name inputs and outputs, and the associated files, which are to be
    appended to the model as an uncompressed ZIP archive. Outputs are sorted by
    name, so that `mean_output` is the first one of an encoder.

    Args:
      model: a serialized model with one signature.
      tokenizer: its tokenizer.
      labels_file: name of the file with the labels of the first output.
    """
    packed = flatbuffer_utils.convert_bytearray_to_object(model)
    graph, signature = packed.subgraphs[0], packed.signatureDefs[0]
    names = {
        tensor.tensorIndex: tensor.name.decode()
        for tensor in (*signature.inputs, *signature.outputs)
    }
    graph.outputs = sorted(graph.outputs, key=names.__getitem__)
    outputs = [{_NAME: names[x]} for x in graph.outputs]
    if labels_file:
        labels = {_FILE_NAME: labels_file, _FILE_TYPE: _AXIS_LABELS}
        outputs[0][_TENSOR_FILES] = [labels]
    kind, vocabulary = _BERT, tokenizer.file_name
    if isinstance(tokenizer, AlbertTokenizer):
        kind, vocabulary = _SENTENCEPIECE, OWN_NORMALIZER_FILE
    file = {_FILE_NAME: vocabulary, _FILE_TYPE: _VOCABULARY}
    subgraph = {
        _INPUTS: [{_NAME: _THEIR_NAMES[names[x]]} for x in graph.inputs],
        _OUTPUTS: outputs,
        _INPUT_UNITS: [{_OPTIONS_TYPE: kind, _OPTIONS: {_FILES: [file]}}],
    }
    builder = flatbuffers.Builder()
    builder.Finish(_write(builder, {_SUBGRAPHS: [subgraph]}), b"M001")

    content = schema.BufferT()
    content.data = np.frombuffer(builder.Output(), np.uint8)
    entry = schema.MetadataT()
    entry.name, entry.buffer = "TFLITE_METADATA", len(packed.buffers)
    packed.buffers.append(content)
    packed.metadata = [*(packed.metadata or ()), entry]
    return flatbuffer_utils.convert_object_to_bytearray(packed)


def _write(
    builder: flatbuffers.Builder, value: str | Sequence[Any] | Mapping[int, Any]
) -> int:
    """Writes a string, a vector of tables, or a table of field -> value.

    Integers in tables are of one byte.

    Returns:
      The offset of what was written.
    """
    if isinstance(value, str):
        return builder.CreateString(value)
    if not isinstance(value, Mapping):
        offsets = [_write(builder, table) for table in value]
        builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            builder.PrependUOffsetTRelative(offset)
        return builder.EndVector()
    # Before the table, inside of which nothing else may be written.
    written = {
        field: x if isinstance(x, int) else _write(builder, x)
        for field, x in value.items()
    }
    builder.StartObject(max(value) + 1)
    for field, x in written.items():
        if isinstance(value[field], int):
            builder.PrependInt8Slot(field, x, 0)
        else:
            builder.PrependUOffsetTRelativeSlot(field, x, 0)
    return builder.EndObject()
