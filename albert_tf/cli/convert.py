"""Convert checkpoints: Google, Hugging Face, KerasHub, TF-Hub, Model Garden.

Examples:
  albert convert --input=run --output=model
  albert convert --input=albert/albert-base-v2 --to=google --output=tf1
  albert convert --input=run --dtype=float16 --output=small
"""

from __future__ import annotations

import os
import sys

from albert_tf.cli.flags import CommandFlags
from albert_tf.interop.convert_config import ConvertConfig

CONFIGS = (ConvertConfig,)


def main(flags: CommandFlags) -> None:
    """Converts a checkpoint and prints a report."""
    from albert_tf.interop.convert import convert

    config = flags.build(ConvertConfig)
    checkpoint = convert(config, progress=_show_progress)
    print(checkpoint.report())
    for component in config.drop:
        print(f"dropped: {component}")
    print(f"wrote {os.fspath(config.output)} ({config.to})")


def _show_progress(done: int, total: int) -> None:
    """Shows progress on a terminal, and one line at the end in a log."""
    is_terminal = sys.stderr.isatty()
    if is_terminal or done == total:
        end = "\r" if done < total else "\n"
        print(f"{done} of {total} tensors", end=end, file=sys.stderr)
