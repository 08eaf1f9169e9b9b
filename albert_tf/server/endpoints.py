"""What a model can be asked over HTTP."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.errors import InputError
from albert_tf.finetuning.embedding.task import Embedding
from albert_tf.finetuning.model_folder import open_model_folder
from albert_tf.finetuning.predictor import Predictor
from albert_tf.input_files import shown
from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.interop.run_folder import fine_tuned_model
from albert_tf.pipelines import FillMask, SentenceEmbedder
from albert_tf.server.batcher import Compute
from albert_tf.text.base_tokenizer import Tokenizer

# Words per mask that are computed: the smallest that suffices, since TensorFlow
# traces the model for each.
_TOP_K = (5, 20, 100)


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """A path of the server.

    Attributes:
      path: the path, such as "/predict".
      item: checks an input of a request, and returns what `compute` takes.
        Called with the input, its number and the options of the request.
      compute: maps items to results, JSON values or arrays.
      samples: inputs to compute before the first request, which would wait
        for TensorFlow to trace and optimize the graph.
      options: names of the options, besides `inputs`.
    """

    path: str
    item: Callable[[Any, int, Mapping[str, Any]], Any]
    compute: Compute
    samples: Sequence[Any]
    options: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class ServedModel:
    """The endpoints of a model.

    Attributes:
      task: name of what the model does, such as "text_classification".
      endpoints: its endpoints, by path.
      tokenizer: its tokenizer.
      max_length: tokens of a text that are used.
    """

    task: str
    endpoints: Mapping[str, Endpoint]
    tokenizer: Tokenizer
    max_length: int


def load_served_model(path: str, batch_size: int) -> ServedModel:
    """Loads a model, and returns its endpoints.

    A fine-tuned model has `/predict`; one for embeddings, `/embed`. Pretrained
    models have `/embed` and, with a head for masked words, `/fill-mask`.

    Args:
      path: see `ServeConfig.model`.
      batch_size: number of texts to compute together.

    Raises:
      InputError: if the model cannot be loaded.
    """
    if fine_tuned_model(path) is not None:
        folder = open_model_folder(path)
        if folder.task_config.task_type != Embedding.name:
            return _task(Predictor(folder, batch_size=batch_size))
        embedder = SentenceEmbedder(path, batch_size=batch_size)
        return _pretrained([_embed(embedder)], embedder, Embedding.name)
    embedder = SentenceEmbedder(path, batch_size=batch_size)
    endpoints = [_embed(embedder)]
    if "mlm_head" in open_checkpoint(path).components:
        endpoints.append(_fill_mask(FillMask(path, batch_size=batch_size)))
    return _pretrained(endpoints, embedder, "pretrained")


def _task(predictor: Predictor) -> ServedModel:
    task_type = predictor.task_type
    predict = Endpoint(
        "/predict",
        item=lambda given, number, options: predictor.example(given, number),
        compute=predictor.records,
        samples=(),
    )
    texts = [f"Text {number}." for number in range(8)]
    predictor.records(task_type.sample_examples(texts))
    return ServedModel(
        type(task_type).name,
        {predict.path: predict},
        task_type.tokenizer,
        task_type.max_seq_length,
    )


def _pretrained(
    endpoints: Sequence[Endpoint], embedder: SentenceEmbedder, task: str
) -> ServedModel:
    return ServedModel(
        task,
        {x.path: x for x in endpoints},
        embedder.tokenizer,
        embedder.max_length,
    )


def _embed(embedder: SentenceEmbedder) -> Endpoint:
    return Endpoint(
        "/embed",
        item=lambda given, number, options: _text(given, number),
        compute=lambda texts: list(embedder(texts)),
        samples=["First text."],
    )


def _fill_mask(fill: FillMask) -> Endpoint:
    def item(
        given: Any, number: int, options: Mapping[str, Any]
    ) -> tuple[str, int]:
        top_k = options.get("top_k", _TOP_K[0])
        if type(top_k) is not int or not 1 <= top_k <= _TOP_K[-1]:
            raise InputError(
                f"top_k={shown(top_k)} must be an integer in [1, {_TOP_K[-1]}]"
            )
        text = _text(given, number)
        try:
            fill.check(text)
        except InputError as error:
            raise InputError(f"inputs[{number}]: {error}") from None
        return text, top_k

    def compute(items: list[tuple[str, int]]) -> list[list[Any]]:
        texts = [text for text, _ in items]
        most = max(top_k for _, top_k in items)
        traced = next(x for x in _TOP_K if x >= most)
        results = []
        filled = fill(texts, top_k=min(traced, fill.tokenizer.vocab_size))
        for masks, (_, top_k) in zip(filled, items, strict=True):
            if isinstance(masks[0], dict):  # A text with one mask.
                masks = [masks]
            results.append([mask[:top_k] for mask in masks])
        return results

    return Endpoint(
        "/fill-mask",
        item=item,
        compute=compute,
        samples=["First [MASK]."],
        options=("top_k",),
    )


def _text(given: Any, number: int) -> str:
    if not isinstance(given, str):
        raise InputError(f"inputs[{number}]={shown(given)} must be a text")
    return given


def rounded(vector: np.ndarray) -> list[float]:
    """Returns a vector as JSON numbers, without digits beyond float32's."""
    return [float(f"{x:.7g}") for x in vector.tolist()]
