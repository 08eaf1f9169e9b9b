"""Measures the memory of a pretraining step on CPU, compared with the formula.

A case is `config:BATCHxLENGTH[:remat][:precision][:accumulation=N]`, and runs
two steps of LAMB in its own process. Prints a Markdown table with a row per
case: the peak resident memory of the process (including TensorFlow and
compilation); the peak of TensorFlow's allocator in the second step, above
weights and moments (gradients, activations and working memory); the same by
the formula of `albert_tf.analysis.activation_memory`; and the time of the step.

Example:
  python benchmarks/training_memory.py albert_tiny:32x128:remat
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

import report

from albert_tf.analysis.activation_memory import training_memory
from albert_tf.config import AlbertConfig

MIB = 2**20


def case_of(text: str) -> dict:
    """Parses a case."""
    name, sizes, *options = text.split(":")
    batch, length = sizes.split("x")
    case = {
        "config": name,
        "batch_size": int(batch),
        "seq_length": int(length),
        "predictions": max(1, round(0.15 * int(length))),
        "precision": "float32",
        "rematerialize": False,
        "accumulation": 1,
    }
    for option in options:
        key, _, value = option.partition("=")
        if option == "remat":
            case["rematerialize"] = True
        elif key == "accumulation":
            case["accumulation"] = int(value)
        elif option in ("mixed_bfloat16", "mixed_float16"):
            case["precision"] = option
        else:
            raise SystemExit(f"{text}: unknown option {option!r}")
    return case


def highest_resident() -> int:
    """Returns the peak resident memory of this process in bytes."""
    status = pathlib.Path("/proc/self/status").read_text()
    line = next(x for x in status.splitlines() if x.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def measure(case: dict) -> dict:
    """Runs two steps in this process and returns the cost of the second."""
    import keras
    import numpy as np
    import tensorflow as tf

    from albert_tf.models.pretrainer import AlbertPretrainer
    from albert_tf.objectives.masked_language_modeling import (
        MaskedLanguageModeling,
    )
    from albert_tf.training.config import TrainingConfig
    from albert_tf.training.optimizers import Lamb
    from albert_tf.training.train_step import TrainStep

    keras.config.set_dtype_policy(case["precision"])
    config = AlbertConfig.from_official(case["config"])
    model = AlbertPretrainer(config, rematerialize=case["rematerialize"])
    optimizer = Lamb()
    optimizer.build(model.trainable_variables)
    step = TrainStep(
        TrainingConfig(
            num_train_steps=1,
            gradient_accumulation_steps=case["accumulation"],
            log_update_norms=False,
        ),
        model,
        MaskedLanguageModeling(),
        optimizer,
        micro_batch_size=case["batch_size"] // case["accumulation"],
    )
    strategy = tf.distribute.OneDeviceStrategy("/CPU:0")
    batch, length = case["batch_size"], case["seq_length"]
    picks = case["predictions"]
    rng = np.random.default_rng(0)
    inputs = {
        "input_word_ids": rng.integers(5, config.vocab_size, (batch, length)),
        "input_mask": np.ones((batch, length)),
        "input_type_ids": np.zeros((batch, length)),
        "masked_lm_positions": rng.integers(1, length, (batch, picks)),
        "masked_lm_ids": rng.integers(5, config.vocab_size, (batch, picks)),
        "sentence_order_labels": np.zeros(batch),
    }
    inputs = {name: tf.constant(x, tf.int32) for name, x in inputs.items()}
    inputs["masked_lm_weights"] = tf.ones((batch, picks))

    @tf.function
    def run(inputs, seed):
        return strategy.run(
            step, args=(inputs, tf.constant(1e-4), seed, tf.ones([]))
        )

    run(inputs, tf.constant([1, 2]))
    # On CPUs these are the statistics of oneDNN's allocator.
    tf.config.experimental.reset_memory_stats("CPU:0")
    start = time.perf_counter()
    rows = run(inputs, tf.constant([1, 3])).numpy()
    seconds = time.perf_counter() - start
    if not np.all(np.isfinite(rows)):
        raise FloatingPointError("the loss or the gradient is not finite")
    allocator = tf.config.experimental.get_memory_info("CPU:0")
    return {
        "process": highest_resident(),
        "step": allocator["peak"] - allocator["current"],
        "seconds": seconds,
        "versions": {"tensorflow": tf.__version__, "keras": keras.__version__},
    }


def in_fresh_process(case: dict) -> dict:
    """Runs `measure` in a new process."""
    done = subprocess.run(
        [sys.executable, __file__, "--worker", json.dumps(case)],
        # As in `albert`; without oneDNN there are no statistics.
        env={
            **os.environ,
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "TF_ENABLE_ONEDNN_OPTS": "1",
        },
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        return {}
    return json.loads(done.stdout.splitlines()[-1])


def row_of(case: dict, found: dict) -> list[str]:
    """Returns a row of the table, with dashes if the process died."""
    names = {k: v for k, v in case.items() if k != "config"}
    config = AlbertConfig.from_official(case["config"])
    expected = training_memory(config, **names).step
    row = [
        case["config"],
        f"{case['batch_size']} x {case['seq_length']}",
        case["precision"],
        "yes" if case["rematerialize"] else "no",
        str(case["accumulation"]),
    ]
    if not found:
        return [*row, "died", "-", f"{expected / MIB:,.0f}", "-", "-"]
    return [
        *row,
        f"{found['process'] / MIB:,.0f}",
        f"{found['step'] / MIB:,.0f}",
        f"{expected / MIB:,.0f}",
        f"{found['step'] / expected:.2f}",
        f"{found['seconds']:.1f}",
    ]


def main():
    """Measures the cases and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "cases", nargs="*", help="config:BATCHxLENGTH[:OPTION...], see above"
    )
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.worker:
        print(json.dumps(measure(json.loads(flags.worker))))
        return
    here = report.machine()
    versions, rows = {}, []
    for case in map(case_of, flags.cases):
        found = in_fresh_process(case)
        versions = found.get("versions", versions)
        rows.append(row_of(case, found))
        print(" ".join(rows[-1]), file=sys.stderr, flush=True)
    print(report.description(here, versions, report.available_cores()), "\n")
    header = [
        "config",
        "batch x length",
        "precision",
        "remat",
        "micro-batches",
        "process, MiB",
        "step, MiB",
        "formula, MiB",
        "step / formula",
        "seconds",
    ]
    print(report.table(header, rows))


if __name__ == "__main__":
    main()
