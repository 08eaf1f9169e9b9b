"""Pipelines: pretrained models applied to strings."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.finetuning.features import Features
from albert_tf.finetuning.predictor import CHUNK, BatchPredictor
from albert_tf.input_files import shown
from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.models.base import AlbertModel
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrained import tokenizer_of
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.training.distribution import strategy_of_this_machine

# How to combine token states to the vector of a text; see `SentenceEmbedder`.
Pooling = Literal["mean", "cls", "pooler"]


class _Pipeline:
    """A pretrained model with its tokenizer, applied to batches of strings."""

    def __init__(
        self,
        model_class: type[AlbertModel],
        path: str | os.PathLike[str],
        batch_size: int,
        head: str | None,
        **arguments: Any,
    ):
        checkpoint = open_checkpoint(path, head="classifier_head")
        if head and head not in checkpoint.components:
            raise InputError(
                f"{checkpoint.source} ({checkpoint.format}) has no {head}, "
                "which only pretrained models have; fine-tuned ones lose it"
            )
        self._strategy = strategy_of_this_machine()
        with self._strategy.scope():
            self._model: Any = model_class.from_checkpoint(
                checkpoint, packed=True, **arguments
            )
        self._tokenizer = tokenizer_of(self._model, path)
        self._max_length = self._model.config.num_trained_positions
        self._batch_size = batch_size

    def _predictor(self, forward: Callable) -> BatchPredictor:
        return BatchPredictor(
            self._strategy, self._model, forward, batch_size=self._batch_size
        )

    def _features(
        self, firsts: Sequence[str], seconds: Sequence[str] | None = None
    ) -> Features:
        inputs = self._tokenizer(firsts, seconds, max_length=self._max_length)
        mask = inputs["input_mask"].astype(bool)
        return Features(
            ids=inputs["input_word_ids"][mask],
            types=inputs["input_type_ids"][mask].astype(np.uint8),
            starts=np.append(0, mask.sum(axis=1).cumsum()),
            pad_id=self._tokenizer.pad_id,
        )


class FillMask(_Pipeline):
    """Predicts masked words with a pretrained MLM head.

    For example:

        fill = albert_tf.FillMask("albert/albert-base-v2")
        fill("The capital of France is [MASK].")[0]["token_str"]

    Args:
      model: a checkpoint; see `AlbertPretrainer.from_pretrained`.
      batch_size: batch size.

    Raises:
      InputError: if the checkpoint cannot be loaded, or lacks an MLM head or a
        tokenizer.
    """

    def __init__(self, model: str | os.PathLike[str], *, batch_size: int = 32):
        super().__init__(
            AlbertPretrainer, model, batch_size, "mlm_head", sop_head=False
        )
        self._tokenizer = self._tokenizer.with_settings(
            match_special_tokens=True
        )
        # By `top_k`, as each value is traced.
        self._predictors: dict[int, BatchPredictor] = {}

    def __call__(
        self, texts: str | Sequence[str], *, top_k: int = 5
    ) -> list[Any]:
        """Returns the most probable tokens for each `[MASK]`.

        Args:
          texts: one text, or a list of texts, each with at least one `[MASK]`.
          top_k: number of tokens to return for each mask.

        Returns:
          As Hugging Face's `fill-mask` pipeline. For one text with one mask: a
          list of dicts, most probable first, with `score` (the probability),
          `token` (the id), `token_str` (the piece without its word mark) and
          `sequence` (the text with the token filled in). For a text with
          several masks: one such list per mask, whose sequences keep the other
          masks. For several texts: a list of these results.

        Raises:
          InputError: if a text has no `[MASK]` within the model's length, or
            `top_k` is not in [1, vocabulary size].
        """
        vocab_size = self._model.config.vocab_size
        if not 1 <= top_k <= vocab_size:
            raise InputError(f"top_k={top_k} must be in [1, {vocab_size}]")
        if top_k not in self._predictors:
            self._predictors[top_k] = self._predictor(
                functools.partial(_top_tokens, top_k=top_k)
            )
        predict = self._predictors[top_k]
        results = []
        for chunk in chunks_of(_as_list(texts, "texts")):
            features = self._with_masks(chunk)
            for example, outputs in enumerate(predict(features)):
                start, end = features.starts[example : example + 2]
                ids = features.ids[start:end].tolist()
                fills = [
                    self._fills(ids, position, scores, tokens)
                    for position, scores, tokens in zip(
                        features.columns["masked_lm_positions"][example],
                        outputs["scores"],
                        outputs["tokens"],
                        strict=True,
                    )
                    if position  # 0, the position of [CLS], is padding.
                ]
                results.append(fills[0] if len(fills) == 1 else fills)
        return results[0] if isinstance(texts, str) else results

    def _with_masks(self, texts: Sequence[str]) -> Features:
        features = self._features(texts)
        masks = np.split(
            features.ids == self._tokenizer.mask_id, features.starts[1:-1]
        )
        positions = [np.flatnonzero(mask) for mask in masks]
        for text, found in zip(texts, positions, strict=True):
            if not len(found):
                raise InputError(
                    f"the text {shown(text)} has no [MASK] within the first "
                    f"{self._max_length} tokens; write [MASK] for the word to "
                    "fill in"
                )
        columns = np.zeros((len(texts), max(map(len, positions))), np.int64)
        for row, found in zip(columns, positions, strict=True):
            row[: len(found)] = found
        return _with_positions(features, columns)

    def _fills(
        self,
        ids: list[int],
        position: int,
        scores: np.ndarray,
        tokens: np.ndarray,
    ) -> list[dict[str, Any]]:
        fills = []
        for score, token in zip(scores.tolist(), tokens.tolist(), strict=True):
            filled = [*ids[1:position], token, *ids[position + 1 : -1]]
            fills.append(
                {
                    "score": score,
                    "token": token,
                    "token_str": self._tokenizer.decode([token]),
                    "sequence": self._decode(filled),
                }
            )
        return fills

    def _decode(self, ids: list[int]) -> str:
        """Decodes ids to text, and keeps masks."""
        mask_id, parts = self._tokenizer.mask_id, [[]]
        for token in ids:
            if token == mask_id:
                parts.append([])
            else:
                parts[-1].append(token)
        texts = [self._tokenizer.decode(part) for part in parts]
        return " [MASK] ".join(texts).strip()


class SentenceOrder(_Pipeline):
    """Predicts whether two passages are in order (paper, section 3.1).

    For example:

        order = albert_tf.SentenceOrder("run")
        order([("He fell asleep.", "Then he dreamed.")])

    Args:
      model: a checkpoint with a sentence-order head; see
        `AlbertPretrainer.from_pretrained`.
      batch_size: batch size.

    Raises:
      InputError: if the checkpoint cannot be loaded, or lacks a sentence-order
        head or a tokenizer.
    """

    def __init__(self, model: str | os.PathLike[str], *, batch_size: int = 32):
        super().__init__(AlbertPretrainer, model, batch_size, "sop_head")
        self._predict = self._predictor(_order_of_pairs)

    def __call__(self, pairs: Iterable[tuple[str, str]]) -> np.ndarray:
        """Returns the probability that each pair is swapped.

        Args:
          pairs: pairs of passages, truncated to the model's maximum length.

        Returns:
          float32 `[pairs]`: near 0 for pairs in order, near 1 for swapped ones.

        Raises:
          InputError: if an item is not a pair of texts.
        """
        found = []
        for chunk in chunks_of(pairs):
            for pair in chunk:
                if isinstance(pair, str) or len(pair) != 2:
                    raise InputError(
                        f"pairs must be a list of pairs of texts, but has the "
                        f"item {shown(pair)}"
                    )
            firsts = [first for first, _ in chunk]
            seconds = [second for _, second in chunk]
            features = self._features(firsts, seconds)
            positions = np.zeros((len(chunk), 0), np.int64)
            features = _with_positions(features, positions)
            found += [x["swapped"] for x in self._predict(features)]
        return np.array(found, np.float32)


class SentenceEmbedder(_Pipeline):
    """Computes vectors of texts (sentence embeddings).

    For example:

        embed = albert_tf.SentenceEmbedder("albert/albert-base-v2")
        embed(["A good story.", "A tale well told."])
        embed.similarity(["A good story."], ["A tale well told."])

    Args:
      model: a checkpoint; see `AlbertEncoder.from_pretrained`.
      pooling: "mean": mean of the last layer over all tokens, which works best
        without fine-tuning; "cls": last layer at `[CLS]`; "pooler": the pooled
        output, which was trained to predict the sentence order.
      normalize: whether to scale vectors to length 1.
      batch_size: batch size.
      dtype: precision, such as "mixed_bfloat16". Vectors are always float32.

    Raises:
      InputError: if the checkpoint cannot be loaded, or lacks a tokenizer or,
        with `pooling="pooler"`, a pooler.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        pooling: Pooling = "mean",
        normalize: bool = True,
        batch_size: int = 32,
        dtype: str | None = None,
    ):
        if pooling not in ("mean", "cls", "pooler"):
            raise InputError(
                f"pooling={pooling!r} must be 'mean', 'cls' or 'pooler'"
            )
        arguments = {} if pooling == "pooler" else {"pooler": False}
        super().__init__(
            AlbertEncoder, model, batch_size, None, dtype=dtype, **arguments
        )
        if pooling == "pooler" and self._model.pooler is None:
            raise InputError(
                f"{os.fspath(model)} has no pooler; use pooling='mean'"
            )
        self._predict = self._predictor(
            functools.partial(_vectors, pooling=pooling, normalize=normalize)
        )

    def __call__(self, texts: str | Iterable[str]) -> np.ndarray:
        """Returns the vectors of texts, float32 `[texts, hidden]`.

        Args:
          texts: one text, which gives `[hidden]`, or any number of texts,
            truncated to the model's maximum length.
        """
        if isinstance(texts, str):
            return self([texts])[0]
        vectors = [vector for chunk in self.chunks(texts) for vector in chunk]
        size = self._model.config.hidden_size
        return np.reshape(np.array(vectors, np.float32), (-1, size))

    def chunks(self, texts: Iterable[str]) -> Iterator[np.ndarray]:
        """Yields the vectors of 2,048 texts at a time, in constant memory."""
        for chunk in chunks_of(texts):
            found = self._predict(self._features(chunk))
            yield np.stack([outputs["vector"] for outputs in found])

    def similarity(
        self, texts: Sequence[str], others: Sequence[str]
    ) -> np.ndarray:
        """Returns cosine similarities, float32 `[texts, others]`."""
        first, second = (
            self(_as_list(x, name))
            for name, x in (("texts", texts), ("others", others))
        )
        lengths = np.linalg.norm(first, axis=1)[:, None] * np.linalg.norm(
            second, axis=1
        )
        return first @ second.T / lengths


def _top_tokens(
    model: AlbertPretrainer, batch: Mapping[str, tf.Tensor], *, top_k: int
) -> dict[str, tf.Tensor]:
    logits = model(batch)["mlm_logits"]
    scores, tokens = tf.math.top_k(tf.nn.softmax(logits), top_k)
    return {"scores": scores, "tokens": tokens}


def _order_of_pairs(
    model: AlbertPretrainer, batch: Mapping[str, tf.Tensor]
) -> dict[str, tf.Tensor]:
    logits = model(batch)["sop_logits"]
    return {"swapped": tf.nn.softmax(logits)[:, 1]}


def _vectors(
    model: AlbertEncoder,
    batch: Mapping[str, tf.Tensor],
    *,
    pooling: Pooling,
    normalize: bool,
) -> dict[str, tf.Tensor]:
    if pooling == "pooler":
        vectors = model.pooled_output(batch)
    elif pooling == "cls":
        first = tf.zeros([tf.shape(batch["input_mask"])[0], 1], tf.int32)
        vectors = model.states_at(batch, first)[:, 0]
    else:
        states = tf.cast(model(batch)["sequence_output"], tf.float32)
        mask = tf.cast(batch["input_mask"], tf.float32)[:, :, None]
        vectors = tf.reduce_sum(states * mask, 1) / tf.reduce_sum(mask, 1)
    vectors = tf.cast(vectors, tf.float32)
    if normalize:
        vectors = tf.math.l2_normalize(vectors, -1)
    return {"vector": vectors}


def _with_positions(features: Features, positions: np.ndarray) -> Features:
    return dataclasses.replace(
        features, columns={"masked_lm_positions": positions}
    )


def _as_list(texts: str | Sequence[str], name: str) -> list[str]:
    texts = [texts] if isinstance(texts, str) else list(texts)
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(
                f"{name}[{number}] must be a text, not {type(text).__name__}"
            )
    return texts


def chunks_of(items: Iterable[Any]) -> Iterator[list[Any]]:
    """Yields lists of at most 2,048 items."""
    items = iter(items)
    while chunk := list(itertools.islice(items, CHUNK)):
        yield chunk
