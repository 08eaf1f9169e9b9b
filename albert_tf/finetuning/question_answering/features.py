"""Features of question answering: windows of tokenized contexts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from albert_tf.array_ops import ArrayOps
from albert_tf.errors import InputError
from albert_tf.finetuning.features import Features, FeaturesBuilder, batched
from albert_tf.finetuning.question_answering.settings import WindowSettings
from albert_tf.text.packing import Segment, make_segment, pack

if TYPE_CHECKING:
    from albert_tf.finetuning.question_answering.contexts import Windows
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


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SpanWindow:
    """`[CLS] question [SEP] pieces of the context [SEP]`, without padding.

    Attributes:
      length: Number of tokens.
      first_context_token: Position of the first piece of the context.
      starts: int32 `[pieces]`, start of each context piece, in characters of
        the context.
      ends: int32 `[pieces]`, end of each context piece.
      max_context: bool `[pieces]`, see `contexts.Windows`.
    """

    length: int
    first_context_token: int
    starts: np.ndarray
    ends: np.ndarray
    max_context: np.ndarray


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
        the piece of the next word. None if the tokenizer dropped all characters
        of the answer, such as control characters.
        """
        start = answer.start + len(answer.text) - len(answer.text.lstrip())
        end = start + len(answer.text.strip())
        # Offsets increase, unless normalization reorders marks.
        ends = np.maximum.accumulate(self.ends)
        starts = np.minimum.accumulate(self.starts[::-1])[::-1]
        first = int(np.searchsorted(ends, start, "right"))
        last = int(np.searchsorted(starts, end, "left")) - 1
        return range(first, last + 1) if first <= last else None


class WindowBatch(NamedTuple):
    """The windows of some questions.

    Attributes:
      inputs: See `window_inputs`; padded to the longest window.
      labels: Positions of the first and the last piece of the answer, and
        whether the window lacks a part of it, int32 `[3, windows]`; both
        positions are then 0, as in the original. None without labels.
      questions: The windows of each question.
    """

    inputs: dict[str, np.ndarray]
    labels: np.ndarray | None
    questions: list[list[SpanWindow]]


def window_segments(
    ops: Any,
    windows: Windows,
    questions: Segment,
    pieces: Segment,
    context_of: Any,
) -> tuple[Segment, Segment]:
    """Returns the question, and the pieces of the context, of each window.

    `context_of` is the context of each question, int `[questions]`.
    """
    question_of = windows.question_of
    start = ops.gather(pieces.starts, ops.gather(context_of, question_of))
    first, end = (ops.cast(x, np.int32) for x in (windows.starts, windows.ends))
    return (
        Segment(
            questions.ids,
            ops.gather(questions.starts, question_of),
            ops.gather(questions.lengths, question_of),
        ),
        Segment(pieces.ids, start + first, end - first),
    )


def window_inputs(
    ops: Any,
    tokenizer: Tokenizer,
    question: Segment,
    context: Segment,
    seq_length: Any,
) -> dict[str, Any]:
    """Makes the inputs of windows, in NumPy or in a graph.

    They are padded to `seq_length`. `p_mask`, int32 `[windows, seq]`, is 1 at
    positions that cannot be answers; 0 in the context, and at `[CLS]`, which
    represents no answer.
    """
    inputs = pack(ops, tokenizer, [question, context], seq_length)
    position = ops.arange(seq_length)[None]
    last = (question.lengths + context.lengths + 2)[:, None]
    is_context = (inputs["input_type_ids"] == 1) & (position < last)
    may_answer = is_context | (position == 0)
    return {**inputs, P_MASK: 1 - ops.cast(may_answer, np.int32)}


def window_batches(
    examples: Iterable[QuestionAnsweringExample],
    tokenizer: Tokenizer,
    settings: WindowSettings,
    *,
    labelled: bool,
) -> Iterator[WindowBatch]:
    """Yields the windows of a few hundred questions at a time.

    A window has as many pieces of the context as fit, and starts `doc_stride`
    pieces after the previous one. Every question has one. Ids, windows and
    labels equal the original's. Offsets come from the tokenizer, not from an
    alignment that may fail, so no question is dropped.

    Args:
      examples: The examples; may be an iterator. Contexts that they share are
        tokenized once.
      labelled: Whether to add labels, from the first answer that is in the
        context. As in the original, a window without the whole answer is
        impossible.

    Raises:
      InputError: if `labelled` is set and an answerable question has no answer
        in its context.
    """
    contexts: dict[str, TokenizedContext] = {}
    for batch in batched(examples, _BATCH):
        questions = make_segment(
            tokenizer.encode(
                [example.question for example in batch],
                num_threads=1,
                max_length=settings.max_query_length,
            )
        )
        # Questions about a paragraph may continue in the next batch.
        contexts = {
            text: contexts.get(text)
            or TokenizedContext.from_text(text, tokenizer)
            for text in dict.fromkeys(example.context for example in batch)
        }
        yield _window_batch(
            batch, questions, contexts, tokenizer, settings, labelled
        )


def _window_batch(
    examples: Sequence[QuestionAnsweringExample],
    questions: Segment,
    contexts: Mapping[str, TokenizedContext],
    tokenizer: Tokenizer,
    settings: WindowSettings,
    labelled: bool,
) -> WindowBatch:
    pieces = make_segment([x.ids.tolist() for x in contexts.values()])
    numbers = {text: number for number, text in enumerate(contexts)}
    context_of = np.array([numbers[x.context] for x in examples])
    windows, max_context = _cut(
        questions.lengths, pieces.lengths[context_of], settings
    )
    question_of, starts, ends, _ = windows
    question, context = window_segments(
        ArrayOps(), windows, questions, pieces, context_of
    )
    lengths = question.lengths + context.lengths + 3
    first_tokens = question.lengths + 2
    inputs = window_inputs(
        ArrayOps(), tokenizer, question, context, lengths.max()
    )
    labels = None
    if labelled:
        answers = [_label(x, contexts[x.context]) for x in examples]
        first, last = np.array([(x.start, x.stop - 1) for x in answers]).T
        first, last = first[question_of], last[question_of]
        is_whole = (starts <= first) & (first <= last) & (last < ends)
        offset = first_tokens - starts
        labels = np.stack(
            [
                np.where(is_whole, first + offset, 0),
                np.where(is_whole, last + offset, 0),
                ~is_whole,
            ]
        )
    found: list[list[SpanWindow]] = [[] for _ in examples]
    for number, values in enumerate(
        zip(question_of, lengths, first_tokens, starts, ends, strict=True)
    ):
        question_number, length, first_token, start, end = map(int, values)
        of_text = contexts[examples[question_number].context]
        found[question_number].append(
            SpanWindow(
                length=length,
                first_context_token=first_token,
                starts=of_text.starts[start:end],
                ends=of_text.ends[start:end],
                max_context=max_context[number],
            )
        )
    return WindowBatch(inputs, labels, found)


def _cut(
    question_lengths: np.ndarray,
    context_lengths: np.ndarray,
    settings: WindowSettings,
) -> tuple[Windows, list[np.ndarray]]:
    """Returns the windows of questions as arrays, and their `max_context`."""
    import tensorflow as tf

    from albert_tf.finetuning.question_answering.contexts import cut_windows

    with tf.device("CPU:0"):
        windows = cut_windows(
            tf.constant(question_lengths, tf.int64),
            tf.constant(context_lengths, tf.int64),
            max_seq_length=settings.max_seq_length,
            doc_stride=settings.doc_stride,
        )
    flags = windows.max_context
    splits = flags.row_splits.numpy()[1:-1]
    arrays = windows._replace(
        question_of=windows.question_of.numpy(),
        starts=windows.starts.numpy(),
        ends=windows.ends.numpy(),
    )
    return arrays, np.split(flags.values.numpy(), splits)


def window_features(
    batches: Iterable[WindowBatch], *, pad_id: int, head: str, labelled: bool
) -> Features:
    """Returns the features of windows.

    Those of the head "joint" have `p_mask`, and the label `is_impossible`.
    Without labels, `metadata` has the windows of each question.
    """
    is_joint = head == "joint"
    builder = FeaturesBuilder(
        pad_id=pad_id, token_padding={P_MASK: 1} if is_joint else {}
    )
    labels: list[np.ndarray] = [np.zeros([3, 0], np.int32)]
    metadata = []
    for batch in batches:
        builder.extend(batch.inputs)
        if batch.labels is not None:
            labels.append(batch.labels)
        else:
            metadata += batch.questions
    if not labelled:
        return builder.build(metadata)
    columns = np.concatenate(labels, axis=1, dtype=np.int32)
    names = [START_POSITIONS, END_POSITIONS, IS_IMPOSSIBLE]
    return builder.build(
        **dict(zip(names if is_joint else names[:2], columns, strict=False))
    )


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
