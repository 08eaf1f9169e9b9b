"""Export of a preprocessor as a SavedModel of TF-Hub's text contract."""

from __future__ import annotations

import os
from collections.abc import Callable

import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.exporting.manifest import UNKNOWN, Origin
from albert_tf.exporting.saved_model import (
    MIN_LENGTH,
    TEXTS,
    Endpoint,
    Export,
    tokenize_endpoint,
    write_saved_model,
)
from albert_tf.models.model_graph import Tensors
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.preprocessor import GraphPreprocessor


def export_preprocessor(
    tokenizer: Tokenizer,
    path: str | os.PathLike[str],
    *,
    seq_length: int | None = None,
    overwrite: bool = False,
    origin: Origin = UNKNOWN,
) -> None:
    """Writes a model from texts to the inputs of an encoder.

    `tf.saved_model.load(path)`, after `import tensorflow_text`, returns an
    object with the following interface. B is the batch size and S the sequence
    length:

    - The object itself maps strings `[B]`, or a list of two such tensors for
      pairs, and optionally `seq_length=S`, to the encoder's dict of int32
      `[B, S]`: `input_word_ids`, `input_mask` and `input_type_ids`.
    - `.tokenize` maps strings `[B]` to ragged int32 ids `[B, (tokens)]`.
    - `.tokenize.get_special_tokens_dict()` returns int32 scalars `padding_id`,
      `start_of_sequence_id`, `end_of_segment_id`, `mask_id` and `vocab_size`.
    - `.tokenize_with_offsets` maps strings `[B]` to a list of ids, starts and
      ends, all ragged `[B, (tokens)]`. Starts and ends are int64 positions in
      the text in bytes.
    - `.bert_pack_inputs` maps a list of one or two ragged int32 `[B, (tokens)]`
      or `[B, (words), (pieces)]`, and optionally `seq_length=S`, to the
      encoder's dict.
    - `.signatures["serving_default"]` maps strings `text` `[B]` to the
      encoder's dict.
    - `.sp_model_file.asset_path`: the SentencePiece model; of a WordPiece
      tokenizer, `.vocab_file.asset_path`: its `vocab.txt`.

    `seq_length` is an int or an int32 scalar. If it is a constant, S is known
    when a graph is built.

    Args:
      tokenizer: tokenizer of the encoder.
      path: folder to create. It appears only when it is complete.
      seq_length: default of S; None for 128, or the length of the tokenizer's
        model if that is shorter.
      overwrite: whether to replace a finished export at `path`.
      origin: origin of the tokenizer, for the model card.

    Raises:
      InputError: if `path` exists or cannot be created, the tokenizer is not
        supported in a graph (see `GraphWordSplitter`), or `seq_length` is too
        small for a pair.
    """
    if seq_length is not None and seq_length < MIN_LENGTH:
        raise InputError(
            f"seq_length={seq_length} must be at least {MIN_LENGTH}, to hold "
            "[CLS] and the two [SEP] of a pair"
        )

    def build() -> Export:
        preprocessor = GraphPreprocessor(tokenizer, seq_length)
        root = _root(preprocessor)
        return Export(
            root=root,
            signatures={"serving_default": _signature(root)},
            manifest={
                "kind": "preprocessor",
                "seq_length": preprocessor.seq_length,
            },
        )

    write_saved_model(
        build, path, tokenizer=tokenizer, overwrite=overwrite, origin=origin
    )


def _root(preprocessor: GraphPreprocessor) -> Endpoint:
    tokenize = tokenize_endpoint(preprocessor)

    def preprocess(inputs, seq_length):
        segments = inputs if isinstance(inputs, list) else [inputs]
        return preprocessor.bert_pack_inputs(
            [tokenize.__call__(segment) for segment in segments], seq_length
        )

    default = preprocessor.seq_length
    root = Endpoint(_packing(preprocess, [TEXTS, [TEXTS, TEXTS]], default))
    root.tokenize = tokenize
    root.tokenize_with_offsets = Endpoint(
        tf.function(
            lambda inputs: list(preprocessor.tokenize_with_offsets(inputs)),
            input_signature=[TEXTS],
            autograph=False,
        )
    )
    root.bert_pack_inputs = Endpoint(
        _packing(
            preprocessor.bert_pack_inputs,
            [
                [tf.RaggedTensorSpec([None] * rank, tf.int32)] * segments
                for rank in (2, 3)
                for segments in (1, 2)
            ],
            default,
        )
    )
    # Holds the lookup tables and the vocabulary of the functions.
    root._preprocessor = preprocessor
    return root


def _packing(body: Callable, specs: list, default: int) -> Callable:
    """Traces a function of `(inputs, seq_length=default)`.

    Args:
      body: a function of the inputs and an int or int32 scalar.
      specs: input specs. Each is traced with the default length, and with a
        scalar tensor, to which a loaded function converts other ints.
      default: default of `seq_length`.
    """

    @tf.function(autograph=False)
    def call(inputs, seq_length=default):
        return body(inputs, seq_length)

    # Saving would trace a function with an unnamed argument again.
    scalar = tf.TensorSpec([], tf.int32, "seq_length")
    for spec in specs:
        call.get_concrete_function(spec)
        call.get_concrete_function(spec, scalar)
    return call


def _signature(root: Endpoint) -> Callable[[tf.Tensor], Tensors]:
    @tf.function(input_signature=[TEXTS], autograph=False)
    def serve(text):
        return root.__call__(text)

    return serve
