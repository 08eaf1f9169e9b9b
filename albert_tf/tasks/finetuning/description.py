"""What a fine-tuned model is for: all that predictions need beside weights."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from albert_tf.errors import InputError

KINDS = ("classes", "number", "choices", "spans", "words")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskDescription:
    """A task, the settings of its features, and how well it is done.

    Attributes:
      name: such as "sst2".
      kind: one of `KINDS`.
      labels: names of the classes, or of the labels of words, in the order of
        the model's outputs; None for the other kinds.
      metrics: their names, the one that decides first.
      settings: of the features and the decoding, as JSON values, such as
        `max_seq_length`; each kind says which it has.
      source: how files of it are read, as JSON values; see `task_files`.
      scores: of the development set, metric -> score; empty if there was none.
    """

    name: str
    kind: str
    labels: tuple[str, ...] | None = None
    metrics: tuple[str, ...]
    settings: Mapping[str, Any]
    source: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    scores: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        if self.kind not in KINDS:
            raise InputError(
                f"kind={self.kind!r} must be one of {', '.join(KINDS)}"
            )

    @property
    def key_metric(self) -> str:
        """The metric that decides which checkpoint is the best."""
        return self.metrics[0]

    def to_json(self) -> str:
        """Returns the text of `task.json`."""
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str, source: str) -> TaskDescription:
        """Reads the text of `task.json`.

        Args:
          text: the content.
          source: its path, for errors.

        Raises:
          InputError: it is no such file.
        """
        try:
            values = json.loads(text)
            for name in ("labels", "metrics"):
                values[name] = values[name] and tuple(values[name])
            return cls(**values)
        except (ValueError, KeyError, TypeError, InputError) as error:
            raise InputError(
                f"{source} does not describe a task ({error}); take the file "
                "that `albert finetune` has written"
            ) from None
