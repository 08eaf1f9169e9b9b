"""Compares the loss of pretraining in several precisions, on real text.

Runs `albert pretrain` once for each precision, with the same records, seed and
settings, and prints a Markdown table: the training loss over the last
`--window` steps (the mean of all their examples), how far it is from the first
precision's, the same for the worst window of the run, and the speed.

The defaults leave the plateau, on which the loss only says how frequent words
are, within the 600 steps: one layer does that sooner than four.

Example:
  albert create-data --input=texts --output=records --max_seq_length=32 ...
  python benchmarks/precision_curves.py --input=records --output=runs
"""

from __future__ import annotations

import argparse
import os
import pathlib
import subprocess
import sys
from importlib import metadata

import report

from albert_tf.training.logging import read_metrics


def pretrain(flags: argparse.Namespace, precision: str) -> list[dict]:
    """Runs one pretraining in a process of its own; returns its log."""
    run_dir = pathlib.Path(flags.output) / precision
    settings = {
        "input": flags.input,
        "output": run_dir,
        "config": flags.config,
        "config_overrides": flags.config_overrides,
        "precision": precision,
        "optimizer": "adamw",
        "learning_rate": flags.learning_rate,
        "schedule": "warmup_stable_decay",
        "num_warmup_steps": flags.warmup,
        "num_train_steps": flags.steps,
        "train_batch_size": flags.batch,
        "log_steps": flags.window,
        "steps_per_loop": flags.window,
        "save_checkpoints_steps": flags.steps,
        "eval_steps": 0,
        "seed": flags.seed,
    }
    subprocess.run(
        [
            *(sys.executable, "-m", "albert_tf", "pretrain"),
            *(f"--{name}={value}" for name, value in settings.items()),
        ],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        check=True,
    )
    return [x["values"] for x in read_metrics(run_dir) if x["split"] == "train"]


def main():
    """Reads the flags, runs and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--input", required=True, help="folder of records")
    parser.add_argument("--output", required=True, help="folder of the runs")
    parser.add_argument("--config", default="albert_tiny")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--window", type=int, default=50)
    parser.add_argument("--learning_rate", type=float, default=1e-3)
    parser.add_argument("--warmup", type=int, default=500)
    parser.add_argument(
        "--config_overrides",
        default="initializer_range=0.04,num_hidden_layers=1",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--precisions", default="float32,mixed_bfloat16,mixed_float16"
    )
    flags = parser.parse_args()
    if flags.steps % flags.window:
        parser.error("--steps must be a multiple of --window")

    here = report.machine()
    rows, reference = [], None
    for precision in flags.precisions.split(","):
        log = pretrain(flags, precision)
        reference = reference or log
        differences = [
            100 * (ours["loss"] / theirs["loss"] - 1)
            for ours, theirs in zip(log, reference, strict=True)
        ]
        end = log[-1]
        speed = sorted(x["tokens_per_second"] for x in log)[len(log) // 2]
        rows.append(
            [
                precision,
                f"{log[0]['loss']:.4f}",
                f"{end['loss']:.4f}",
                f"{differences[-1]:+.2f} %",
                f"{max(differences, key=abs):+.2f} %",
                f"{end['mlm_loss']:.4f}",
                f"{end['mlm_accuracy']:.4f}",
                f"{speed:,.0f}",
            ]
        )
    versions = {x: metadata.version(x) for x in ("tensorflow", "keras")}
    print(report.description(here, versions, report.available_cores()), "\n")
    header = [
        "precision",
        f"loss, steps 1-{flags.window}",
        f"steps {flags.steps - flags.window + 1}-{flags.steps}",
        f"against {flags.precisions.split(',')[0]}",
        "worst window",
        "MLM loss",
        "MLM accuracy",
        "tokens/s, median",
    ]
    print(report.table(header, rows))


if __name__ == "__main__":
    main()
