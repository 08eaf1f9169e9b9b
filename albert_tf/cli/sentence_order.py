"""Predict whether pairs of passages are in order, with a pretrained model.

Reads --text and --pair, or lines `first<TAB>second` from --input or standard
input. Prints the probability that each pair is swapped, one per line; blank
lines are pairs of empty passages. --output may also be a table (.csv, .tsv).

Examples:
  albert sentence-order --model=run --text="He slept." --pair="He dreamed."
  albert sentence-order --model=run --input=pairs.tsv --output=swapped.txt
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from albert_tf.cli.flags import CommandFlags
from albert_tf.cli.text_lines import TextLinesFlags, texts_of, write_results
from albert_tf.errors import InputError
from albert_tf.quiet_import import import_tensorflow
from albert_tf.settings import setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class SentenceOrderFlags(TextLinesFlags):
    """Flags for pairs of passages."""

    pair: str | None = setting(None, "The second passage, with --text.")


CONFIGS = (SentenceOrderFlags,)


def main(flags: CommandFlags) -> None:
    """Prints the probability that each pair is swapped."""
    given = flags.build(SentenceOrderFlags)
    pairs = _pairs(given)
    import_tensorflow()
    from albert_tf.finetuning.features import batched
    from albert_tf.finetuning.predictor import CHUNK
    from albert_tf.pipelines.sentence_order import SentenceOrder

    order = SentenceOrder(
        given.model, batch_size=given.eval_batch_size, runtime=given.runtime
    )
    probabilities = (
        round(swapped, 6)
        for chunk in batched(pairs, CHUNK)
        for swapped in order(chunk).tolist()
    )
    write_results(
        ((swapped, [{"swapped": swapped}]) for swapped in probabilities),
        given,
        "jsonl",
    )


def _pairs(given: SentenceOrderFlags) -> Iterable[tuple[str, str]]:
    if (given.text is None) != (given.pair is None):
        raise InputError("--text and --pair require each other")
    texts = texts_of(given)
    if given.pair is not None:
        return [(text, given.pair) for text in texts]
    return _split_lines(texts, given.source)


def _split_lines(
    lines: Iterable[str], source: str
) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines, 1):
        texts = line.split("\t") if line.strip() else ["", ""]
        if len(texts) != 2:
            raise InputError(
                f"{source}:{number}: expected two texts separated by a tab, "
                f"not {len(texts)}"
            )
        yield texts[0], texts[1]
