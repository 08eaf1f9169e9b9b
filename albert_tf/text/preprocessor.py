"""The tokenizer as a TensorFlow graph: strings in, the encoder's dict out."""

import os
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tensorflow_text as tf_text

from albert_tf.text.graph_digit_comma import GraphDigitComma
from albert_tf.text.graph_normalizer import GraphNormalizer
from albert_tf.text.graph_packing import pack_ragged
from albert_tf.text.graph_special_tokens import GraphSpecialTokens
from albert_tf.text.tokenizer import AlbertTokenizer


class AlbertPreprocessor(tf.Module):
    """Turns strings into the encoder's inputs, within a graph.

    Gives the same ids as `AlbertTokenizer` with the same options, for every
    string. (Where two segmentations have the same score, as 3|333 and 333|3,
    sentencepiece 0.2.2 and later may take another one than 0.2.1 and TensorFlow
    Text: in about 1 of 20,000 English sentences.) It follows the TF-Hub
    contract of text preprocessors:

        preprocessor = AlbertPreprocessor("spiece.model", seq_length=128)
        preprocessor(tf.constant(["Who?", "Where?"]))
        preprocessor((questions, passages), seq_length=384)
        dataset.batch(256).map(preprocessor, tf.data.AUTOTUNE)

        tokens = [preprocessor.tokenize(questions), preprocessor.tokenize(...)]
        preprocessor.bert_pack_inputs(tokens, seq_length=384)

    Every method can be traced in a `tf.function` or `tf.data` map and saved
    in a SavedModel; what it needs is held by the object. Loading such a
    SavedModel needs `import tensorflow_text`.

    Attributes:
      tokenizer: the same tokenizer in Python, with the SentencePiece model.
      seq_length: the default length of the rows.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        seq_length: int = 128,
        **settings: Any,
    ):
        """Loads a SentencePiece model from a local or remote path.

        Args:
          path: such as `spiece.model`, or `gs://bucket/30k-clean.model`.
          seq_length: the default length of the rows.
          **settings: `do_lower_case` and so on, as of `AlbertTokenizer`.

        Raises:
          InputError: see `AlbertTokenizer.from_file`.
        """
        tokenizer = AlbertTokenizer.from_file(path, **settings)
        self._set_up(tokenizer, seq_length)

    @classmethod
    def from_tokenizer(
        cls, tokenizer: AlbertTokenizer, seq_length: int = 128
    ) -> "AlbertPreprocessor":
        """Makes the preprocessor that agrees with a tokenizer."""
        preprocessor = cls.__new__(cls)
        preprocessor._set_up(tokenizer, seq_length)
        return preprocessor

    def _set_up(self, tokenizer: AlbertTokenizer, seq_length: int) -> None:
        super().__init__(name="preprocessor")
        self.tokenizer = tokenizer
        self.seq_length = seq_length
        self._normalizer = GraphNormalizer(tokenizer.normalizer)
        self._sentencepiece = tf_text.SentencepieceTokenizer(
            model=tokenizer.model_bytes, out_type=tf.int32
        )
        self._digit_comma = GraphDigitComma(
            tokenizer.splits, tokenizer.vocab_size
        )
        self._special_tokens = (
            GraphSpecialTokens(tokenizer.special_tokens)
            if tokenizer.match_special_tokens
            else None
        )

    def __call__(
        self,
        inputs: tf.Tensor | Sequence[tf.Tensor],
        seq_length: int | tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """Encodes and packs texts, or pairs of texts, for the encoder.

        Args:
          inputs: tf.string `[batch]`, or a list or tuple of two of them. A
            list of Python strings is one batch.
          seq_length: length of the rows; by default `self.seq_length`.

        Returns:
          `input_word_ids`, `input_mask` and `input_type_ids`, int32
          `[batch, seq_length]`.
        """
        is_pair = isinstance(inputs, (list, tuple)) and not any(
            isinstance(element, (str, bytes)) for element in inputs
        )
        segments = inputs if is_pair else [inputs]
        return self.bert_pack_inputs(
            [self.tokenize(texts) for texts in segments], seq_length
        )

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Returns ids without `[CLS]` and `[SEP]`.

        Args:
          texts: tf.string `[batch]`, in UTF-8; see `Normalizer.graph`.

        Returns:
          Ragged int32 `[batch, (tokens)]`.
        """
        texts = _batch(texts)
        if self._special_tokens is None:
            return self._tokenize(texts)
        parts = self._special_tokens.split(texts)
        return parts.join(self._tokenize(parts.texts), parts.special_ids)

    def tokenize_with_offsets(
        self, texts: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Returns ids, and where in the texts they come from.

        The counterpart of `AlbertTokenizer.tokenize_with_offsets`, in bytes:
        `text[start:limit]` is the text of a token in the original, whatever
        normalization does to it. A token with `▁` begins at the blank before
        its word, and an accent that is dropped belongs to its letter.

        Args:
          texts: tf.string `[batch]`, in UTF-8.

        Returns:
          Ids (int32), starts and limits (int64), ragged `[batch, (tokens)]`.
        """
        texts = _batch(texts)
        if self._special_tokens is None:
            return self._tokenize_with_offsets(texts)
        parts = self._special_tokens.split(texts)
        ids, starts, limits = self._tokenize_with_offsets(parts.texts)
        begins = tf.gather(parts.starts, ids.value_rowids())
        return (
            parts.join(ids, parts.special_ids),
            parts.join(
                starts.with_values(starts.values + begins), parts.starts
            ),
            parts.join(
                limits.with_values(limits.values + begins), parts.limits
            ),
        )

    def bert_pack_inputs(
        self,
        segments: Sequence[tf.RaggedTensor],
        seq_length: int | tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """Packs tokens of one text, or of two, for the encoder.

        Args:
          segments: one or two ragged tensors of ids, `[batch, (tokens)]` or
            `[batch, (words), (pieces)]`.
          seq_length: length of the rows; by default `self.seq_length`. Too
            long rows are cut at the end, pairs round-robin (see `pack`).

        Returns:
          `input_word_ids`, `input_mask` and `input_type_ids`, int32
          `[batch, seq_length]`.
        """
        return pack_ragged(
            segments,
            self.seq_length if seq_length is None else seq_length,
            pad_id=self.tokenizer.pad_id,
            cls_id=self.tokenizer.cls_id,
            sep_id=self.tokenizer.sep_id,
        )

    def get_special_tokens_dict(self) -> dict[str, tf.Tensor]:
        """Returns ids by TF-Hub's names, int32 scalars, and `vocab_size`."""
        return {
            "padding_id": tf.constant(self.tokenizer.pad_id),
            "start_of_sequence_id": tf.constant(self.tokenizer.cls_id),
            "end_of_segment_id": tf.constant(self.tokenizer.sep_id),
            "mask_id": tf.constant(self.tokenizer.mask_id),
            "vocab_size": tf.constant(self.tokenizer.vocab_size),
        }

    def _tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """`tokenize`, of texts without special tokens."""
        ids = self._sentencepiece.tokenize(self._normalizer(texts))
        return self._digit_comma.split(ids)

    def _tokenize_with_offsets(
        self, texts: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """`tokenize_with_offsets`, of texts without special tokens."""
        source = self._normalizer.align(texts)
        ids, begins, ends = self._sentencepiece.tokenize_with_offsets(
            source.texts
        )
        # From here to `starts`, places are characters of all normalized texts
        # laid end to end.
        begins = _characters(source.code_points, begins)
        ends = _characters(source.code_points, ends)
        begins, ends = self._digit_comma.divide(ids, begins, ends)

        tokens = self._digit_comma.split(ids)
        text_of = tokens.value_rowids()
        # A token without text, of a blank that SentencePiece adds, is where
        # the next character begins, or at the end of the text.
        text_limits = tf.cast(tf.strings.length(texts, "BYTE"), tf.int64)
        is_past_text = begins == tf.gather(
            source.code_points.row_splits, text_of + 1
        )
        starts = tf.where(
            is_past_text,
            tf.gather(text_limits, text_of),
            _gather_within(source.starts, begins),
        )
        limits = tf.where(
            ends > begins, _gather_within(source.limits, ends - 1), starts
        )
        return tokens, tokens.with_values(starts), tokens.with_values(limits)


def _batch(texts: tf.Tensor) -> tf.Tensor:
    """Returns a tf.string tensor, known to be `[batch]`."""
    texts = tf.convert_to_tensor(texts, tf.string)
    if texts.shape.rank not in (None, 1):
        raise ValueError(
            f"texts must be tf.string [batch], not of shape {texts.shape}."
        )
    return tf.ensure_shape(texts, [None])


def _characters(texts: tf.RaggedTensor, offsets: tf.RaggedTensor) -> tf.Tensor:
    """Turns byte offsets in each text into characters of all texts.

    Args:
      texts: ragged `[batch, (characters)]`, code points.
      offsets: ragged `[batch, (tokens)]`, bytes of the text in UTF-8.

    Returns:
      int64 `[all tokens]`: characters of all texts laid end to end.
    """
    lengths = tf.ones_like(texts.values, tf.int64)
    for last in (0x7F, 0x7FF, 0xFFFF):  # The last of 1, 2 and 3 bytes.
        lengths += tf.cast(texts.values > last, tf.int64)
    borders = tf.concat([[0], tf.cumsum(lengths)], 0)
    begin = tf.gather(borders, texts.row_starts())
    return tf.searchsorted(
        borders,
        tf.gather(begin, offsets.value_rowids()) + offsets.values,
        out_type=tf.int64,
    )


def _gather_within(values: tf.Tensor, indices: tf.Tensor) -> tf.Tensor:
    """Gathers, with indices moved to the nearest that exists."""
    last = tf.size(values, tf.int64) - 1
    return tf.gather(values, tf.clip_by_value(indices, 0, last))
