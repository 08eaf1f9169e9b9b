"""Tasks of `finetune_jax.py`, and their texts on the device."""

import dataclasses
import functools
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from albert_tf.errors import InputError

OUTPUTS = {"classes": 2, "number": 1, "span": 2, "pairs": 1, "cosine": 1}
SIMILARITY = "stse"  # its development set scores embeddings


@dataclasses.dataclass(frozen=True)
class Task:
    """What is trained on the features of a task.

    Attributes:
      kind: "classes", "number" or "span", with a new head; "pairs", where each
        text finds its partner in the batch; or "cosine" of pairs with scores.
      features: names of the training features; empty for the task's own.
      batch: examples at a time on the development set.
      widths: lengths to pad to; empty for that of the longest text. A batch
        has texts that are padded to the same one.
    """

    kind: str
    features: Sequence[str] = ()
    batch: int = 100
    widths: Sequence[int] = ()


TASKS = {
    "sst2": Task("classes", widths=(32, 64)),
    "mrpc": Task("classes"),
    "rte": Task("classes"),
    "qnli": Task("classes", widths=(64, 128)),
    "imdb": Task("classes", batch=50, widths=(256, 512, 1024)),
    "stsb": Task("number"),
    "squad1.1": Task("span", batch=64, widths=(192, 384)),
    "pairs": Task("pairs"),
    "near": Task("pairs"),
    "both": Task("pairs", features=("pairs", "near")),
    SIMILARITY: Task("cosine"),
}


def read_features(path):
    """Returns the columns of a file, and its padded texts.

    Texts are padded to a multiple of 64 tokens.
    """
    with np.load(path) as file:
        columns = dict(file)
    lengths = columns["lengths"].astype(np.int32)
    width = -(-int(lengths.max()) // 64) * 64
    ids = np.zeros((len(lengths), width), np.uint16)
    ids[np.arange(width) < lengths[:, None]] = columns["ids"]
    segments = columns["segment"].astype(np.int32)
    return columns, {"ids": ids, "lengths": lengths, "segments": segments}


@functools.cache
def training_data(folder, task):
    """Returns the training data of a task, on the device."""
    kind, parts = TASKS[task].kind, []
    for name in TASKS[task].features or [task]:
        path = folder / f"{name}.train.npz"
        columns, data = read_features(path)
        if kind in ("pairs", "cosine"):
            data = {n: x.reshape(-1, 2, *x.shape[1:]) for n, x in data.items()}
            data["hashes"] = columns["hashes"]
        if kind == "cosine":
            data["target"] = columns["scores"].astype(np.float32) / 5
        elif kind == "span":
            ends = [columns[f"{x}_positions"] for x in ("start", "end")]
            data["target"] = np.stack(ends, 1).astype(np.int32)
        elif kind != "pairs":
            dtype = np.float32 if kind == "number" else np.int32
            data["target"] = columns["labels"].astype(dtype)
        parts.append(data)
    return {
        name: jnp.asarray(np.concatenate([part[name] for part in parts]))
        for name in parts[0]
    }


@functools.cache
def development_data(folder, task):
    """Returns the columns of the development set, and parts of equal width.

    Each part has the rows of its examples, and their batches.
    """
    columns, data = read_features(folder / f"{task}.dev.npz")
    size, parts = TASKS[task].batch, []

    def batches(values):
        missing = np.repeat(values[:1], -len(values) % size, 0)
        values = np.concatenate([values, missing])
        return jnp.asarray(values.reshape(-1, size, *values.shape[1:]))

    for width, rows in rows_by_width(data, TASKS[task].widths):
        part = {name: column[rows] for name, column in data.items()}
        part["ids"] = part["ids"][..., :width]
        parts.append((rows, {n: batches(x) for n, x in part.items()}))
    return columns, parts


def rows_by_width(data, widths):
    """Returns widths, and the rows of the texts that are padded to each."""
    longest = data["ids"].shape[-1]
    if not widths:
        return [(longest, np.arange(len(data["ids"])))]
    if longest > widths[-1]:
        raise InputError(
            f"texts of {longest} tokens, but this task's are padded to "
            f"{widths[-1]} at most; write shorter features"
        )
    places = np.searchsorted(widths, np.asarray(data["lengths"]))
    found = [(w, np.flatnonzero(places == i)) for i, w in enumerate(widths)]
    return [(width, rows) for width, rows in found if len(rows)]


def batches(generator, examples, size, count):
    """Returns the examples of each batch, `[count, size]`, shuffled anew."""
    whole, rows = examples // size * size, []
    for _ in range(-(-count * size // whole)):
        rows.append(generator.permutation(examples)[:whole])
    rows = np.concatenate(rows)[: count * size]
    return rows.reshape(count, size)


def plan_calls(parts, generators, size, per_call, steps):
    """Returns the width and the examples of each call of a program.

    Calls of the different widths are spread evenly over the training.

    Args:
      parts: widths, and the rows of the examples that are padded to each.
      generators: those of the seeds.
      size: examples in a batch.
      per_call: batches in a call, which have the same width.
      steps: number of batches, at least.

    Returns:
      A list of pairs of a width and rows, `[per_call, seeds, size]`.
    """
    examples, calls = sum(len(rows) for _, rows in parts), []
    for width, rows in parts:
        if len(rows) < size:
            raise InputError(
                f"only {len(rows)} texts are padded to {width} tokens, fewer "
                f"than a batch of {size}; set a smaller batch"
            )
        count = -(-len(rows) * steps // (examples * per_call))
        found = [
            batches(x, len(rows), size, count * per_call) for x in generators
        ]
        order = rows[np.stack(found, axis=1)].astype(np.int32)
        for number, part in enumerate(np.split(order, count)):
            calls.append(((number + 0.5) / count, width, part))
    calls.sort(key=lambda x: x[:2])
    return [(width, order) for _, width, order in calls]
