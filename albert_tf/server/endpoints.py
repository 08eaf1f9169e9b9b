"""What a model can be asked over HTTP."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from albert_tf.errors import InputError, shown
from albert_tf.finetuning.embedding.task import Embedding
from albert_tf.finetuning.example_texts import sample_texts, text_ranks
from albert_tf.finetuning.model_folder import open_model_folder
from albert_tf.finetuning.predictor import Predictor
from albert_tf.interop.names import ANY_HEAD
from albert_tf.interop.open_checkpoint import open_checkpoint, open_fine_tuned
from albert_tf.pipelines.fill_mask import FillMask
from albert_tf.pipelines.sentence_embedder import SentenceEmbedder
from albert_tf.runtimes.config import Runtime
from albert_tf.server.batcher import Compute

# The largest number of words that a text is filled with.
_MAX_WORDS = 100


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """A path of the server.

    Attributes:
      path: the path, such as "/predict".
      item: checks an input of a request, and returns what `compute` takes.
        Called with the input, its number and the options of the request.
      compute: maps items to results, JSON values or arrays.
      options: names of the options, besides `inputs`.
    """

    path: str
    item: Callable[[Any, int, Mapping[str, Any]], Any]
    compute: Compute
    options: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class ServedModel:
    """A model and what it can be asked.

    Attributes:
      task: name of what the model does, such as "text_classification".
      endpoints: its endpoints, by path.
      embedder: what computes vectors, if the model does.
      texts: the ranks of the texts of an input of `/predict`, by name.
    """

    task: str
    endpoints: Mapping[str, Endpoint]
    embedder: SentenceEmbedder | None = None
    texts: Mapping[str, int] = dataclasses.field(default_factory=dict)


def load_served_model(
    path: str, batch_size: int, runtime: Runtime = "keras"
) -> ServedModel:
    """Loads a model, and returns its endpoints.

    A fine-tuned model has `/predict`; one for embeddings, `/embed`. Pretrained
    models have `/embed` and, with a head for masked words, `/fill-mask`. Each
    computes something once, or the first request would wait until TensorFlow
    has traced and optimized the graph.

    Raises:
      InputError: if the model cannot be loaded.
    """
    task = "pretrained"
    settings: Any = {"batch_size": batch_size, "runtime": runtime}
    # An archive is unpacked as long as it is open.
    tuned, _opened = open_fine_tuned(path)
    if tuned is not None:
        folder = open_model_folder(tuned)
        task = folder.task_config.task_type
        if task != Embedding.name:
            predictor = Predictor(folder, **settings)
            return ServedModel(
                task,
                _by_path(_predict(predictor)),
                texts=text_ranks(predictor.task_type),
            )
    opened = open_checkpoint(path, head=ANY_HEAD)
    has_words = "mlm_head" in opened.components
    if task == Embedding.name or not has_words:
        embedder = SentenceEmbedder(path, **settings)
        return ServedModel(task, _by_path(_embed(embedder)), embedder)
    fill = FillMask(path, **settings)
    embedder = SentenceEmbedder(fill, **settings)
    endpoints = _by_path(_embed(embedder), _fill_mask(fill))
    return ServedModel(task, endpoints, embedder)


def _by_path(*endpoints: Endpoint) -> dict[str, Endpoint]:
    return {endpoint.path: endpoint for endpoint in endpoints}


def _predict(predictor: Predictor) -> Endpoint:
    texts = [f"Text {number}." for number in range(8)]
    predictor(sample_texts(predictor.task_type, texts))
    return Endpoint(
        "/predict",
        item=lambda given, number, options: predictor.example(given, number),
        compute=predictor.records,
    )


def _embed(embedder: SentenceEmbedder) -> Endpoint:
    embedder("First text.")
    return Endpoint(
        "/embed",
        item=lambda given, number, options: _text(given, number),
        compute=lambda texts: list(embedder(texts)),
    )


def _fill_mask(fill: FillMask) -> Endpoint:
    vocab_size = fill.tokenizer.vocab_size
    fill("First [MASK].", top_k=min(_MAX_WORDS, vocab_size))

    def item(
        given: Any, number: int, options: Mapping[str, Any]
    ) -> tuple[str, int]:
        top_k = options.get("top_k", 5)
        if type(top_k) is not int or not 1 <= top_k <= _MAX_WORDS:
            raise InputError(
                f"top_k={shown(top_k)} must be an integer in [1, {_MAX_WORDS}]"
            )
        text = _text(given, number)
        try:
            masks = fill.count_masks(text)
        except InputError as error:
            raise InputError(f"inputs[{number}]: {error}") from None
        if masks * top_k > _MAX_WORDS:
            raise InputError(
                f"inputs[{number}]: top_k={top_k} for {masks} [MASK] is more "
                f"than {_MAX_WORDS} words; lower top_k or divide the text"
            )
        return text, top_k

    def compute(items: list[tuple[str, int]]) -> list[list[Any]]:
        results: dict[int, list[Any]] = {}
        # Equal `top_k` together: a text with many masks has a small one.
        for top_k in {top_k for _, top_k in items}:
            places = [i for i, item in enumerate(items) if item[1] == top_k]
            texts = [items[place][0] for place in places]
            filled = fill(texts, top_k=min(top_k, vocab_size))
            for place, masks in zip(places, filled, strict=True):
                is_one = isinstance(masks[0], dict)  # A text with one mask.
                results[place] = [masks] if is_one else masks
        return [results[place] for place in range(len(items))]

    return Endpoint(
        "/fill-mask", item=item, compute=compute, options=("top_k",)
    )


def _text(given: Any, number: int) -> str:
    if not isinstance(given, str):
        raise InputError(f"inputs[{number}]={shown(given)} must be a text")
    return given


def rounded(vector: np.ndarray) -> list[float]:
    """Returns a vector as JSON numbers, without digits beyond float32's."""
    return [float(f"{x:.7g}") for x in vector.tolist()]
