"""How questions and contexts are cut into windows."""

from __future__ import annotations

import dataclasses

from albert_tf.errors import InputError


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpanSettings:
    """Lengths in pieces; the defaults are the original's for SQuAD.

    Attributes:
      max_seq_length: longest row, with question, context, `[CLS]` and twice
        `[SEP]`.
      doc_stride: how far a window begins after the one before it.
      max_query_length: longer questions are cut at the end.

    Raises:
      InputError: no piece of context fits, or a length is below 1.
    """

    max_seq_length: int = 384
    doc_stride: int = 128
    max_query_length: int = 64

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value < 1:
                raise InputError(f"{field.name}={value} must be at least 1")
        if self.max_seq_length < self.max_query_length + 4:
            raise InputError(
                f"max_seq_length={self.max_seq_length} leaves no room for the "
                f"context beside max_query_length={self.max_query_length} and "
                "three special tokens; make it at least "
                f"{self.max_query_length + 4}"
            )
