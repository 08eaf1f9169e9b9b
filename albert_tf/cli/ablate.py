"""Reproduce studies of the paper at a size that fits on one machine.

Takes names of studies (embedding_size, sharing, sentence_order, wall_time,
dropout, depth, width, groups), numbers of the paper's tables (3, 4, 5, 6, 8,
11, 12, 13), or all. Pretrains small models with several seeds, and writes a
report that tests the paper's findings. Repeating the command resumes where it
stopped. --scale sets the size; smoke only tests that everything works.

Examples:
  albert ablate sentence_order --output=studies
  albert ablate 3 4 --input='text/*.txt' --scale=hours --output=studies
"""

from __future__ import annotations

import os

from albert_tf.ablation.config import AblationConfig
from albert_tf.cli.flags import CommandFlags

CONFIGS = (AblationConfig,)
TAKES_ARGUMENTS = True


def main(flags: CommandFlags) -> None:
    """Runs the studies named by the arguments."""
    from albert_tf.ablation.run import ablate

    config = flags.build(AblationConfig)
    print(ablate(flags.arguments, config).table())
    print(f"wrote {os.fspath(config.output)}")
