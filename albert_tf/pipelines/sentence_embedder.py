"""Sentence embeddings."""

from __future__ import annotations

import functools
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, get_args

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.finetuning.embedding.task import Embedding
from albert_tf.finetuning.features import batched
from albert_tf.finetuning.model_folder import open_model_folder
from albert_tf.finetuning.predictor import CHUNK
from albert_tf.interop import sentence_transformers
from albert_tf.interop.run_folder import fine_tuned_model
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrained import (
    checkpoint_of,
    tokenizer_of,
    write_pretrained,
)
from albert_tf.pipelines.fill_mask import FillMask
from albert_tf.pipelines.pipeline import Pipeline, check_items
from albert_tf.pretrained_models import DEFAULT
from albert_tf.runtimes.config import Runtime
from albert_tf.text.arguments import text_list
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.sentencepiece_model import piece_probabilities
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer

# How to combine token states to the vector of a text; see `SentenceEmbedder`.
Pooling = Literal["mean", "weighted_mean", "cls", "pooler"]

# The a of Arora et al. 2017, "A Simple but Tough-to-Beat Baseline for Sentence
# Embeddings".
_SIF = 1e-3


class SentenceEmbedder(Pipeline):
    """Computes vectors of texts (sentence embeddings).

    For example:

        embed = albert_tf.SentenceEmbedder()
        embed(["A good story.", "A tale well told."])
        embed.similarity("A good story.", "A tale well told.")

    Args:
      model: a checkpoint; see `AlbertEncoder.from_pretrained`. The default is
        part of the package. One that was trained by `albert finetune
        --task=embedding` gives the trained vectors, of texts up to the
        `max_seq_length` of the training. Or a `FillMask`, whose encoder is
        used, so that its weights are in memory once.
      pooling: "mean": mean of the last layer over all tokens, which is what
        embeddings are trained with; "weighted_mean": the same, with weights for
        tokens: those of a folder of sentence-transformers, else smooth inverse
        frequencies (see `sif_weights`), which compare better without
        fine-tuning; "cls": last layer at `[CLS]`; "pooler": the pooled output,
        which was trained to predict the sentence order. None for that of a
        folder of sentence-transformers, and "mean" for any other model.
      normalize: whether to scale vectors to length 1.
      batch_size: batch size.
      dtype: precision, such as "mixed_bfloat16", which ONNX Runtime does not
        have. Vectors are always float32.
      runtime: what computes the model; see `Predictor`.

    Raises:
      InputError: if the checkpoint cannot be loaded, or lacks a tokenizer or,
        with `pooling="pooler"`, a pooler; or if `runtime` does not compute in
        `dtype`.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | FillMask = DEFAULT,
        *,
        pooling: Pooling | None = None,
        normalize: bool = True,
        batch_size: int = 32,
        dtype: str | None = None,
        runtime: Runtime = "keras",
    ):
        if pooling is not None and pooling not in get_args(Pooling):
            raise InputError(
                f"pooling={pooling!r} must be one of "
                f"{', '.join(get_args(Pooling))}"
            )
        needed = "pooler" if pooling == "pooler" else None
        super().__init__(batch_size, runtime)
        if not isinstance(model, FillMask):
            self._open(
                AlbertEncoder,
                model,
                needed,
                dtype=dtype,
                pooler=needed is not None,
            )
        elif needed or dtype:
            raise InputError(
                "dtype and pooling='pooler' are not supported with a FillMask, "
                "whose encoder is used as it is; give the path of its model"
            )
        else:
            self._share(model)
        folder = self._checkpoint.folder
        if folder is not None:
            self._max_length = self._length_of(folder)
        else:
            length = self._checkpoint.max_seq_length or self._max_length
            self._max_length = min(self._max_length, length)
        sentence_transformers.check_case(
            folder, self._tokenizer.settings.get("do_lower_case", False)
        )
        if pooling is None:
            pooling = sentence_transformers.default_pooling(folder)
        policy = self._model.dtype_policy
        is_ignored = dtype is not None and self._runtime == "onnx"
        if is_ignored and policy.compute_dtype != "float32":
            raise InputError(
                f"precision {policy.name}: ONNX Runtime computes in float32; "
                "use float32, or another runtime"
            )
        self._pooling = pooling
        self._normalize = normalize
        self._token_weights = None
        if pooling == "weighted_mean":
            self._token_weights = self._weights()
        self._predict = self._predictor(
            functools.partial(
                _vectors,
                pooling=pooling,
                normalize=normalize,
                token_weights=self._token_weights,
            )
        )

    def _length_of(self, folder: pathlib.Path) -> int:
        """Returns the number of tokens that a model's folder cuts texts to."""
        length = self._max_length
        if fine_tuned_model(folder) is not None:
            task = open_model_folder(folder).task_config
            if task.task_type == Embedding.name:
                length = task.settings["max_seq_length"]
        return sentence_transformers.default_length(folder, length)

    def _weights(self) -> np.ndarray:
        """Returns the weights of the tokens of a weighted mean."""
        checkpoint = self._checkpoint
        weights = sentence_transformers.read_token_weights(checkpoint.folder)
        if weights is None:
            weights = sif_weights(self._tokenizer)
        if len(weights) != self._tokenizer.vocab_size:
            raise InputError(
                f"{checkpoint.source} has weights of {len(weights):,} tokens, "
                f"but its vocabulary has {self._tokenizer.vocab_size:,}; give "
                "another pooling, such as mean"
            )
        return weights

    def _share(self, fill: FillMask) -> None:
        """Takes the encoder of a `FillMask`, without loading it again."""
        self._strategy, self._checkpoint = fill._strategy, fill._checkpoint
        self._model = fill._model.encoder
        self._model.vocabulary = fill._model.vocabulary
        self._tokenizer = tokenizer_of(self._model, fill._checkpoint.source)
        self._max_length = fill._max_length

    def __call__(self, texts: str | Iterable[str]) -> np.ndarray:
        """Returns the vectors of texts, float32 `[texts, hidden]`.

        Args:
          texts: one text, which gives `[hidden]`, or any number of texts,
            truncated to the model's maximum length.

        Raises:
          InputError: if an item is not a text.
        """
        if isinstance(texts, str):
            return self([texts])[0]
        vectors = [vector for chunk in self.chunks(texts) for vector in chunk]
        return np.reshape(np.array(vectors, np.float32), (-1, self.vector_size))

    @property
    def vector_size(self) -> int:
        """Size of a vector."""
        return self._model.config.hidden_size

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Saves a folder that sentence-transformers opens, as does this class.

        It has the encoder and the tokenizer, as `save_pretrained` of a model
        writes them, the pooling, and whether vectors are normalized.

        Args:
          folder: the folder; it may exist, and its files are replaced at once.

        Raises:
          InputError: if the folder cannot be written, or the pooling is
            "pooler", which sentence-transformers does not have.
        """
        if self._pooling not in sentence_transformers.POOLINGS:
            raise InputError(
                f"pooling={self._pooling} is not part of sentence-transformers;"
                f" use {' or '.join(sentence_transformers.POOLINGS)}"
            )
        files = sentence_transformers.settings_files(
            self.vector_size,
            pooling=self._pooling,
            normalize=self._normalize,
            max_length=self._max_length,
            tokenizer=self._tokenizer,
            token_weights=self._token_weights,
        )
        write_pretrained(checkpoint_of(self._model), folder, files)

    def chunks(self, texts: Iterable[str]) -> Iterator[np.ndarray]:
        """Yields the vectors of 2,048 texts at a time, in constant memory."""
        check_items(texts, "texts")
        for chunk in batched(texts, CHUNK):
            chunk = text_list(chunk, "texts")
            found = self._predict(self._features(chunk))
            yield np.stack([outputs["vector"] for outputs in found])

    def similarity(
        self, texts: str | Iterable[str], others: str | Iterable[str]
    ) -> np.ndarray:
        """Returns cosine similarities, float32 `[texts, others]`.

        An argument that is one text has no axis in the result.
        """
        first, second = (
            vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
            for vectors in (self(texts), self(others))
        )
        return first @ second.T


def sif_weights(tokenizer: Tokenizer) -> np.ndarray:
    """Returns weights by smooth inverse frequency (Arora et al. 2017).

    They are a / (a + p) with a = 0.001 and the probability p of a piece, which
    a unigram vocabulary has. Special tokens weigh as little as the most
    frequent piece. The common component is not removed.

    Returns:
      float32 `[vocab_size]`.

    Raises:
      InputError: if the vocabulary has no probabilities.
    """
    probabilities = None
    if isinstance(tokenizer, AlbertTokenizer):
        probabilities = piece_probabilities(tokenizer.model_bytes)
    if probabilities is None:
        raise InputError(
            "pooling=weighted_mean needs the probabilities of a unigram "
            "SentencePiece vocabulary, and this model has another one; use "
            "mean"
        )
    return (_SIF / (_SIF + probabilities)).astype(np.float32)


def _vectors(
    model: AlbertEncoder,
    batch: Mapping[str, tf.Tensor],
    *,
    pooling: Pooling,
    normalize: bool,
    token_weights: np.ndarray | None,
) -> dict[str, tf.Tensor]:
    if pooling == "pooler":
        vectors = model.pooled_output(batch)
    elif pooling == "cls":
        first = tf.zeros([tf.shape(batch["input_mask"])[0], 1], tf.int32)
        vectors = model.states_at(batch, first)[:, 0]
    else:
        weights = None
        if token_weights is not None:
            weights = tf.gather(token_weights, batch["input_word_ids"])
        vectors = model.mean_output(batch, weights=weights)
    vectors = tf.cast(vectors, tf.float32)
    if normalize:
        vectors = tf.math.l2_normalize(vectors, -1)
    return {"vector": vectors}
