"""Text to a vocabulary, a pretrained encoder, SavedModels and a classifier.

Without --input it uses English text that is already on the machine.

Examples:
  albert demo --output=demo
  albert demo --input='text/*.txt' --text_format=prose --output=demo
"""

from __future__ import annotations

from albert_tf.cli.flags import CommandFlags
from albert_tf.demo.config import DemoConfig

CONFIGS = (DemoConfig,)


def main(flags: CommandFlags) -> None:
    """Runs the demo that the flags describe."""
    # Imported here: help and wrong flags need not wait for TensorFlow.
    from albert_tf.demo.chain import run_demo

    run_demo(flags.build(DemoConfig))
