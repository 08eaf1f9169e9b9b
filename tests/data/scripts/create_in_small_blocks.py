"""Runs `albert create-data` in small blocks, saving after each of them."""

import functools
import sys

from albert_tf.cli import main
from albert_tf.data import create_data
from albert_tf.data.shards import Limits

if __name__ == "__main__":  # Workers import this file, too.
    create_data.Limits = functools.partial(
        Limits,
        group_bytes=1,
        min_block_bytes=8000,
        max_block_bytes=8000,
        shard_bytes=400_000,
        save_seconds=0.0,
    )
    main.run(["create-data", *sys.argv[1:]])
