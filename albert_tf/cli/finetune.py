r"""Fine-tune a model on a task: labels, options, answers or entities.

Repeating the command resumes a run that was interrupted.

Examples:
  albert finetune --task=text --train=train.csv --dev=dev.csv \
      --init_from=albert/albert-base-v2 --output=reviews
  albert finetune --recipe=finetune/sst2 --data=glue \
      --init_from=albert/albert-base-v2 --output=sst2
"""

from __future__ import annotations

import os
import time

from albert_tf.cli.flags import CommandFlags
from albert_tf.finetuning.config import FinetuneConfig
from albert_tf.finetuning.finetune import finetune

CONFIGS = (FinetuneConfig,)


def main(flags: CommandFlags) -> None:
    """Fine-tunes a model and prints a summary."""
    flags.choose("num_warmup_steps", "warmup_proportion")
    flags.choose("num_train_epochs", "num_train_steps")
    if not flags.changed("from"):
        flags.choose("data", "train")
    config = flags.build(FinetuneConfig)
    started = time.monotonic()
    result = finetune(config, command_files={"flags.txt": flags.as_text()})
    if result.interrupted:
        return
    print(result.summary())
    minutes = (time.monotonic() - started) / 60
    print(f"wrote {os.fspath(config.output)} in {minutes:.1f} minutes")
