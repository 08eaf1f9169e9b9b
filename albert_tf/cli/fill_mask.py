r"""Fill in the masked words of texts, with a pretrained model.

Reads --text, --input or lines of standard input, each with at least one [MASK]
or blank. The output is a table with the number of each text, from 0, or, if
--output ends with .jsonl, a line for each text: a JSON list of its masks.

Examples:
  albert fill-mask --model=run --text="The [MASK] share their weights."
  albert fill-mask --model=albert/albert-base-v2 --input=texts.txt --top_k=1 \
      --output=words.jsonl
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from albert_tf.cli.flags import CommandFlags
from albert_tf.cli.text_lines import TextLinesFlags, texts_of, write_results
from albert_tf.errors import InputError
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
    from albert_tf.finetuning.features import batched
    from albert_tf.finetuning.predictor import CHUNK
    from albert_tf.pipelines.fill_mask import FillMask

    fill = FillMask(
        given.model, batch_size=given.eval_batch_size, runtime=given.runtime
    )

    def checked() -> Iterator[str]:
        for number, text in enumerate(texts, 1):
            try:
                if text.strip():
                    fill.count_masks(text)
            except InputError as error:
                line = f"{given.source}:{number}"
                location = line if given.text is None else "--text"
                raise InputError(f"{location}: {error}") from None
            yield text

    def results() -> Iterator[tuple[Any, list[dict[str, Any]]]]:
        number = 0
        for chunk in batched(checked(), CHUNK):
            masked = [text for text in chunk if text.strip()]
            filled = iter(fill(masked, top_k=given.top_k))
            for text in chunk:
                masks = next(filled) if text.strip() else []
                if masks and isinstance(masks[0], dict):
                    masks = [masks]
                yield masks, list(_rows(number, masks))
                number += 1

    write_results(results(), given, "tsv")


def _rows(
    number: int, masks: list[list[dict[str, Any]]]
) -> Iterator[dict[str, Any]]:
    for mask, fills in enumerate(masks):
        for fill in fills:
            yield {
                "text": number,
                "mask": mask,
                "score": fill["score"],
                "token": fill["token_str"],
                "sequence": fill["sequence"],
            }
