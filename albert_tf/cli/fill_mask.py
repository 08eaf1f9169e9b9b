r"""Fill in the masked words of texts, with a pretrained model.

Reads --text, --input or lines of standard input, each with at least one [MASK].
The output is a table, or JSON lines if --output ends with .jsonl.

Examples:
  albert fill-mask --model=run --text="The [MASK] share their weights."
  albert fill-mask --model=albert/albert-base-v2 --input=texts.txt --top_k=1 \
      --output=words.jsonl
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

from albert_tf.cli.flags import CommandFlags
from albert_tf.cli.text_lines import TextLinesFlags, texts_of, write_lines
from albert_tf.quiet_import import import_tensorflow
from albert_tf.settings import setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class FillMaskFlags(TextLinesFlags):
    """Flags for filling in masks."""

    top_k: int = setting(
        5,
        "Number of words per mask, most probable first.",
        bounds="[1, 10000000]",
    )


CONFIGS = (FillMaskFlags,)


def main(flags: CommandFlags) -> None:
    """Writes the most probable words for each mask."""
    flags.choose("text", "input")
    given = flags.build(FillMaskFlags)
    texts = texts_of(given)
    import_tensorflow()
    from albert_tf.pipelines import FillMask, chunks_of

    fill = FillMask(given.model, batch_size=given.eval_batch_size)
    as_json = (given.output or "").endswith(".jsonl")

    def lines() -> Iterator[str]:
        numbered = ((n, text) for n, text in enumerate(texts) if text.strip())
        has_header = as_json
        for chunk in chunks_of(numbered):
            numbers, filled = zip(*chunk, strict=True)
            for number, fills in zip(
                numbers, fill(filled, top_k=given.top_k), strict=True
            ):
                masks = fills if isinstance(fills[0], list) else [fills]
                if as_json:
                    yield json.dumps(masks, ensure_ascii=False)
                    continue
                if not has_header:
                    yield "text\tmask\tscore\ttoken\tsequence"
                    has_header = True
                yield from _rows(number, masks)

    write_lines(lines(), given.output)


def _rows(number: int, masks: list[list[dict[str, Any]]]) -> Iterator[str]:
    for mask, fills in enumerate(masks):
        for fill in fills:
            yield (
                f"{number}\t{mask}\t{fill['score']:.4f}\t"
                f"{fill['token_str']}\t{fill['sequence']}"
            )
