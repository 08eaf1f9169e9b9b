"""Pipelines: pretrained models applied to strings."""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeGuard

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.finetuning.embedding.task import Embedding
from albert_tf.finetuning.features import Features, FeaturesBuilder, batched
from albert_tf.finetuning.model_folder import open_model_folder
from albert_tf.finetuning.predictor import (
    CHUNK,
    BatchPredictor,
    check_batch_size,
)
from albert_tf.input_files import shown
from albert_tf.interop import sentence_transformers
from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.interop.run_folder import fine_tuned_model
from albert_tf.models.base import AlbertModel
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrained import (
    checkpoint_of,
    tokenizer_of,
    write_pretrained,
)
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.pretrained_models import DEFAULT
from albert_tf.runtimes.config import Runtime, choose_runtime
from albert_tf.schema import check_argument
from albert_tf.text.base_tokenizer import Tokenizer, text_list
from albert_tf.training.distribution import strategy_of_this_machine

# How to combine token states to the vector of a text; see `SentenceEmbedder`.
Pooling = Literal["mean", "cls", "pooler"]


class _Pipeline:
    """A pretrained model with its tokenizer, applied to batches of strings."""

    def __init__(self, batch_size: int, runtime: Runtime):
        check_batch_size(batch_size)
        self._runtime = choose_runtime(runtime)
        self._batch_size = batch_size

    def _open(
        self,
        model_class: type[AlbertModel],
        path: str | os.PathLike[str],
        head: str | None,
        **arguments: Any,
    ) -> None:
        """Opens the model of a checkpoint, which must have `head`, if given."""
        checkpoint = open_checkpoint(path, head="classifier_head")
        if head and head not in checkpoint.components:
            advice = "use another pooling, such as mean"
            if head != "pooler":
                advice = "give a model that was pretrained with it"
            raise InputError(
                f"{checkpoint.source} ({checkpoint.format}) has no {head}; "
                f"{advice}"
            )
        self._strategy = strategy_of_this_machine()
        with self._strategy.scope():
            self._model: Any = model_class.from_checkpoint(
                checkpoint, packed=True, **arguments
            )
        self._tokenizer = tokenizer_of(self._model, path)
        self._max_length = self._model.config.num_trained_positions
        self._source = pathlib.Path(checkpoint.source)

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the model."""
        return self._tokenizer

    @property
    def max_length(self) -> int:
        """Number of tokens that texts are cut to."""
        return self._max_length

    def _predictor(self, forward: Callable) -> BatchPredictor:
        return BatchPredictor(
            self._strategy,
            self._model,
            forward,
            batch_size=self._batch_size,
            runtime=self._runtime,
        )

    def _features(
        self, firsts: Sequence[str], seconds: Sequence[str] | None = None
    ) -> Features:
        inputs = self._tokenizer(firsts, seconds, max_length=self._max_length)
        builder = FeaturesBuilder(pad_id=self._tokenizer.pad_id)
        builder.extend(inputs)
        return builder.build()


class FillMask(_Pipeline):
    """Predicts masked words with a pretrained MLM head.

    For example:

        fill = albert_tf.FillMask()
        fill("The capital of France is [MASK].")[0]["token_str"]

    Args:
      model: a checkpoint; see `AlbertPretrainer.from_pretrained`. The default
        is part of the package.
      batch_size: batch size.
      runtime: what computes the model; see `Predictor`.

    Raises:
      InputError: if the checkpoint cannot be loaded, or lacks an MLM head or a
        tokenizer.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] = DEFAULT,
        *,
        batch_size: int = 32,
        runtime: Runtime = "keras",
    ):
        super().__init__(batch_size, runtime)
        self._open(AlbertPretrainer, model, "mlm_head", sop_head=False)
        self._tokenizer = self._tokenizer.with_settings(
            match_special_tokens=True
        )
        # The largest `top_k` so far, and what computes as many tokens.
        self._top: tuple[int, BatchPredictor | None] = (0, None)

    def __call__(
        self, texts: str | Iterable[str], *, top_k: int = 5
    ) -> list[Any]:
        """Returns the most probable tokens for each `[MASK]`.

        Args:
          texts: one text, or several, each with at least one `[MASK]`.
          top_k: number of tokens to return for each mask.

        Returns:
          As Hugging Face's pipeline. For one text with one mask: a list of
          dicts, most probable first, with `score` (the probability), `token`
          (the id), `token_str` (the piece without its word mark) and `sequence`
          (the text with the token filled in). For a text with several masks:
          such a list per mask, whose sequences keep the other masks. For
          several texts: a list of these results.

        Raises:
          InputError: if a text has no `[MASK]` within the model's length, or
            `top_k` is not in [1, vocabulary size].
        """
        check_argument(top_k, int, "top_k")
        vocab_size = self._model.config.vocab_size
        if not 1 <= top_k <= vocab_size:
            raise InputError(f"top_k={top_k} must be in [1, {vocab_size}]")
        most, predict = self._top
        if predict is None or top_k > most:
            forward = functools.partial(_top_tokens, top_k=top_k)
            predict = self._predictor(forward)
            self._top = top_k, predict
        results = []
        for chunk in batched(text_list(texts, "texts"), CHUNK):
            features = self._with_masks(chunk)
            for example, outputs in enumerate(predict(features)):
                start, end = features.starts[example : example + 2]
                ids = features.ids[start:end].tolist()
                fills = [
                    self._fills(ids, position, scores[:top_k], tokens[:top_k])
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

    def count_masks(self, text: str) -> int:
        """Returns the number of `[MASK]` in a text.

        Raises:
          InputError: if it has none within the model's length.
        """
        return self._with_masks([text]).columns["masked_lm_positions"].size

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
        return " [MASK] ".join(map(self._tokenizer.decode, parts)).strip()


class SentenceOrder(_Pipeline):
    """Predicts whether two passages are in order (paper, section 3.1).

    For example:

        order = albert_tf.SentenceOrder()
        order(("He fell asleep.", "Then he dreamed."))

    Args:
      model: a checkpoint with a sentence-order head; see
        `AlbertPretrainer.from_pretrained`. By default, the model of the
        package.
      batch_size: batch size.
      runtime: what computes the model; see `Predictor`.

    Raises:
      InputError: if the checkpoint cannot be loaded, or lacks a sentence-order
        head or a tokenizer.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] = DEFAULT,
        *,
        batch_size: int = 32,
        runtime: Runtime = "keras",
    ):
        super().__init__(batch_size, runtime)
        self._open(AlbertPretrainer, model, "sop_head")
        self._predict = self._predictor(_order_of_pairs)

    def __call__(
        self, pairs: tuple[str, str] | Iterable[tuple[str, str]]
    ) -> np.ndarray:
        """Returns the probability that each pair is swapped.

        Args:
          pairs: one pair of passages, or several, truncated to the model's
            maximum length.

        Returns:
          float32 `[pairs]`: near 0 for pairs in order, near 1 for swapped ones.
          One pair gives a scalar.

        Raises:
          InputError: if an item is not a pair of texts.
        """
        if _is_pair(pairs):
            return self([pairs])[0]
        _check_items(pairs, "pairs")
        found = []
        for chunk in batched(pairs, CHUNK):
            for pair in chunk:
                if not _is_pair(pair):
                    raise InputError(f"{shown(pair)} must be a pair of texts")
            firsts, seconds = map(list, zip(*chunk, strict=True))
            features = self._features(firsts, seconds)
            positions = np.zeros((len(chunk), 0), np.int64)
            features = _with_positions(features, positions)
            found += [x["swapped"] for x in self._predict(features)]
        return np.array(found, np.float32)


class SentenceEmbedder(_Pipeline):
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
      pooling: "mean": mean of the last layer over all tokens, which works best
        without fine-tuning and is what embeddings are trained with; "cls":
        last layer at `[CLS]`; "pooler": the pooled output, which was trained to
        predict the sentence order. None for that of a folder of
        sentence-transformers, and "mean" for any other model.
      normalize: whether to scale vectors to length 1.
      batch_size: batch size.
      dtype: precision, such as "mixed_bfloat16". Vectors are always float32.
      runtime: what computes the model; see `Predictor`.

    Raises:
      InputError: if the checkpoint cannot be loaded, or lacks a tokenizer or,
        with `pooling="pooler"`, a pooler.
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
        if pooling not in (None, "mean", "cls", "pooler"):
            raise InputError(
                f"pooling={pooling!r} must be 'mean', 'cls' or 'pooler'"
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
                "a FillMask as model has a dtype, and vectors without the "
                "pooler; give the path of its model"
            )
        else:
            self._share(model)
        folder = fine_tuned_model(self._source)
        if folder is not None:
            task = open_model_folder(folder).task_config
            if task.task_type == Embedding.name:
                self._max_length = task.settings["max_seq_length"]
        if (self._source / sentence_transformers.MODULES_FILE).exists():
            length = sentence_transformers.read_max_length(self._source)
            self._max_length = int(min(self._max_length, length))
        if pooling is None:
            pooling = sentence_transformers.default_pooling(self._source)
        self._pooling = pooling
        self._normalize = normalize
        self._predict = self._predictor(
            functools.partial(
                _vectors, pooling=self._pooling, normalize=normalize
            )
        )

    def _share(self, fill: FillMask) -> None:
        """Takes the encoder of a `FillMask`, without loading it again."""
        self._strategy, self._source = fill._strategy, fill._source
        self._model = fill._model.encoder
        self._model.vocabulary = fill._model.vocabulary
        self._tokenizer = tokenizer_of(self._model, fill._source)
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
        )
        write_pretrained(checkpoint_of(self._model), folder, files)

    def chunks(self, texts: Iterable[str]) -> Iterator[np.ndarray]:
        """Yields the vectors of 2,048 texts at a time, in constant memory."""
        _check_items(texts, "texts")
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
        vectors = model.mean_output(batch)
    vectors = tf.cast(vectors, tf.float32)
    if normalize:
        vectors = tf.math.l2_normalize(vectors, -1)
    return {"vector": vectors}


def _with_positions(features: Features, positions: np.ndarray) -> Features:
    return dataclasses.replace(
        features, columns={"masked_lm_positions": positions}
    )


def _check_items(values: Any, name: str) -> None:
    is_one = isinstance(values, (str, bytes, Mapping))
    if is_one or not isinstance(values, Iterable):
        raise InputError(f"{name}={shown(values)} must be a list of {name}")


def _is_pair(value: Any) -> TypeGuard[tuple[str, str]]:
    is_list = isinstance(value, (list, tuple)) and len(value) == 2
    return is_list and all(isinstance(text, str) for text in value)
