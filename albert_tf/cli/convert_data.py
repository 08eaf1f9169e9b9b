"""Convert pretraining records to arrays, for programs without TensorFlow.

examples/pretrain_jax.py trains on them.

Examples:
  albert convert-data --input=data --output=arrays
  albert convert-data --input=data --output=arrays --num_epochs=4 --seed=1
"""

from __future__ import annotations

import os

from albert_tf.cli.flags import CommandFlags
from albert_tf.data.example_arrays import ConvertDataConfig

CONFIGS = (ConvertDataConfig,)


def main(flags: CommandFlags) -> None:
    """Writes the arrays, and says how many examples there are."""
    from albert_tf.data.convert_records import convert_records

    config = flags.build(ConvertDataConfig)
    manifest = convert_records(config)
    for split, entry in manifest["splits"].items():
        print(f"{split}: {entry['examples']:,} examples")
    print(f"wrote {os.fspath(config.output)}")
