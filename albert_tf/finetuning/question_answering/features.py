"""Features of question answering: windows over tokenized contexts."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from albert_tf.errors import InputError
from albert_tf.finetuning.features import Features, FeaturesBuilder

if TYPE_CHECKING:
    from albert_tf.finetuning.question_answering.examples import (
        Answer,
        QuestionAnsweringExample,
    )
    from albert_tf.text.base_tokenizer import Tokenizer

# Names of features: 1 where no answer can be, and the labels of a window.
P_MASK = "p_mask"
START_POSITIONS = "start_positions"
END_POSITIONS = "end_positions"
IS_IMPOSSIBLE = "is_impossible"

# Questions that are tokenized in one call.
_BATCH = 512


@dataclasses.dataclass(frozen=True, kw_only=True)
class WindowSettings:
    """Lengths in pieces; the defaults are the original's for SQuAD.

    Attributes:
      max_seq_length: Length of the longest row, including the question, the
        context, `[CLS]` and two `[SEP]`.
      doc_stride: Distance between the starts of two consecutive windows.
      max_query_length: Longer questions are truncated.

    Raises:
      InputError: If a length is below 1 or a row has no room for the context.
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


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SpanWindow:
    """`[CLS] question [SEP] pieces of the context [SEP]`, without padding.

    Attributes:
      ids: int32 `[length]`.
      first_context_token: Position of the first piece of the context.
      starts: int32 `[pieces]`, where the text of each of the window's pieces
        begins in the context, in characters.
      ends: int32 `[pieces]`, where it ends.
      max_context: bool `[pieces]`, see `contexts.Windows`.
      start_position: Label: position of the first piece of the answer. None,
        like the other labels, if they were not asked for.
      end_position: Label: position of the last piece of the answer.
      is_impossible: Label: the window does not have the whole answer; both
        positions are then 0, as in the original.
    """

    ids: np.ndarray
    first_context_token: int
    starts: np.ndarray
    ends: np.ndarray
    max_context: np.ndarray
    start_position: int | None = None
    end_position: int | None = None
    is_impossible: bool | None = None

    @property
    def types(self) -> np.ndarray:
        """Segments, int32 `[length]`: 1 from the context on."""
        types = np.zeros_like(self.ids)
        types[self.first_context_token :] = 1
        return types

    @property
    def p_mask(self) -> np.ndarray:
        """1 where no answer can be, int32 `[length]`.

        0 for the context, and for `[CLS]`, which stands for no answer.
        """
        p_mask = np.ones_like(self.ids)
        p_mask[0] = 0
        p_mask[self.first_context_token : -1] = 0
        return p_mask


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class TokenizedContext:
    """A context in pieces.

    Attributes:
      ids: int32 `[pieces]`.
      starts: int32 `[pieces]`, where the text of each begins in the context,
        in characters. A piece with `▁` begins at the blank before the word.
      ends: int32 `[pieces]`, where it ends.
    """

    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray

    @classmethod
    def from_text(cls, text: str, tokenizer: Tokenizer) -> TokenizedContext:
        """Tokenizes a context; the offsets are the tokenizer's, and exact."""
        tokens = tokenizer.iter_tokens(text)
        table = np.fromiter(
            ((token.id, token.start, token.end) for token in tokens),
            np.dtype((np.int32, 3)),
        )
        ids, starts, ends = np.ascontiguousarray(table.T)
        return cls(ids=ids, starts=starts, ends=ends)

    def pieces_of(self, answer: Answer) -> range | None:
        """Returns the pieces that contain any character of an answer.

        White space around the answer does not count: the blank after it belongs
        to the piece of the next word.

        Args:
          answer: Only its start and the length of its text are used.

        Returns:
          A non-empty range, or None if no piece has a character of the answer:
          tokenizers drop control characters, for example.
        """
        start = answer.start + len(answer.text) - len(answer.text.lstrip())
        end = start + len(answer.text.strip())
        # Offsets increase, except where normalization reorders marks.
        ends = np.maximum.accumulate(self.ends)
        starts = np.minimum.accumulate(self.starts[::-1])[::-1]
        first = int(np.searchsorted(ends, start, "right"))
        last = int(np.searchsorted(starts, end, "left")) - 1
        return range(first, last + 1) if first <= last else None


def question_windows(
    examples: Iterable[QuestionAnsweringExample],
    tokenizer: Tokenizer,
    settings: WindowSettings,
    *,
    labelled: bool,
) -> Iterator[list[SpanWindow]]:
    """Yields the windows of each question, at least one, in order.

    A window has as many pieces of the context as fit beside its question, and
    begins `doc_stride` pieces after the previous one. Ids, windows and labels
    are the original's; offsets come from the tokenizer instead of an alignment
    that may fail, so no question is dropped.

    Args:
      examples: Any number; a few hundred are held at a time. Of those, equal
        contexts are tokenized once.
      tokenizer: Tokenizer of the model.
      settings: Lengths.
      labelled: Whether to add labels, from the first answer that is in the
        context. As in the original, a window without the whole answer is
        impossible.

    Raises:
      InputError: If labels are asked for and an answerable question has no
        answer in its context.
    """
    examples = iter(examples)
    contexts: dict[str, TokenizedContext] = {}
    while batch := list(itertools.islice(examples, _BATCH)):
        questions = tokenizer.encode(
            [example.question for example in batch],
            num_threads=1,
            max_length=settings.max_query_length,
        )
        # Questions about a paragraph may continue in the next batch.
        contexts = {
            text: contexts.get(text)
            or TokenizedContext.from_text(text, tokenizer)
            for text in dict.fromkeys(example.context for example in batch)
        }
        cuts = _cuts(
            [len(question) for question in questions],
            [len(contexts[example.context].ids) for example in batch],
            settings,
        )
        for example, question, cut in zip(batch, questions, cuts, strict=True):
            context = contexts[example.context]
            yield _windows(
                [tokenizer.cls_id, *question, tokenizer.sep_id],
                context,
                cut,
                _label(example, context) if labelled else None,
            )


def window_features(
    questions: Iterable[list[SpanWindow]],
    *,
    pad_id: int,
    head: str,
    labelled: bool,
) -> Features:
    """Returns the features of windows.

    Args:
      questions: Windows of each question; read once.
      pad_id: ID of the padding.
      head: Head of the model: "joint" adds `p_mask`, and the label
        `is_impossible`.
      labelled: Whether to add the labels.
    """
    is_joint = head == "joint"
    builder = FeaturesBuilder(
        pad_id=pad_id, token_padding={P_MASK: 1} if is_joint else {}
    )
    labels = []
    for windows in questions:
        for window in windows:
            p_mask = {P_MASK: window.p_mask} if is_joint else {}
            builder.append(window.ids, window.types, **p_mask)
            labels.append(
                (
                    window.start_position,
                    window.end_position,
                    window.is_impossible,
                )
            )
    if not labelled:
        return builder.build()
    columns = np.array(labels, np.int32).reshape(-1, 3).T
    names = [START_POSITIONS, END_POSITIONS, IS_IMPOSSIBLE]
    return builder.build(
        **dict(zip(names if is_joint else names[:2], columns, strict=False))
    )


def _cuts(
    question_lengths: list[int],
    context_lengths: list[int],
    settings: WindowSettings,
) -> list[list[tuple[slice, np.ndarray]]]:
    """Returns the pieces and `max_context` of the windows of each question."""
    import tensorflow as tf

    from albert_tf.finetuning.question_answering.contexts import cut_windows

    with tf.device("CPU:0"):
        windows = cut_windows(
            tf.constant(question_lengths, tf.int64),
            tf.constant(context_lengths, tf.int64),
            max_seq_length=settings.max_seq_length,
            doc_stride=settings.doc_stride,
        )
    splits = windows.max_context.row_splits.numpy()
    flags = np.split(windows.max_context.values.numpy(), splits[1:-1])
    cuts: list[list[tuple[slice, np.ndarray]]] = [[] for _ in question_lengths]
    for question, start, end, max_context in zip(
        windows.question_of.numpy().tolist(),
        windows.starts.numpy().tolist(),
        windows.ends.numpy().tolist(),
        flags,
        strict=True,
    ):
        cuts[question].append((slice(start, end), max_context))
    return cuts


def _label(
    example: QuestionAnsweringExample, context: TokenizedContext
) -> range:
    """Returns the answer's pieces; an empty range if there is none."""
    if example.is_impossible:
        return range(0)
    for answer in example.answers:
        if answer.start >= 0:
            return context.pieces_of(answer) or range(0)
    raise InputError(
        f"{example.location}: no answer in the context to train on; give one, "
        "or mark the question with is_impossible"
    )


def _windows(
    question: list[int],
    context: TokenizedContext,
    cuts: list[tuple[slice, np.ndarray]],
    answer: range | None,
) -> list[SpanWindow]:
    """Returns the windows of a question.

    Args:
      question: Ids before the context, the last one is that of `[SEP]`.
      context: The context in pieces.
      cuts: Pieces and `max_context` of each window.
      answer: Pieces of the answer, empty if there is none; None for no labels.
    """
    windows = []
    for pieces, max_context in cuts:
        labels = {}
        if answer is not None:
            is_whole = (
                bool(answer)
                and pieces.start <= answer[0]
                and answer[-1] < pieces.stop
            )
            offset = len(question) - pieces.start
            labels: dict[str, Any] = {
                "start_position": answer[0] + offset if is_whole else 0,
                "end_position": answer[-1] + offset if is_whole else 0,
                "is_impossible": not is_whole,
            }
        windows.append(
            SpanWindow(
                ids=np.concatenate(
                    [question, context.ids[pieces], question[-1:]],
                    dtype=np.int32,
                ),
                first_context_token=len(question),
                starts=context.starts[pieces],
                ends=context.ends[pieces],
                max_context=max_context,
                **labels,
            )
        )
    return windows
