"""Convert checkpoints: Google, Hugging Face, KerasHub, TF-Hub, Model Garden.

Examples:
  albert convert --input=run --output=model
  albert convert --input=albert/albert-base-v2 --to=google --output=tf1
  albert convert --input=run --dtype=float16 --output=small
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from albert_tf.cli.flags import CommandFlags
from albert_tf.config import AlbertConfig, named_config, parse_overrides
from albert_tf.settings import described, setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConvertFlags:
    """Flags for the conversion."""

    input: str = dataclasses.field(
        metadata=described(
            "Checkpoint: a folder, an archive, a file, or a name such as "
            "albert_tiny_en, albert/albert-base-v2 or "
            "kaggle://keras/albert/keras/... ."
        )
    )
    output: str = dataclasses.field(metadata=described("Output folder."))
    to: Literal["huggingface", "google", "keras_hub"] = setting(
        "huggingface",
        "Output format. huggingface is also the library's own format.",
    )
    dtype: Literal["float32", "float16", "bfloat16"] = setting(
        "float32",
        "Type of the weights. float16 and bfloat16 halve the files, require "
        "--to=huggingface, and are read as float32.",
    )
    head: (
        Literal["classifier", "multiple_choice", "token_classifier"] | None
    ) = setting(None, "Type of the task head, if the checkpoint does not tell.")
    drop: Sequence[str] = setting(
        (), "Components to omit, such as sop_head or pooler."
    )
    config: AlbertConfig | None = setting(
        None,
        "Config of a TensorFlow checkpoint that has no config file: an "
        "official name or a JSON file.",
        parse=named_config,
    )
    config_overrides: Mapping[str, Any] = dataclasses.field(
        default_factory=dict,
        metadata=described(
            "Fields of the config to change, such as num_attention_heads=32.",
            parse=parse_overrides,
        ),
    )
    revision: str | None = setting(
        None, "Branch, tag or commit on the Hugging Face Hub."
    )
    overwrite: bool = setting(
        False, "Replace an existing result in the output folder."
    )


CONFIGS = (ConvertFlags,)

_HEADS = {
    "classifier": "classifier_head",
    "multiple_choice": "choice_head",
    "token_classifier": "token_head",
}


def main(flags: CommandFlags) -> None:
    """Converts a checkpoint and prints a report."""
    # Imported here, so that help and flag errors do not wait for NumPy.
    from albert_tf.interop.convert import convert

    given = flags.build(ConvertFlags)
    checkpoint = convert(
        given.input,
        given.output,
        to=given.to,
        head=_HEADS[given.head] if given.head else None,
        drop=given.drop,
        dtype=given.dtype,
        config=given.config,
        config_overrides=given.config_overrides,
        revision=given.revision,
        overwrite=given.overwrite,
        progress=_show_progress,
    )
    print(checkpoint.report())
    for component in given.drop:
        print(f"dropped: {component}")
    print(f"wrote {given.output} ({given.to})")


def _show_progress(done: int, total: int) -> None:
    """Shows progress on a terminal, and one line at the end in a log."""
    is_terminal = sys.stderr.isatty()
    if is_terminal or done == total:
        end = "\r" if done < total else "\n"
        print(f"{done} of {total} tensors", end=end, file=sys.stderr)
