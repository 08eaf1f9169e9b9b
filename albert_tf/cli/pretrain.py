r"""Pretrain a model on records: masked words or replaced tokens.

Repeating the command resumes a run that was interrupted.

Examples:
  albert pretrain --input=data --output=run --config=albert_mini \
      --num_train_steps=10000
  albert pretrain --input=gs://bucket/data --output=gs://bucket/run \
      --tpu=local --config=albert_base_v2 --precision=mixed_bfloat16
"""

from __future__ import annotations

import os
import time

from albert_tf.cli.flags import CommandFlags
from albert_tf.pretraining.config import PretrainConfig

CONFIGS = (PretrainConfig,)


def main(flags: CommandFlags) -> None:
    """Pretrains a model and prints a summary."""
    from albert_tf.pretraining.summary import end_summary
    from albert_tf.pretraining.train import pretrain

    config = flags.build(PretrainConfig)
    started = time.monotonic()
    result = pretrain(config, command_files={"flags.txt": flags.as_text()})
    if result.interrupted:
        return
    seconds = time.monotonic() - started
    print(end_summary(result, seconds))
    print(f"wrote {os.fspath(config.output)}")
