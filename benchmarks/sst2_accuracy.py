"""What pretraining is worth: SST-2 dev accuracy from three starting points.

- `pretrained`: a classifier on the encoder of a checkpoint;
- `untrained`: the same architecture with random weights;
- `mean-pooled embeddings`: no encoder, a linear layer on the mean of the
  checkpoint's word embeddings, which are trained with it.

All three are trained alike on the whole of SST-2 with Keras's `fit`, with
several seeds; printed is a Markdown table.

Example:
  python benchmarks/sst2_accuracy.py --model=run --data=glue/SST-2
"""

from __future__ import annotations

import argparse
import csv
import os
import pathlib
import time

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # As `albert` has it.

import keras
import numpy as np
import report
import tensorflow as tf

import albert_tf

STARTS = ("pretrained", "untrained", "mean-pooled embeddings")

# Sentences are batched with others of about their length.
WINDOW_BATCHES = 50


def read(path: pathlib.Path) -> tuple[list[str], np.ndarray]:
    """Returns the sentences and labels of a file as GLUE distributes it."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(
            csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        )
    return [row["sentence"] for row in rows], np.array(
        [int(row["label"]) for row in rows], np.int32
    )


def batches(ids, labels, batch_size, rng):
    """Returns `(inputs, labels)` of one epoch, in a new order.

    Args:
      ids: token ids of the sentences, with [CLS] and [SEP].
      labels: int `[sentences]`.
      batch_size: sentences a batch.
      rng: for the order; None keeps it.
    """
    order = np.arange(len(ids)) if rng is None else rng.permutation(len(ids))
    window = batch_size * WINDOW_BATCHES
    found = []
    for start in range(0, len(order), window):
        part = sorted(order[start : start + window], key=lambda i: len(ids[i]))
        found += [
            part[i : i + batch_size] for i in range(0, len(part), batch_size)
        ]
    if rng is not None:
        rng.shuffle(found)
    return [(padded([ids[i] for i in x]), labels[x]) for x in found]


def padded(rows) -> dict[str, np.ndarray]:
    """Returns the encoder's inputs, padded to the longest row."""
    length = max(map(len, rows))
    words = np.zeros((len(rows), length), np.int32)
    for word_ids, row in zip(words, rows, strict=True):
        word_ids[: len(row)] = row
    mask = np.arange(length) < np.array([len(row) for row in rows])[:, None]
    return {
        "input_word_ids": words,
        "input_mask": mask.astype(np.int32),
        "input_type_ids": np.zeros_like(words),
    }


class MeanPooledEmbeddings(keras.Model):
    """A linear classifier on the mean of the word embeddings."""

    def __init__(self, table: np.ndarray):
        super().__init__()
        self.table = keras.layers.Embedding(
            *table.shape, weights=[table], name="word_embeddings"
        )
        self.head = keras.layers.Dense(2, name="head")

    def call(self, inputs, training=False):
        """Maps the encoder's inputs to logits `[batch, 2]`."""
        weights = keras.ops.cast(inputs["input_mask"], "float32")[..., None]
        total = keras.ops.sum(
            self.table(inputs["input_word_ids"]) * weights, axis=1
        )
        return self.head(total / keras.ops.sum(weights, axis=1))


def start(name: str, checkpoint: str) -> tuple[keras.Model, float]:
    """Returns the model of a row, and the learning rate that suits it."""
    encoder = albert_tf.AlbertEncoder.from_pretrained(checkpoint)
    if name == "mean-pooled embeddings":
        table = keras.ops.convert_to_numpy(encoder.word_embeddings)
        return MeanPooledEmbeddings(table), 1e-3
    if name == "untrained":
        return albert_tf.AlbertClassifier(encoder.config, num_labels=2), 1e-4
    return albert_tf.AlbertClassifier.from_pretrained(
        checkpoint, num_labels=2
    ), 1e-4


def main() -> None:
    """Trains and scores every row, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="checkpoint or run")
    parser.add_argument("--data", required=True, help="folder of SST-2")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--examples", type=int, default=0, help="0: all")
    parser.add_argument(
        "--start", choices=STARTS, action="append", help="default: all three"
    )
    flags = parser.parse_args()
    machine = report.machine()
    folder = pathlib.Path(flags.data)
    tokenizer = albert_tf.AlbertTokenizer.from_pretrained(flags.model)
    data = {}
    for split in ("train", "dev"):
        sentences, labels = read(folder / f"{split}.tsv")
        ids = [
            [tokenizer.cls_id, *row[:126], tokenizer.sep_id]
            for row in tokenizer.encode(sentences)
        ]
        data[split] = ids, labels
    if flags.examples:
        data["train"] = tuple(x[: flags.examples] for x in data["train"])
    rows = []
    for name in flags.start or STARTS:
        scores, started = [], time.perf_counter()
        for seed in range(flags.seeds):
            keras.utils.set_random_seed(seed)
            scores.append(train(*start(name, flags.model), data, flags, seed))
        minutes = (time.perf_counter() - started) / 60 / flags.seeds
        rows.append(
            [
                name,
                f"{100 * np.median(scores):.1f}",
                f"{100 * min(scores):.1f}-{100 * max(scores):.1f}",
                f"{minutes:.1f}",
            ]
        )
        print(rows[-1], flush=True)
    print(report.table(["start", "accuracy, %", "range", "minutes"], rows))
    versions = {"tensorflow": tf.__version__, "keras": keras.__version__}
    threads = tf.config.threading.get_intra_op_parallelism_threads()
    print(report.description(machine, versions, threads or machine["cores"]))


def train(model, rate, data, flags, seed) -> float:
    """Trains a model as the flags say; returns its accuracy on dev."""
    rng = np.random.default_rng(seed)
    steps = flags.epochs * -(-len(data["train"][0]) // flags.batch)
    warm_up = steps // 10
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0, steps - warm_up, warmup_target=rate, warmup_steps=warm_up
    )
    model.compile(
        keras.optimizers.AdamW(schedule, weight_decay=0.01, global_clipnorm=1),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )

    def dataset(split, rng):
        return tf.data.Dataset.from_generator(
            lambda: iter(batches(*data[split], flags.batch, rng)),
            output_signature=(
                {
                    name: tf.TensorSpec([None, None], tf.int32)
                    for name in (
                        "input_word_ids",
                        "input_mask",
                        "input_type_ids",
                    )
                },
                tf.TensorSpec([None], tf.int32),
            ),
        ).prefetch(2)

    for _ in range(flags.epochs):
        model.fit(dataset("train", rng), verbose=0)
    return model.evaluate(dataset("dev", None), verbose=0, return_dict=True)[
        "accuracy"
    ]


if __name__ == "__main__":
    main()
