"""Predictions of one fine-tuned model, or of several as one."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from albert_tf.errors import InputError
from albert_tf.tasks.finetuning.description import TaskDescription
from albert_tf.tasks.finetuning.dev_scores import make_predictor
from albert_tf.tasks.finetuning.kinds.base import TaskKind
from albert_tf.tasks.finetuning.kinds.by_name import make_kind
from albert_tf.tasks.finetuning.model_folder import (
    find_model,
    load_model,
    read_description,
)
from albert_tf.tasks.finetuning.row_predictor import RowPredictor
from albert_tf.training.distribution import strategy_of_this_machine

# Examples that are held, sorted by length and predicted at a time.
WINDOW = 2048


@dataclasses.dataclass(frozen=True, kw_only=True)
class Predictions:
    """Predictions of some examples, in their order.

    Attributes:
      examples: as they were read.
      predictions: of the model, or of all together.
      members: model -> its own predictions.
    """

    examples: Sequence[Any]
    predictions: Sequence[Any]
    members: Mapping[str, Sequence[Any]]


class Predictor:
    """Fine-tuned models of one task, whose predictions are averaged.

    Args:
      paths: see `find_model`; several are an ensemble.
      changes: see `load_model`.
      batch_size: rows of a batch.

    Attributes:
      kind: of the task, with the settings of the first model; of several, see
        `TaskKind.ensemble`.

    Raises:
      InputError: there is no model, or the models are of different tasks.
    """

    def __init__(
        self,
        paths: Sequence[str | os.PathLike[str]],
        changes: Mapping[str, Any] | None = None,
        *,
        batch_size: int = 32,
    ):
        _check_same_task(paths)
        strategy = strategy_of_this_machine()
        self._members: dict[str, tuple[TaskKind, RowPredictor]] = {}
        for path in paths:
            with strategy.scope():
                loaded = load_model(path, changes)
            self._members[os.fspath(path)] = (
                loaded.kind,
                make_predictor(
                    strategy, loaded.model, loaded.kind, batch_size=batch_size
                ),
            )
        kinds = [kind for kind, _ in self._members.values()]
        self.kind = kinds[0]
        if len(kinds) > 1:
            self.kind = make_kind(
                kinds[0].ensemble([kind.description for kind in kinds]),
                kinds[0].tokenizer,
            )

    def __call__(self, examples: Sequence[Any]) -> Predictions:
        """Predicts some examples at once."""
        members = {}
        for name, (kind, predictor) in self._members.items():
            prepared = kind.prepare(examples)
            members[name] = kind.predictions(prepared, predictor(prepared.rows))
        together = next(iter(members.values()))
        if len(members) > 1:
            together = self.kind.average(members)
        return Predictions(
            examples=examples, predictions=together, members=members
        )

    def windows(
        self, examples: Iterable[Any], window: int = WINDOW
    ) -> Iterator[Predictions]:
        """Predicts any number of examples, in constant memory.

        Args:
          examples: read a window at a time.
          window: how many are sorted by length and predicted at a time.

        Yields:
          The predictions of each window.
        """
        examples = iter(examples)
        while part := list(itertools.islice(examples, window)):
            yield self(part)


def description_of(paths: Sequence[str | os.PathLike[str]]) -> TaskDescription:
    """Returns the task of the first of some models, without loading it.

    Raises:
      InputError: there is no model.
    """
    return read_description(find_model(paths[0]))


def _check_same_task(paths: Sequence[str | os.PathLike[str]]) -> None:
    if len(set(map(os.fspath, paths))) != len(paths):
        raise InputError(
            f"model={','.join(map(os.fspath, paths))}: a model is named twice"
        )
    first, *others = [read_description(find_model(path)) for path in paths]
    for path, other in zip(paths[1:], others, strict=True):
        for name in ("kind", "labels"):
            ours, theirs = getattr(first, name), getattr(other, name)
            if ours != theirs:
                raise InputError(
                    f"model={os.fspath(path)}: its task has {name}={theirs}, "
                    f"that of {os.fspath(paths[0])} {name}={ours}; only models "
                    "of one task can predict together"
                )
