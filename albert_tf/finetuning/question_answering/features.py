"""Features of question answering: windows of tokenized contexts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from albert_tf.errors import InputError
from albert_tf.finetuning.features import Features, FeaturesBuilder, batched

if TYPE_CHECKING:
    from albert_tf.finetuning.question_answering.examples import (
        Answer,
        QuestionAnsweringExample,
    )
    from albert_tf.text.base_tokenizer import Tokenizer

# Names of features: 1 at positions that cannot be answers, and the labels.
P_MASK = "p_mask"
START_POSITIONS = "start_positions"
END_POSITIONS = "end_positions"
IS_IMPOSSIBLE = "is_impossible"

# Number of questions that are tokenized at a time.
_BATCH = 512


@dataclasses.dataclass(frozen=True, kw_only=True)
class WindowSettings:
    """Lengths in pieces; the defaults are the original's for SQuAD.

    Attributes:
      max_seq_length: Maximum length of a sequence, including question, context,
        `[CLS]` and two `[SEP]`.
      doc_stride: Distance between the starts of consecutive windows.
      max_query_length: Maximum length of a question; longer ones are truncated.

    Raises:
      InputError: If a length is below 1 or leaves no room for the context.
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
      starts: int32 `[pieces]`, start of each context piece, in characters of
        the context.
      ends: int32 `[pieces]`, end of each context piece.
      max_context: bool `[pieces]`, see `contexts.Windows`.
      start_position: Label: position of the first piece of the answer. None,
        like the other labels, in unlabelled windows.
      end_position: Label: position of the last piece of the answer.
      is_impossible: Label: whether the window lacks a part of the answer; both
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
        """Segment ids, int32 `[length]`: 1 from the context on."""
        types = np.zeros_like(self.ids)
        types[self.first_context_token :] = 1
        return types

    @property
    def p_mask(self) -> np.ndarray:
        """1 at positions that cannot be answers, int32 `[length]`.

        0 in the context, and at `[CLS]`, which represents no answer.
        """
        p_mask = np.ones_like(self.ids)
        p_mask[0] = 0
        p_mask[self.first_context_token : -1] = 0
        return p_mask


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class TokenizedContext:
    """A tokenized context.

    Attributes:
      ids: int32 `[pieces]`.
      starts: int32 `[pieces]`, start of each piece in the context, in
        characters. A piece with `▁` starts at the space before the word.
      ends: int32 `[pieces]`, end of each piece.
    """

    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray

    @classmethod
    def from_text(cls, text: str, tokenizer: Tokenizer) -> TokenizedContext:
        """Tokenizes a context."""
        tokens = tokenizer.iter_tokens(text)
        table = np.fromiter(
            ((token.id, token.start, token.end) for token in tokens),
            np.dtype((np.int32, 3)),
        )
        ids, starts, ends = np.ascontiguousarray(table.T)
        return cls(ids=ids, starts=starts, ends=ends)

    def pieces_of(self, answer: Answer) -> range | None:
        """Returns the pieces that contain characters of an answer.

        White space around the answer is ignored: the space after it belongs to
        the piece of the next word.

        Args:
          answer: The answer; only its start and the length of its text matter.

        Returns:
          A non-empty range, or None if the tokenizer dropped all characters of
          the answer, such as control characters.
        """
        start = answer.start + len(answer.text) - len(answer.text.lstrip())
        end = start + len(answer.text.strip())
        # Offsets increase, unless normalization reorders marks.
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
    """Yields one or more windows for each question.

    A window has as many pieces of the context as fit, and starts `doc_stride`
    pieces after the previous one. Ids, windows and labels equal the original's.
    Offsets come from the tokenizer, not from an alignment that may fail, so no
    question is dropped.

    Args:
      examples: The examples; may be an iterator. A few hundred are held in
        memory; contexts that they share are tokenized once.
      tokenizer: Tokenizer of the model.
      settings: Lengths.
      labelled: Whether to add labels, from the first answer that is in the
        context. As in the original, a window without the whole answer is
        impossible.

    Raises:
      InputError: If `labelled` is set and an answerable question has no answer
        in its context.
    """
    contexts: dict[str, TokenizedContext] = {}
    for batch in batched(examples, _BATCH):
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
      questions: Windows of each question; may be an iterator.
      pad_id: ID of padding.
      head: Head of the model; "joint" adds `p_mask` and the label
        `is_impossible`.
      labelled: Whether to add the labels; otherwise `metadata` has the windows
        of each question.
    """
    is_joint = head == "joint"
    builder = FeaturesBuilder(
        pad_id=pad_id, token_padding={P_MASK: 1} if is_joint else {}
    )
    labels, metadata = [], []
    for windows in questions:
        if not labelled:
            metadata.append(windows)
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
        return builder.build(metadata)
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
    """Returns the pieces and `max_context` of each question's windows."""
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
    """Returns the answer's pieces; an empty range for impossible questions."""
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
      question: Ids up to the context, including `[SEP]`.
      context: The tokenized context.
      cuts: Pieces and `max_context` of each window.
      answer: Pieces of the answer, empty if there is none; None for unlabelled
        windows.
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
