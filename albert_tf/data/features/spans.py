"""Questions about a context, as the original cuts them into windows."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from albert_tf.data.features.span_context import SpanContext
from albert_tf.data.features.span_settings import SpanSettings
from albert_tf.data.features.span_window import SpanWindow
from albert_tf.errors import InputError

if TYPE_CHECKING:
    from albert_tf.data.examples.example import SpanExample
    from albert_tf.text.base_tokenizer import Tokenizer

# Questions that are tokenized in one call.
_BATCH = 512


def span_windows(
    examples: Iterable[SpanExample],
    tokenizer: Tokenizer,
    settings: SpanSettings,
    *,
    labelled: bool,
) -> Iterator[list[SpanWindow]]:
    """Yields the windows of each question, at least one, in order.

    A window has as many pieces of the context as fit beside its question, and
    begins `doc_stride` pieces after the one before it. Ids, windows and labels
    are the original's; offsets come from the tokenizer instead of an alignment
    that may fail, so no question is dropped.

    Args:
      examples: any number; a few hundred are held at a time. Of those, contexts
        that are equal are tokenized once.
      tokenizer: of the model.
      settings: lengths.
      labelled: whether windows have labels, by the first answer that is in the
        context. As in the original, a window without the whole of it is
        impossible.

    Raises:
      InputError: labels are asked for, and a question that is not impossible
        has no answer in its context.
    """
    contexts: dict[str, SpanContext] = {}
    for batch in _batches(examples):
        questions = tokenizer.encode(
            [example.question for example in batch], num_threads=1
        )
        # A paragraph's questions may go on in the next batch.
        contexts = {
            text: contexts.get(text) or SpanContext.from_text(text, tokenizer)
            for text in dict.fromkeys(example.context for example in batch)
        }
        for example, question in zip(batch, questions, strict=True):
            context = contexts[example.context]
            yield _windows(
                example,
                [
                    tokenizer.cls_id,
                    *question[: settings.max_query_length],
                    tokenizer.sep_id,
                ],
                context,
                settings,
                _label(example, context) if labelled else None,
            )


def _batches(examples: Iterable[SpanExample]) -> Iterator[list[SpanExample]]:
    examples = iter(examples)
    while batch := list(itertools.islice(examples, _BATCH)):
        yield batch


def _label(example: SpanExample, context: SpanContext) -> range:
    """Returns the answer's pieces; an empty range where there is none."""
    if example.is_impossible:
        return range(0)
    for answer in example.answers:
        if answer.start >= 0:
            return context.pieces_of(answer) or range(0)
    raise InputError(
        f"{example.place}: the question has no answer in its context to train "
        "on; give one, or say that it is impossible"
    )


def _windows(
    example: SpanExample,
    head: list[int],
    context: SpanContext,
    settings: SpanSettings,
    answer: range | None,
) -> list[SpanWindow]:
    """Returns the windows of a question.

    Args:
      example: the question.
      head: ids before the context; the last one is `[SEP]`, too.
      context: in pieces.
      settings: lengths.
      answer: its pieces; an empty range: there is none; None: no labels.
    """
    room = settings.max_seq_length - len(head) - 1
    spans = _cut(len(context.ids), room, settings.doc_stride)
    windows = []
    for index, (span, max_context) in enumerate(
        zip(spans, _max_context(spans), strict=True)
    ):
        pieces = slice(span.start, span.stop)
        label = {}
        if answer is not None:
            whole = bool(answer) and answer[0] in span and answer[-1] in span
            offset = len(head) - span.start
            label = {
                "start_position": answer[0] + offset if whole else 0,
                "end_position": answer[-1] + offset if whole else 0,
                "is_impossible": not whole,
            }
        windows.append(
            SpanWindow(
                example_id=example.id,
                index=index,
                ids=np.concatenate(
                    [head, context.ids[pieces], head[-1:]], dtype=np.int32
                ),
                first_context_token=len(head),
                starts=context.starts[pieces],
                limits=context.limits[pieces],
                max_context=max_context,
                **label,
            )
        )
    return windows


def _cut(pieces: int, room: int, stride: int) -> list[range]:
    """Returns the pieces of each window; one window without any if none is."""
    spans = [range(min(room, pieces))]
    while spans[-1].stop < pieces:
        start = spans[-1].start + min(len(spans[-1]), stride)
        spans.append(range(start, min(start + room, pieces)))
    return spans


def _max_context(spans: Sequence[range]) -> list[np.ndarray]:
    """Returns for each window which of its pieces have most context in it.

    That is the lesser of what is before and after the piece, and a little for
    the length of the window; of equal windows the first wins.
    """
    flags = []
    for index, span in enumerate(spans):
        best = np.ones(len(span), bool)
        for step in (-1, 1):
            other = index + step
            while 0 <= other < len(spans):
                common = _common(span, spans[other])
                if not common:
                    break
                ours = _context(span, common)
                theirs = _context(spans[other], common)
                best[common.start - span.start : common.stop - span.start] &= (
                    ours > theirs if step < 0 else ours >= theirs
                )
                other += step
        flags.append(best)
    return flags


def _common(span: range, other: range) -> range:
    return range(max(span.start, other.start), min(span.stop, other.stop))


def _context(span: range, pieces: range) -> np.ndarray:
    positions = np.arange(pieces.start, pieces.stop)
    sides = np.minimum(positions - span.start, span.stop - 1 - positions)
    return sides + 0.01 * len(span)
