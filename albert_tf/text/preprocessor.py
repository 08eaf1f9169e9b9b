"""Text preprocessing in a TensorFlow graph: strings to encoder inputs."""

import operator
from collections.abc import Sequence

import tensorflow as tf

from albert_tf.array_ops import ArrayOps
from albert_tf.tensor_ops import TensorOps
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.graph_sentencepiece import (
    GraphSentencePiece,
    GraphSpecialTokens,
)
from albert_tf.text.graph_wordpiece import GraphWordPiece
from albert_tf.text.packing import Segment, make_segment, pack
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.wordpiece_tokenizer import AlbertWordPieceTokenizer

# That of TF-Hub's preprocessors.
DEFAULT_LENGTH = 128


def ragged_segment(ids: tf.RaggedTensor) -> Segment:
    """Makes a segment of ragged ids `[batch, (tokens)]`."""
    return Segment(
        tf.cast(ids.values, tf.int32),
        tf.cast(ids.row_starts(), tf.int32),
        tf.cast(ids.row_lengths(), tf.int32),
    )


def _check_segments(
    segments: Sequence[tf.RaggedTensor],
) -> list[tf.RaggedTensor]:
    """Checks the segments and reshapes them to `[batch, (tokens)]`."""
    if not isinstance(segments, (list, tuple)) or len(segments) not in (1, 2):
        found = type(segments).__name__
        if isinstance(segments, (list, tuple)):
            found = f"of {len(segments)}"
        raise ValueError(
            f"segments must be a list of 1 or 2 ragged tensors, not {found}"
        )
    flat = []
    for i, segment in enumerate(segments):
        rank = isinstance(segment, tf.RaggedTensor) and segment.shape.rank
        if rank not in (2, 3):
            raise ValueError(
                f"segments[{i}] must be ragged [batch, (tokens)] or "
                f"[batch, (words), (pieces)], not {segment!r}"
            )
        flat.append(segment.merge_dims(1, 2) if rank == 3 else segment)
    return flat


def check_seq_length(
    seq_length: int | tf.Tensor, minimum: int
) -> int | tf.Tensor:
    """Returns an int if the value is static, otherwise an int32 scalar."""
    rule = f"at least {minimum}, to hold [CLS] and [SEP]"
    value = tf.get_static_value(seq_length)
    if value is None:
        seq_length = tf.reshape(tf.cast(seq_length, tf.int32), [])
        tf.debugging.assert_greater_equal(
            seq_length, minimum, f"seq_length must be {rule}"
        )
        return seq_length
    try:
        length = operator.index(value)
    except TypeError:
        raise ValueError(
            f"seq_length={value} must be an integer, {rule}"
        ) from None
    if length < minimum:
        raise ValueError(f"seq_length={length} must be {rule}")
    return length


class GraphPreprocessor(tf.Module):
    """The part of `AlbertPreprocessor` that does not need Keras.

    Exports contain it. Every method, documented there, can be traced in a
    `tf.function` and saved in a SavedModel.
    """

    # What sequences are packed with, see `pack_to_longest`.
    ops = TensorOps()

    def __init__(self, tokenizer: Tokenizer, seq_length: int | None = None):
        super().__init__(name="preprocessor")
        self.tokenizer = tokenizer
        if seq_length is None:
            seq_length = min(DEFAULT_LENGTH, tokenizer.model_max_length)
        self.seq_length = check_seq_length(seq_length, 2)
        if isinstance(tokenizer, AlbertWordPieceTokenizer):
            self._plain = GraphWordPiece(tokenizer)
        elif isinstance(tokenizer, AlbertTokenizer):
            self._plain = GraphSentencePiece(tokenizer)
        else:
            raise TypeError(
                "tokenizer must be an AlbertTokenizer or an "
                "AlbertWordPieceTokenizer, "
                f"not {type(tokenizer).__name__}"
            )
        self._special_tokens = (
            GraphSpecialTokens(tokenizer.special_tokens)
            if tokenizer.special_tokens.ids
            else None
        )

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Tokenizes strings `[batch]`; see `AlbertPreprocessor`."""
        texts = _batch(texts)
        if self._special_tokens is None:
            return self._plain.tokenize(texts)
        parts = self._special_tokens.split(texts)
        return parts.join(self._plain.tokenize(parts.texts), parts.special_ids)

    def segment(self, texts: tf.Tensor) -> Segment:
        """Tokenizes strings `[batch]` as a segment of sequences."""
        return ragged_segment(self.tokenize(texts))

    def tokenize_with_offsets(
        self, texts: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Tokenizes strings `[batch]`, with offsets in bytes."""
        texts = _batch(texts)
        if self._special_tokens is None:
            return self._plain.tokenize_with_offsets(texts)
        parts = self._special_tokens.split(texts)
        ids, starts, ends = self._plain.tokenize_with_offsets(parts.texts)
        begins = tf.gather(parts.starts, ids.value_rowids())
        return (
            parts.join(ids, parts.special_ids),
            parts.join(
                starts.with_values(starts.values + begins), parts.starts
            ),
            parts.join(ends.with_values(ends.values + begins), parts.ends),
        )

    def bert_pack_inputs(
        self,
        segments: Sequence[tf.RaggedTensor],
        seq_length: int | tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """Packs one or two segments as inputs of the encoder."""
        if seq_length is None:
            seq_length = self.seq_length
        checked = _check_segments(segments)
        return pack(
            self.ops,
            self.tokenizer,
            list(map(ragged_segment, checked)),
            check_seq_length(seq_length, 1 + len(checked)),
        )

    def get_special_tokens_dict(self) -> dict[str, tf.Tensor]:
        """Returns the special ids and `vocab_size` under TF-Hub's names."""
        return {
            "padding_id": tf.constant(self.tokenizer.pad_id),
            "start_of_sequence_id": tf.constant(self.tokenizer.cls_id),
            "end_of_segment_id": tf.constant(self.tokenizer.sep_id),
            "mask_id": tf.constant(self.tokenizer.mask_id),
            "vocab_size": tf.constant(self.tokenizer.vocab_size),
        }


class EagerPreprocessor:
    """Tokenizes like `GraphPreprocessor`, with the tokenizer in Python.

    It creates no lookup tables, and is faster. What makes inputs of a model
    from the ids is the same in training and in exports. Texts may be truncated
    to `max_length` ids.
    """

    ops = ArrayOps()

    def __init__(self, tokenizer: Tokenizer, max_length: int | None = None):
        self.tokenizer = tokenizer
        self._max_length = max_length

    def segment(self, texts: Sequence[str] | tf.Tensor) -> Segment:
        """Returns the ids of texts `[batch]`; equal texts are encoded once."""
        if isinstance(texts, tf.Tensor):
            texts = [text.decode() for text in texts.numpy()]
        unique = list(dict.fromkeys(texts))
        encoded = self.tokenizer.encode(unique, max_length=self._max_length)
        ids_of = dict(zip(unique, encoded, strict=True))
        return make_segment([ids_of[text] for text in texts])


def _batch(texts: tf.Tensor) -> tf.Tensor:
    """Converts texts to a tf.string tensor `[batch]`."""
    texts = tf.convert_to_tensor(texts, tf.string)
    if texts.shape.rank not in (None, 1):
        raise ValueError(
            f"texts must be tf.string [batch], not of shape {texts.shape}"
        )
    return tf.ensure_shape(texts, [None])
