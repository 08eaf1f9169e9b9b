"""A checkpoint in our names, whoever wrote it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.interop.names import HEADS
from albert_tf.interop.vocabularies import Vocabulary
from albert_tf.text.base_tokenizer import Tokenizer


@dataclasses.dataclass(frozen=True)
class HeadSettings:
    """What a task head has besides its weights.

    Attributes:
      num_labels: classes of a classifier or token classifier; 1: regression.
      labels: their names, in order, if they are known.
      dropout: rate before the head.
    """

    num_labels: int = 1
    labels: tuple[str, ...] | None = None
    dropout: float = 0.1


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A model's architecture, weights and tokenizer.

    Attributes:
      config: the architecture.
      parts: which of `interop.names.PARTS` it has.
      arrays: our path -> float32 array, read when it is asked for.
      head: settings of the task head.
      vocabulary: its tokenizer.
      source: what it was read from.
      format: what that is, in words.
      left: tensors of the source that are no weights of the model -> why.
      missing_head: a head that its config promises, without any tensor.
      notes: what else a user should know, a line each.
    """

    config: AlbertConfig
    parts: frozenset[str]
    arrays: Mapping[str, np.ndarray]
    head: HeadSettings = HeadSettings()
    vocabulary: Vocabulary = Vocabulary()
    source: str = ""
    format: str = ""
    left: Mapping[str, str] = dataclasses.field(default_factory=dict)
    missing_head: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def tokenizer(self) -> Tokenizer | None:
        """Its tokenizer, if it has one that can be used."""
        return self.vocabulary.tokenizer

    @property
    def heads(self) -> tuple[str, ...]:
        """Its heads, in the order of the table."""
        return tuple(part for part in HEADS if part in self.parts)

    def report(self) -> str:
        """Says in a few lines what was read and what was left."""
        parts = [part for part in ("pooler", *HEADS) if part in self.parts]
        lines = [
            f"read {len(self.arrays)} tensors of {self.source} ({self.format})",
            f"parts: {', '.join(['encoder', *parts])}",
        ]
        lines.append(self.vocabulary.describe())
        reasons: dict[str, list[str]] = {}
        for name, reason in self.left.items():
            reasons.setdefault(reason, []).append(name)
        for reason, names in reasons.items():
            shown = ", ".join(names[:3]) + (", ..." if names[3:] else "")
            lines.append(f"left {len(names)} ({reason}): {shown}")
        if self.missing_head:
            lines.append(
                f"missing: the config says that there is a {self.missing_head}"
            )
        return "\n".join([*lines, *self.notes])


class LazyArrays(Mapping[str, np.ndarray]):
    """Path -> array, each made when it is asked for, and not kept."""

    def __init__(self, readers: Mapping[str, Callable[[], np.ndarray]]):
        self._readers = dict(readers)

    def __getitem__(self, path: str) -> np.ndarray:
        return self._readers[path]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)
