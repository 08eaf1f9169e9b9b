"""Train a vocabulary, an encoder and a classifier, and export SavedModels.

Without --input, uses English text that is already on the machine.

Examples:
  albert demo --output=demo
  albert demo --input='text/*.txt' --text_format=prose --output=demo
"""

from __future__ import annotations

from albert_tf.cli.flags import CommandFlags
from albert_tf.demo.config import DemoConfig

CONFIGS = (DemoConfig,)


def main(flags: CommandFlags) -> None:
    """Runs the demo."""
    from albert_tf.demo.chain import run_demo

    run_demo(flags.build(DemoConfig))
