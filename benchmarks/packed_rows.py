"""Compares packed with padded rows on sentences of mixed lengths, on CPU.

Prints a Markdown table: the time of one batch, padded to its longest sentence
and to a fixed length, with `AlbertEncoder(packed=False)` and `packed=True`.
First checks that all four give the same outputs.

Example:
  python benchmarks/packed_rows.py --batch 32 --repeats 5
"""

from __future__ import annotations

import argparse
import os
import time

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import report
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.models.encoder import AlbertEncoder

# Largest difference between outputs, whose size is about 1.
TOLERANCE = 1e-5


def sentences(lengths: np.ndarray, vocab_size: int, padded_length: int) -> dict:
    """Returns an encoder's input dict, int32 `[sentences, padded_length]`.

    The same lengths give the same tokens, whatever the padding.
    """
    mask = (np.arange(padded_length) < lengths[:, None]).astype("int32")
    ids = np.zeros_like(mask)
    ids[mask == 1] = np.random.default_rng(1).integers(
        5, vocab_size, lengths.sum()
    )
    inputs = {
        "input_word_ids": ids,
        "input_mask": mask,
        "input_type_ids": np.zeros_like(mask),
    }
    return {name: tf.constant(value) for name, value in inputs.items()}


def encoders(config: AlbertConfig) -> dict:
    """Returns "padded" and "packed" graphs that share their weights' values."""
    models = {
        "padded": AlbertEncoder(config, packed=False),
        "packed": AlbertEncoder(config, packed=True),
    }
    models["packed"].set_weights(models["padded"].get_weights())

    def graph(model):
        @tf.function
        def encode(inputs):
            outputs = model(inputs)
            return outputs["sequence_output"], outputs["pooled_output"]

        return encode

    return {name: graph(model) for name, model in models.items()}


def largest_difference(graphs: dict, batches: dict) -> float:
    """Returns by how much outputs of real tokens differ between the variants.

    Raises:
      SystemExit: by more than `TOLERANCE`.
    """
    results = []
    for inputs in batches.values():
        real = inputs["input_mask"].numpy() == 1
        for encode in graphs.values():
            states, pooled = encode(inputs)
            results.append((states.numpy()[real], pooled.numpy()))
    difference = max(
        float(np.abs(output - expected).max())
        for result in results[1:]
        for output, expected in zip(result, results[0], strict=True)
    )
    # Written so that NaN fails.
    if not difference <= TOLERANCE:
        raise SystemExit(f"outputs differ by {difference}")
    return difference


def measure(graphs: dict, batches: dict, repeats: int) -> dict:
    """Returns (padding, rows) -> seconds, one number a turn."""
    seconds = {(b, g): [] for b in batches for g in graphs}
    for _ in range(repeats):
        for (padding, rows), times in seconds.items():
            start = time.perf_counter()
            states, _ = graphs[rows](batches[padding])
            states.numpy()
            times.append(time.perf_counter() - start)
    return seconds


def main():
    """Reads the flags, checks, measures and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--config", default="albert_base_v2")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--shortest", type=int, default=4)
    parser.add_argument("--longest", type=int, default=49)
    parser.add_argument("--fixed", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--threads", type=int, default=report.available_cores())
    flags = parser.parse_args()

    here = report.machine()
    tf.config.threading.set_intra_op_parallelism_threads(flags.threads)
    tf.config.threading.set_inter_op_parallelism_threads(flags.threads)
    config = AlbertConfig.from_official(
        flags.config, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    lengths = np.random.default_rng(0).integers(
        flags.shortest, flags.longest, flags.batch, endpoint=True
    )
    batches = {
        f"to {padding} tokens": sentences(lengths, config.vocab_size, padding)
        for padding in (lengths.max(), flags.fixed)
    }
    graphs = encoders(config)
    difference = largest_difference(graphs, batches)
    seconds = measure(graphs, batches, flags.repeats)

    versions = {"tensorflow": tf.__version__, "keras": keras.__version__}
    print(
        f"- {flags.config}, float32, {flags.batch} sentences of "
        f"{flags.shortest} to {flags.longest} tokens, {lengths.sum()} in all; "
        f"outputs differ by at most {difference:.0e}"
    )
    print(report.description(here, versions, flags.threads), "\n")
    header = ["padded", "padded rows, ms", "packed rows, ms", "padded / packed"]
    rows = []
    for padding in batches:
        padded, packed = seconds[padding, "padded"], seconds[padding, "packed"]
        rows.append(
            [
                padding,
                report.milliseconds(padded),
                report.milliseconds(packed),
                report.ratios(padded, packed),
            ]
        )
    print(report.table(header, rows))


if __name__ == "__main__":
    main()
