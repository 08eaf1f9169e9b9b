"""Fine-tuning of a small encoder on a GPU, with JAX and without TensorFlow.

    python benchmarks/finetune_jax.py --features=features --model=MODEL \
        --jobs=jobs.json --output=results

`finetune_features.py write` writes the features, and its `score` scores the
results. The data stays on the GPU, and all seeds of a job are trained together.

The jobs are a JSON list of objects, see `Job`, and are run in this order:

    [{"name": "qnli", "task": "qnli", "epochs": 2, "learning_rate": 3e-4,
      "seeds": [0, 1, 2]},
     {"name": "rte_qnli", "task": "rte", "epochs": 5, "learning_rate": 1e-4,
      "seeds": [0, 1, 2], "init": "qnli"}]

Each evaluation prints a JSON line. NAME.npz has the logits on the development
set at each of them, `arr_0`, `arr_1` and so on, `[seeds, examples, outputs]`;
those of questions only at the last, without padding, `[seeds, tokens, 2]`.

Scores are not those of `albert finetune` with the same seed: batches and heads
differ, the bias of regression begins at 0, the last partial batch of an epoch
is left out, pairs of texts have the usual head (`--head=cls`), and the texts of
a batch are padded to one of the task's widths, see `Task` in finetune_data.py.
"""

import argparse
import dataclasses
import functools
import json
import os
import pathlib
import time
from collections.abc import Sequence
from typing import Any

os.environ["KERAS_BACKEND"] = "jax"

import jax.numpy as jnp
import keras
import numpy as np
from finetune_data import (
    OUTPUTS,
    SIMILARITY,
    TASKS,
    development_data,
    plan_calls,
    rows_by_width,
    training_data,
)
from finetune_steps import (
    Encoder,
    learning_rates,
    make_predictor,
    make_program,
    new_state,
)
from scipy import stats

from albert_tf.errors import InputError, exit_on_input_error

MODEL = "BASE"  # the name of --model in jobs


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """A task to train on.

    The learning rate rises linearly in the first tenth of the steps, then falls
    linearly to 0.

    Attributes:
      name: name of the job and of its files. For `finetune_features.py score`
        it begins with the task, such as "mrpc_1e-4".
      task: one of `TASKS`.
      learning_rate: the highest one.
      epochs: number of passes, which may be a fraction; rounded up, the number
        of evaluations.
      steps: number of updates; 0 for those of `epochs`.
      batch: examples in a batch.
      seeds: seeds of new heads, order and dropout, trained together.
      init: what to start from: "BASE" for --model, the name of a job before, or
        a checkpoint of the same architecture.
      mix: another one and its share, such as `["job", 0.5]`, to start from
        weights in between.
      only_mix: whether to keep these weights for other jobs, without training.
      ema: decay of an average of the weights, which is scored; 0 for none.
      save: whether to write NAME.weights.npz, in float16, of the first seed.
    """

    name: str
    task: str
    learning_rate: float = 0.0
    epochs: float = 1
    steps: int = 0
    batch: int = 32
    seeds: Sequence[int] = (0,)
    init: str = MODEL
    mix: tuple[str, float] | None = None
    only_mix: bool = False
    ema: float = 0.0
    save: bool = False


def parse_arguments():
    """Returns the flags."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = functools.partial(parser.add_argument, required=True)
    add("--features", type=pathlib.Path, help="folder of the features")
    add("--model", help="checkpoint in any format")
    add("--jobs", type=pathlib.Path, help="JSON file of the jobs")
    add("--output", type=pathlib.Path, help="folder of the results")
    add = parser.add_argument
    add("--precision", default="mixed_bfloat16", help="or float32")
    add("--steps_per_call", type=int, default=50)
    return parser.parse_args()


def read_jobs(path):
    """Returns the jobs of a file."""
    try:
        jobs = [Job(**values) for values in json.loads(path.read_text())]
    except (TypeError, ValueError) as error:
        raise InputError(f"{path}: not a list of jobs ({error})") from None
    for job in jobs:
        if job.task not in TASKS:
            known = ", ".join(TASKS)
            raise InputError(f"task={job.task!r} must be one of {known}")
    return jobs


class Trainer:
    """Training of jobs, and what they share."""

    def __init__(self, flags: argparse.Namespace):
        self._flags = flags
        self._encoder = Encoder(flags.model)
        self._weights: dict[str, Any] = {}  # by job, `[seeds, ...]`

    def _predict(self, task, weights):
        """Returns the outputs on a development set, and its columns."""
        columns, parts = development_data(self._flags.features, task)
        kind, lengths = TASKS[task].kind, columns["lengths"].astype(int)
        predict, found = make_predictor(self._encoder, kind), {}
        for rows, batches in parts:
            outputs = np.array(predict(weights, batches))
            outputs = outputs.reshape(-1, *outputs.shape[2:])
            found |= dict(zip(rows.tolist(), outputs, strict=False))
        rows = [found[row] for row in range(len(lengths))]
        if kind == "span":
            rows = [x[:n] for x, n in zip(rows, lengths, strict=True)]
            return np.concatenate(rows), columns
        return np.stack(rows), columns

    def _similarity(self, weights):
        """Returns Spearman's correlation of cosines and scores."""
        vectors, columns = self._predict(SIMILARITY, weights)
        vectors = vectors.astype(np.float64).reshape(-1, 2, vectors.shape[-1])
        vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
        cosines = (vectors[:, 0] * vectors[:, 1]).sum(-1)
        return stats.spearmanr(cosines, columns["scores"])[0]

    def _evaluate(self, job, weights):
        """Returns the outputs for one seed, or None, and scores."""
        kind = TASKS[job.task].kind
        if kind in ("pairs", "cosine"):
            return None, {"spearman": self._similarity(weights)}
        outputs, columns = self._predict(job.task, weights)
        if kind == "span":
            return outputs, {}
        gold = columns["gold"]
        if kind == "classes":
            return outputs, {"accuracy": (outputs.argmax(1) == gold).mean()}
        pearson = stats.pearsonr(outputs[:, 0], gold)[0]
        spearman = stats.spearmanr(outputs[:, 0], gold)[0]
        return outputs, {"pearson": pearson, "spearman": spearman}

    def _evaluate_all(self, job, weights):
        """Returns a list of the outputs, if any, and scores of all seeds."""
        found = [
            self._evaluate(job, [x[seed] for x in weights])
            for seed in range(len(job.seeds))
        ]
        outputs, scores = zip(*found, strict=True)
        together = [] if outputs[0] is None else [np.stack(outputs)]
        return together, {name: [x[name] for x in scores] for name in scores[0]}

    def _start(self, job):
        """Returns the initial weights of the encoder, `[seeds, ...]`."""
        count = len(job.seeds)

        def weights_of(name):
            if name in self._weights:
                saved = self._weights[name]
                if len(saved[0]) == count:
                    return [jnp.array(x) for x in saved]
                saved = [x[0] for x in saved]
            elif name == MODEL:
                saved = self._encoder.weights
            else:
                saved = Encoder(name).weights
            return [jnp.stack([x] * count) for x in saved]

        weights = weights_of(job.init)
        if job.mix:
            name, share = job.mix
            others = weights_of(name)
            pairs = zip(weights, others, strict=True)
            weights = [x + share * (y - x) for x, y in pairs]
        return weights

    def _new_head(self, job, generators):
        """Returns kernel and bias of a head, `[seeds, ...]`."""
        config = self._encoder.config
        shape = (config.hidden_size, OUTPUTS[TASKS[job.task].kind])
        kernels = [
            np.clip(generator.normal(size=shape), -2, 2)
            * config.initializer_range
            for generator in generators
        ]
        bias = jnp.zeros((len(kernels), shape[1]))
        return [jnp.asarray(np.stack(kernels), jnp.float32), bias]

    def run(self, job: Job) -> None:
        """Trains a job, prints its lines and writes its files."""
        start = time.time()
        weights = self._start(job)
        if job.only_mix:
            self._weights[job.name] = weights
            spearman = self._similarity([x[0] for x in weights])
            print_line(name=job.name, spearman=spearman)
            return
        kind, per_call = TASKS[job.task].kind, self._flags.steps_per_call
        data = training_data(self._flags.features, job.task)
        examples = len(data["lengths"])
        steps = job.steps or int(examples // job.batch * job.epochs)
        generators = [np.random.default_rng(seed) for seed in job.seeds]
        weights = weights + self._new_head(job, generators)
        parts = rows_by_width(data, TASKS[job.task].widths)
        calls = plan_calls(parts, generators, job.batch, per_call, steps)
        evaluations = max(1, int(np.ceil(job.epochs)))
        ends = [
            int(np.ceil(i * len(calls) / evaluations))
            for i in range(1, evaluations + 1)
        ]
        state = new_state(weights, job.ema)
        total = len(calls) * per_call
        rates = learning_rates(job.learning_rate, steps, total)
        run = make_program(self._encoder, kind)
        seeds, logs, results = jnp.asarray(job.seeds, jnp.int32), [], []
        best = "average" if job.ema else "weights"
        widths = {
            width: {**data, "ids": data["ids"][..., :width]}
            for width, _ in parts
        }
        for number, (width, rows) in enumerate(calls, 1):
            end = number * per_call
            state, log = run(
                state, widths[width], rows, rates[end - per_call : end], seeds
            )
            logs.append(log)
            if number not in ends:
                continue
            line = {"name": job.name, "step": end, "of": steps}
            recent = np.concatenate(logs)[-200:]
            line["loss"], line["right"] = recent.mean((0, 1))
            if number == len(calls) or kind != "span":
                outputs, scores = self._evaluate_all(job, state[best])
                results += outputs
                line |= scores
            print_line(**line, seconds=time.time() - start)
        weights = state[best]
        self._weights[job.name] = weights[: self._encoder.size]
        if results:
            path = self._flags.output / f"{job.name}.npz"
            np.savez_compressed(path, *results)
        if job.save:
            self._save(job, [np.asarray(x[0], np.float16) for x in weights])

    def _save(self, job, weights):
        """Writes weights by their paths, with "|" for "/"."""
        names = [
            path.partition("/")[2].replace("/", "|")
            for path in self._encoder.paths
        ]
        names += ["head|kernel", "head|bias"]
        path = self._flags.output / f"{job.name}.weights.npz"
        np.savez(path, **dict(zip(names, weights, strict=True)))


def print_line(**values):
    """Prints a line of JSON with rounded numbers."""

    def rounded(value):
        if isinstance(value, list):
            return [rounded(x) for x in value]
        is_float = isinstance(value, (float, np.floating))
        return round(float(value), 4) if is_float else value

    print(json.dumps({n: rounded(x) for n, x in values.items()}), flush=True)


def main():
    """Runs the jobs."""
    flags = parse_arguments()
    jobs = read_jobs(flags.jobs)
    keras.config.set_dtype_policy(flags.precision)
    flags.output.mkdir(parents=True, exist_ok=True)
    trainer = Trainer(flags)
    for job in jobs:
        trainer.run(job)


if __name__ == "__main__":
    with exit_on_input_error("finetune_jax"):
        main()
