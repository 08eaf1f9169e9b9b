"""Export of a preprocessor as a SavedModel of TF-Hub's text contract."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.export.manifest import (
    UNKNOWN,
    Origin,
    describe_tokenizer,
)
from albert_tf.export.model_card import describe_export
from albert_tf.export.reference import TEXTS, Case, strings, text_ids
from albert_tf.export.saved_model import (
    Endpoint,
    tokenize_endpoint,
    write_saved_model,
)
from albert_tf.folders import new_folder
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.preprocessor import GraphPreprocessor

_SHORTEST = 3


def export_preprocessor(
    tokenizer: Tokenizer,
    path: str | os.PathLike[str],
    *,
    seq_length: int = 128,
    overwrite: bool = False,
    origin: Origin = UNKNOWN,
) -> None:
    """Writes text -> encoder inputs, for `hub.KerasLayer` and plain TensorFlow.

    `tf.saved_model.load(path)` returns, after `import tensorflow_text`, with
    B the batch and S the length of the rows:

    - The object itself: strings `[B]`, or a list of two such tensors for pairs,
      and optionally `seq_length=S` -> the encoder's dict of int32 `[B, S]`:
      `input_word_ids`, `input_mask` and `input_type_ids`.
    - `.tokenize`: strings `[B]` -> ragged int32 ids `[B, (tokens)]`.
    - `.tokenize.get_special_tokens_dict()`: int32 scalars `padding_id`,
      `start_of_sequence_id`, `end_of_segment_id`, `mask_id`, `vocab_size`.
    - `.tokenize_with_offsets`: strings `[B]` -> a list of ids, and where their
      text starts and ends, int64 in bytes, all ragged `[B, (tokens)]`.
    - `.bert_pack_inputs`: a list of one or two ragged int32 `[B, (tokens)]` or
      `[B, (words), (pieces)]`, and optionally `seq_length=S` -> the dict.
    - `.signatures["serving_default"]`: `text`, strings `[B]` -> the dict.
    - `.sp_model_file.asset_path`: the SentencePiece model; of a WordPiece
      tokenizer it is `.vocab_file.asset_path`, the `vocab.txt`.

    `seq_length` is an int or an int32 scalar; where it is a constant, S is
    known when a graph is built.

    Args:
      tokenizer: the one that goes with the encoder.
      path: the folder to make. It appears only when it is complete.
      seq_length: the default of S.
      overwrite: replace a SavedModel at `path`.
      origin: of the tokenizer, for the model card.

    Raises:
      InputError: `path` is taken or cannot be made, the tokenizer cannot be put
        into a graph (see `GraphWordSplitter`), or `seq_length` is too small for
        a pair.
    """
    if seq_length < _SHORTEST:
        raise InputError(
            f"seq_length={seq_length} must be at least {_SHORTEST}, to hold "
            "[CLS] and the two [SEP] of a pair"
        )
    with new_folder(path, overwrite) as folder:
        preprocessor = GraphPreprocessor(tokenizer, seq_length)

        def make():
            root = _root(preprocessor)
            return root, {"serving_default": _signature(root)}

        write_saved_model(make, folder, tokenizer)
        describe_export(
            folder,
            {
                "kind": "preprocessor",
                "seq_length": seq_length,
                "tokenizer": describe_tokenizer(tokenizer),
            },
            origin,
        )


def _root(preprocessor: GraphPreprocessor) -> Endpoint:
    texts = tf.TensorSpec([None], tf.string, "text")
    tokenize = tokenize_endpoint(preprocessor)

    def preprocess(inputs, seq_length):
        segments = inputs if isinstance(inputs, list) else [inputs]
        return preprocessor.bert_pack_inputs(
            [tokenize.__call__(segment) for segment in segments], seq_length
        )

    default = preprocessor.seq_length
    root = Endpoint(_packing(preprocess, [texts, [texts, texts]], default))
    root.tokenize = tokenize
    root.tokenize_with_offsets = Endpoint(
        tf.function(
            lambda inputs: list(preprocessor.tokenize_with_offsets(inputs)),
            input_signature=[texts],
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
    # The functions need the tables and the vocabulary in it.
    root._preprocessor = preprocessor
    return root


def _packing(body: Callable, specs: list, default: int) -> Callable:
    """Makes a function of `(inputs, seq_length=default)`.

    Args:
      body: a function of the inputs and an int or int32 scalar.
      specs: the inputs it is traced for, each with the default and with a
        scalar tensor, to which a loaded function converts other ints.
      default: of `seq_length`.
    """

    @tf.function(autograph=False)
    def call(inputs, seq_length=default):
        return body(inputs, seq_length)

    # Under the argument's name: one without is traced again by saving.
    scalar = tf.TensorSpec([], tf.int32, "seq_length")
    for spec in specs:
        call.get_concrete_function(spec)
        call.get_concrete_function(spec, scalar)
    return call


def _signature(root: Endpoint) -> Callable:
    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.string, "text")],
        autograph=False,
    )
    def serve(text):
        return root.__call__(text)

    return serve


def preprocessor_cases(tokenizer: Tokenizer, seq_length: int) -> Iterator[Case]:
    """Yields what an export of a tokenizer has to return."""
    ids = tokenizer.encode(list(TEXTS))
    tokens = {
        "values": np.array([x for row in ids for x in row], "int32"),
        "row_splits": np.cumsum([0, *map(len, ids)]),
    }
    rows = text_ids(tokenizer, seq_length, "max_length")
    yield Case("text", "tokenize", strings(text=TEXTS), tokens)
    yield Case("text", "serving_default", strings(text=TEXTS), rows)
