"""The tokenizer as a TensorFlow graph: strings in, the encoder's dict out."""

import os
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.graph_packing import pack_ragged
from albert_tf.text.graph_sentencepiece import GraphSentencePiece
from albert_tf.text.graph_special_tokens import GraphSpecialTokens
from albert_tf.text.graph_wordpiece import GraphWordPiece
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.wordpiece_tokenizer import WordPieceTokenizer


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
        cls, tokenizer: Tokenizer, seq_length: int = 128
    ) -> "AlbertPreprocessor":
        """Makes the preprocessor that agrees with a tokenizer."""
        preprocessor = cls.__new__(cls)
        preprocessor._set_up(tokenizer, seq_length)
        return preprocessor

    def _set_up(self, tokenizer: Tokenizer, seq_length: int) -> None:
        super().__init__(name="preprocessor")
        self.tokenizer = tokenizer
        self.seq_length = seq_length
        # It knows of nothing that texts are cut at.
        self._plain = (
            GraphWordPiece(tokenizer)
            if isinstance(tokenizer, WordPieceTokenizer)
            else GraphSentencePiece(tokenizer)
        )
        self._special_tokens = (
            GraphSpecialTokens(tokenizer.special_tokens)
            if tokenizer.special_tokens.ids
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
            return self._plain.tokenize(texts)
        parts = self._special_tokens.split(texts)
        return parts.join(self._plain.tokenize(parts.texts), parts.special_ids)

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
            return self._plain.tokenize_with_offsets(texts)
        parts = self._special_tokens.split(texts)
        ids, starts, limits = self._plain.tokenize_with_offsets(parts.texts)
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


def _batch(texts: tf.Tensor) -> tf.Tensor:
    """Returns a tf.string tensor, known to be `[batch]`."""
    texts = tf.convert_to_tensor(texts, tf.string)
    if texts.shape.rank not in (None, 1):
        raise ValueError(
            f"texts must be tf.string [batch], not of shape {texts.shape}."
        )
    return tf.ensure_shape(texts, [None])
