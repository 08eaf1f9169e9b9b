"""Measures how fast training can read pretraining records.

Prints a Markdown table of examples and tokens per second, without a model, for
records that are masked while they are read (`--masking=dynamic`), and for
Google's masked records (`--masking=static`).

Example:
  python benchmarks/input_pipeline.py --input='text/*.txt' \
      --spm_model_file=30k-clean.model --lengths 128 512
"""

from __future__ import annotations

import argparse
import os
import pathlib
import statistics
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import report
import tensorflow as tf

from albert_tf.data.create_data import create_pretraining_data
from albert_tf.data.data_config import PretrainingDataConfig
from albert_tf.data.records import open_records
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer


def examples_per_second(
    folder: pathlib.Path, batch_size: int, seconds: float
) -> float:
    """Returns the rate of batches after the first ten."""
    batches = iter(open_records(folder).dataset(batch_size))
    for _ in range(10):
        next(batches)
    started, count = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        next(batches)
        count += 1
    return count * batch_size / (time.perf_counter() - started)


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", required=True)
    parser.add_argument("--spm_model_file", required=True)
    parser.add_argument("--text_format", default="lines")
    parser.add_argument("--lengths", type=int, nargs="+", default=[128, 512])
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    here = report.machine()
    tokenizer = AlbertTokenizer.from_file(args.spm_model_file)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for length in args.lengths:
            folders = {}
            for masking in ("dynamic", "static"):
                folders[masking] = pathlib.Path(folder, f"{masking}{length}")
                create_pretraining_data(
                    PretrainingDataConfig(
                        input=args.input,
                        output=folders[masking],
                        tokenizer=tokenizer,
                        text_format=args.text_format,
                        masking=masking,
                        max_seq_length=length,
                        max_predictions_per_seq=length * 5 // 32,
                        pack=False,
                        num_workers=os.cpu_count() or 1,
                        # Dynamic masking requires the default.
                        dupe_factor=1 if masking == "static" else 10,
                    )
                )
            rates = {masking: [] for masking in folders}
            for _ in range(args.rounds):
                for masking, records in folders.items():
                    rates[masking].append(
                        examples_per_second(records, args.batch, args.seconds)
                    )
            for masking, records in folders.items():
                rate = statistics.median(rates[masking])
                size = sum(
                    file.stat().st_size for file in records.glob("*.tfrecord")
                )
                manifest = open_records(records).manifest
                assert manifest is not None
                split = manifest["splits"]["train"]
                tokens = split["counts"]["tokens"]
                rows.append(
                    [
                        f"{length}, {masking}",
                        f"{rate:,.0f}",
                        f"{rate * length:,.0f}",
                        f"{size / tokens:.1f}",
                        f"{split['kept_fraction']:.1%}",
                    ]
                )
    versions = {"tensorflow": tf.__version__}
    cores = report.available_cores()
    print(report.description(here, versions, cores), "\n")
    print(
        report.table(
            [
                "length, masking",
                "examples/s",
                "positions/s",
                "bytes/token of text",
                "tokens kept",
            ],
            rows,
        )
    )


if __name__ == "__main__":
    main()
