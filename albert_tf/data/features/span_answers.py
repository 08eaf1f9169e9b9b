"""How many answers the pieces of a tokenizer give back exactly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from albert_tf.data.features.span_context import SpanContext

if TYPE_CHECKING:
    from albert_tf.data.examples.example import SpanExample
    from albert_tf.text.base_tokenizer import Tokenizer


def count_answers(
    examples: Iterable[SpanExample], tokenizer: Tokenizer
) -> Counter[str | None]:
    """Counts the answers that pieces of their context give back, and others.

    Args:
      examples: with answers, of which all count.
      tokenizer: of the model.

    Returns:
      Reason (see `SpanContext.problem_of`) -> answers; None -> those given
      back.
    """
    counts: Counter[str | None] = Counter()
    context = None
    for example in examples:
        if context is None or context.text != example.context:
            context = SpanContext.from_text(example.context, tokenizer)
        counts.update(map(context.problem_of, example.answers))
    return counts
