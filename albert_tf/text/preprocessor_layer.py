"""Text preprocessing as a Keras layer."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.packing import ENCODER_INPUTS
from albert_tf.text.preprocessor import GraphPreprocessor
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.wordpiece_tokenizer import AlbertWordPieceTokenizer

_CLASSES = {
    "AlbertTokenizer": AlbertTokenizer,
    "AlbertWordPieceTokenizer": AlbertWordPieceTokenizer,
}


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertPreprocessor(keras.layers.Layer):
    """Keras layer that converts strings to inputs of the encoder.

    It gives the same ids as `AlbertTokenizer` with the same settings. (If two
    segmentations have the same score, such as 3|333 and 333|3, sentencepiece
    0.2.2 and later may choose another one than 0.2.1 and TensorFlow Text, in
    about 1 of 20,000 English sentences.) It is called like the tokenizer, and
    implements TF-Hub's text preprocessing API:

        preprocessor = AlbertPreprocessor("spiece.model", seq_length=128)
        preprocessor(["Who?", "Where?"])
        preprocessor(questions, passages, seq_length=384)
        dataset.batch(256).map(preprocessor, tf.data.AUTOTUNE)

        text = keras.Input((), dtype="string")
        model = keras.Model(text, encoder(preprocessor(text)))

        tokens = [preprocessor.tokenize(questions), preprocessor.tokenize(...)]
        preprocessor.bert_pack_inputs(tokens, seq_length=384)

    As part of a model it requires Keras's TensorFlow backend; in a `tf.data`
    pipeline it works with any backend. The vocabulary is saved with the model.
    Loading a SavedModel that contains the layer requires
    `import tensorflow_text`.

    Attributes:
      tokenizer: the equivalent tokenizer in Python.
      seq_length: the default sequence length.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        seq_length: int | None = None,
        *,
        tokenizer: Tokenizer | None = None,
        name: str | None = None,
        **settings: Any,
    ):
        """Initializes the layer from a vocabulary file or a tokenizer.

        Args:
          path: local or remote path of the vocabulary, such as `spiece.model`
            or `gs://bucket/30k-clean.model`.
          seq_length: the default sequence length; None for 128, or the length
            of the tokenizer's model if that is shorter.
          tokenizer: a tokenizer, instead of `path`.
          name: name of the layer.
          **settings: arguments of `AlbertTokenizer`, such as `do_lower_case`.

        Raises:
          InputError: see `AlbertTokenizer.from_file`.
        """
        super().__init__(
            name=name, dtype="int32", trainable=False, autocast=False
        )
        if path is not None and tokenizer is None:
            tokenizer = AlbertTokenizer.from_file(path, **settings)
        elif path is None and tokenizer is not None:
            tokenizer = tokenizer.with_settings(**settings)
        else:
            raise TypeError(
                "AlbertPreprocessor takes either path or tokenizer, not both"
            )
        self.graph = GraphPreprocessor(tokenizer, seq_length)
        # Do not convert strings, as in Keras's TextVectorization.
        self._convert_input_args = False
        self._allow_non_tensor_positional_args = True
        self.supports_jit = False
        self.built = True

    @classmethod
    def from_tokenizer(
        cls, tokenizer: Tokenizer, seq_length: int | None = None
    ) -> AlbertPreprocessor:
        """Creates a preprocessor that gives the ids of a tokenizer."""
        return cls(tokenizer=tokenizer, seq_length=seq_length)

    @property
    def tokenizer(self) -> Tokenizer:
        """The equivalent tokenizer in Python."""
        return self.graph.tokenizer

    @property
    def seq_length(self) -> int:
        """The default sequence length."""
        return self.graph.seq_length

    def call(
        self,
        inputs: tf.Tensor | Sequence[tf.Tensor],
        pairs: tf.Tensor | None = None,
        seq_length: int | tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """Encodes texts, or pairs of texts, as inputs of the encoder.

        Args:
          inputs: tf.string `[batch]`; for pairs, a list or tuple of two such
            tensors. A list of Python strings is one batch, a single string a
            batch of one.
          pairs: the second text of each pair, like `inputs`. An integer is
            taken as the sequence length.
          seq_length: the sequence length. Defaults to `self.seq_length`.

        Returns:
          Dict of `input_word_ids`, `input_mask` and `input_type_ids`, int32
          `[batch, seq_length]`.
        """
        segments, seq_length = _arguments(inputs, pairs, seq_length)
        return self.graph.bert_pack_inputs(
            [self.graph.tokenize(texts) for texts in segments], seq_length
        )

    def compute_output_spec(self, inputs, pairs=None, seq_length=None):
        """Returns the symbolic outputs of `call`."""
        segments, seq_length = _arguments(inputs, pairs, seq_length)
        if seq_length is None:
            seq_length = self.seq_length
        length = seq_length if isinstance(seq_length, int) else None
        shape = (segments[0].shape[0], length)
        return {
            name: keras.KerasTensor(shape, "int32") for name in ENCODER_INPUTS
        }

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Tokenizes texts, without adding `[CLS]` and `[SEP]`.

        Args:
          texts: tf.string `[batch]`, in UTF-8. Invalid bytes are replaced by
            U+FFFD.

        Returns:
          Ragged int32 `[batch, (tokens)]`.
        """
        return self.graph.tokenize(texts)

    def tokenize_with_offsets(
        self, texts: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Tokenizes texts, with offsets in bytes.

        `text[start:end]` is the text of a token before normalization. A token
        with `▁` starts at the space before its word, and a dropped accent
        belongs to its letter. `AlbertTokenizer.tokenize_with_offsets` gives the
        same offsets in characters.

        Args:
          texts: tf.string `[batch]`, in UTF-8.

        Returns:
          Ids (int32), starts and ends (int64), ragged `[batch, (tokens)]`.
        """
        return self.graph.tokenize_with_offsets(texts)

    def bert_pack_inputs(
        self,
        segments: Sequence[tf.RaggedTensor],
        seq_length: int | tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """Packs one or two segments as inputs of the encoder.

        Args:
          segments: one or two ragged tensors of ids, `[batch, (tokens)]` or
            `[batch, (words), (pieces)]`.
          seq_length: the sequence length. Defaults to `self.seq_length`. Longer
            texts are truncated; pairs are trimmed round-robin.

        Returns:
          Dict of `input_word_ids`, `input_mask` and `input_type_ids`, int32
          `[batch, seq_length]`.
        """
        return self.graph.bert_pack_inputs(segments, seq_length)

    def get_special_tokens_dict(self) -> dict[str, tf.Tensor]:
        """Returns special ids and `vocab_size` under TF-Hub's names, int32."""
        return self.graph.get_special_tokens_dict()

    def get_config(self) -> dict[str, Any]:
        """Returns the config of the layer, including the vocabulary."""
        tokenizer = self.tokenizer
        return {
            "name": self.name,
            "seq_length": self.seq_length,
            "tokenizer": {
                "class": type(tokenizer).__name__,
                "settings": tokenizer.settings,
                "model": base64.b64encode(tokenizer.model_bytes).decode(),
                "max_length": tokenizer.model_max_length,
            },
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> AlbertPreprocessor:
        """Creates the layer from its config."""
        stored = config["tokenizer"]
        tokenizer = _CLASSES[stored["class"]](
            base64.b64decode(stored["model"]), **stored["settings"]
        )
        if "max_length" in stored:  # Missing in older files.
            tokenizer = tokenizer.with_max_length(stored["max_length"])
        return cls(
            seq_length=config["seq_length"],
            tokenizer=tokenizer,
            name=config["name"],
        )


def _arguments(
    inputs: Any, pairs: Any, seq_length: int | tf.Tensor | None
) -> tuple[list[Any], int | tf.Tensor | None]:
    """Parses the arguments of `call` to segments and the sequence length."""
    if _is_integer(pairs):
        pairs, seq_length = None, pairs
    if pairs is not None:
        segments = [inputs, pairs]
    elif isinstance(inputs, (list, tuple)) and not any(
        isinstance(element, (str, bytes)) for element in inputs
    ):
        segments = list(inputs)
    else:
        segments = [inputs]
    return [[x] if isinstance(x, str) else x for x in segments], seq_length


def _is_integer(value: Any) -> bool:
    """Returns whether a value is an integer or an integer tensor."""
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        return isinstance(value, int)
    if isinstance(dtype, np.dtype):
        return dtype.kind in "iu"
    return keras.backend.standardize_dtype(dtype).startswith(("int", "uint"))
