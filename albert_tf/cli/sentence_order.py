"""Tell whether pairs of passages are in order, with a pretrained model.

Reads --text and --pair, or lines `first<TAB>second` of --input or of standard
input. Prints the probability that each pair is swapped.

Examples:
  albert sentence-order --model=run --text="He slept." --pair="He dreamed."
  albert sentence-order --model=run --input=pairs.tsv --output=swapped.txt
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from albert_tf.cli.flags import CommandFlags
from albert_tf.cli.text_lines import (
    TextLinesFlags,
    pair_texts_of,
    write_lines,
)
from albert_tf.quiet_import import import_tensorflow
from albert_tf.settings import setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class SentenceOrderFlags(TextLinesFlags):
    """Pairs of passages."""

    pair: str | None = setting(None, "The second passage, with --text.")


CONFIGS = (SentenceOrderFlags,)


def main(flags: CommandFlags) -> None:
    """Prints the probability that each pair is swapped."""
    given = flags.build(SentenceOrderFlags)
    pairs = pair_texts_of(given, given.pair)
    import_tensorflow()
    from albert_tf.pipelines import SentenceOrder, chunks_of

    order = SentenceOrder(given.model, batch_size=given.eval_batch_size)

    def lines() -> Iterator[str]:
        for chunk in chunks_of(pairs):
            for swapped in order(chunk):
                yield f"{swapped:.6f}"

    write_lines(lines(), given.output)
