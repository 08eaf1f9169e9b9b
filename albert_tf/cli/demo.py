"""Text to a vocabulary, a pretrained encoder, SavedModels and a classifier.

Without --input it uses English text that is already on the machine.
"""

from __future__ import annotations

import dataclasses
import itertools
import os

from albert_tf.cli.flags import CommandFlags
from albert_tf.demo.config import DemoConfig

_DEFAULT_OUTPUT = "runs/demo"

CONFIGS = (DemoConfig,)


def main(flags: CommandFlags) -> None:
    """Runs the demo that the flags describe."""
    # Imported here: help and wrong flags need not wait for TensorFlow.
    from albert_tf.demo.chain import run_demo

    config = flags.build(DemoConfig)
    if not config.output:
        config = dataclasses.replace(config, output=_free_folder())
    run_demo(config)


def _free_folder() -> str:
    numbered = (f"{_DEFAULT_OUTPUT}-{number}" for number in itertools.count(2))
    names = itertools.chain([_DEFAULT_OUTPUT], numbered)
    return next(name for name in names if not os.path.exists(name))
