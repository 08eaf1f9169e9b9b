r"""Pretrain a model on records: masked words, order of sentences.

The same command, given again, resumes a run that stopped.

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
    """Runs the pretraining that the flags describe."""
    # Imported here: help and wrong flags need not wait for TensorFlow.
    from albert_tf.pretraining.summary import end_summary
    from albert_tf.pretraining.train import pretrain

    config = flags.build(PretrainConfig)
    started = time.monotonic()
    result = pretrain(config, files={"flags.txt": flags.as_text()})
    if result.interrupted:
        return
    print(end_summary(result, time.monotonic() - started))
    print(f"wrote {os.fspath(config.output)}")
