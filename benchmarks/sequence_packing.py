"""Compares training on packed records with one sequence per record, on CPU.

Creates records from the beginning of a text with and without `pack`, and prints
a Markdown table of padding and of real tokens per second of a training step.
Steps alternate, have equal numbers of rows, and batches are read beforehand.

Example:
  python benchmarks/sequence_packing.py --input=novels.txt.gz \
      --spm_model_file=30k-clean.model --lengths 128 512
"""

from __future__ import annotations

import argparse
import gzip
import os
import pathlib
import statistics
import tempfile
import time

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import report
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.pretraining.create_data import create_pretraining_data
from albert_tf.pretraining.data_config import PretrainingDataConfig
from albert_tf.pretraining.loss import PretrainingLoss
from albert_tf.pretraining.records import Records, open_records
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer


def beginning(path: str, size: int, folder: str) -> str:
    """Writes the first bytes of a text, up to the end of a line, to a file."""
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rb") as file:
        text = file.read(size)
    name = os.path.join(folder, "text.txt")
    pathlib.Path(name).write_bytes(text[: text.rfind(b"\n") + 1])
    return name


def records_of(folder: str, length: int, pack: bool, **settings) -> Records:
    """Creates and opens records of a length."""
    output = os.path.join(folder, f"{length}-{pack}")
    create_pretraining_data(
        PretrainingDataConfig(
            output=output,
            max_seq_length=length,
            max_predictions_per_seq=length * 5 // 32,
            pack=pack,
            **settings,
        )
    )
    return open_records(output)


def padding(records: Records) -> float:
    """Returns the share of padding in the manifest."""
    assert records.manifest is not None
    return records.manifest["splits"]["train"]["padding_fraction"]


def training_step(config: AlbertConfig):
    """Returns a compiled training step of a new model."""
    model, loss = AlbertPretrainer(config), PretrainingLoss()
    optimizer = keras.optimizers.AdamW(1e-4, global_clipnorm=1.0)
    optimizer.build(model.trainable_variables)

    @tf.function
    def step(batch):
        normalizers = loss.normalizers(batch)
        with tf.GradientTape() as tape:
            value, _ = loss(model, batch, normalizers, tf.constant([1, 2]))
        gradients = tape.gradient(value, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
        return value

    return step


def measure(records: dict, config: AlbertConfig, rows: int, steps: int) -> dict:
    """Returns real tokens/s of each step, by whether records are packed."""
    batches = {
        pack: list(each.dataset(rows).take(steps + 1))
        for pack, each in records.items()
    }
    step = training_step(config)
    rates = {pack: [] for pack in records}
    for number in range(steps + 1):
        for pack, each in batches.items():
            tokens = float(tf.reduce_sum(each[number]["input_mask"]))
            start = time.perf_counter()
            step(each[number]).numpy()
            # The first step traces.
            if number:
                rates[pack].append(tokens / (time.perf_counter() - start))
    return rates


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--input", required=True)
    parser.add_argument("--spm_model_file", required=True)
    parser.add_argument("--text_format", default="lines")
    parser.add_argument("--sentence_order", default="sop")
    parser.add_argument("--config", default="albert_tiny")
    parser.add_argument("--lengths", type=int, nargs="+", default=[128, 512])
    parser.add_argument(
        "--tokens", type=int, default=4096, help="tokens per batch"
    )
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--megabytes", type=float, default=4)
    args = parser.parse_args()

    here = report.machine()
    tokenizer = AlbertTokenizer.from_file(args.spm_model_file)
    config = AlbertConfig.from_official(
        args.config, vocab_size=tokenizer.vocab_size
    )
    table = []
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "input": beginning(args.input, int(args.megabytes * 1e6), folder),
            "tokenizer": tokenizer,
            "text_format": args.text_format,
            "sentence_order": args.sentence_order,
        }
        for length in args.lengths:
            records = {
                pack: records_of(folder, length, pack, **settings)
                for pack in (False, True)
            }
            rates = measure(records, config, args.tokens // length, args.steps)
            table.append(
                [
                    f"{length}",
                    *(f"{padding(records[x]):.1%}" for x in (False, True)),
                    *(
                        f"{statistics.median(rates[x]):,.0f}"
                        for x in (False, True)
                    ),
                    report.ratios(rates[True], rates[False]),
                ]
            )
    versions = {"tensorflow": tf.__version__, "keras": keras.__version__}
    print(f"- {args.config}, float32, {args.sentence_order}")
    print(report.description(here, versions), "\n")
    header = [
        *("length", "padding", "packed: padding"),
        *("real tokens/s", "packed: real tokens/s", "ratio"),
    ]
    print(report.table(header, table))


if __name__ == "__main__":
    main()
