"""Compares the speed of ALBERT implementations, in turns, on CPU.

Prints a Markdown table. Each system has a process and the same cores; a turn is
one measurement of every system, so slow spells of the machine hit all of them,
and ratios are taken turn by turn.

Example:
  python benchmarks/encoder_speed.py --batch 1 --peers transformers keras_hub
"""

from __future__ import annotations

import argparse
import json
import pathlib

import report
from systems import SYSTEMS
from worker import Worker
from workload import Workload

from albert_tf.config import AlbertConfig

OURS = "albert_tf"
PEERS = tuple(name for name in SYSTEMS if name != OURS)
TASKS = ("forward", "step")


def measure(workload, peers=PEERS, tasks=TASKS, repeats=15) -> dict:
    """Measures all systems in turns.

    Args:
      workload: what they compute.
      peers: systems to compare ours with.
      tasks: what is timed; a system without the task is left out.
      repeats: turns.

    Returns:
      `versions` (library -> version) and `seconds`
      (task -> system -> one number a turn).
    """
    workers = [Worker(system, workload) for system in (OURS, *peers)]
    seconds = {}
    for task in tasks:
        able = [worker for worker in workers if task in worker.tasks]
        shapes = {worker.system: worker.shape(task) for worker in able}
        if len(set(shapes.values())) > 1:
            raise SystemExit(f"{task}: results differ in shape: {shapes}")
        seconds[task] = {worker.system: [] for worker in able}
        for _ in range(repeats):
            for worker in able:
                seconds[task][worker.system].append(worker.seconds(task))
    versions = {}
    for worker in workers:
        versions.update(worker.versions)
        worker.stop()
    return {"versions": versions, "seconds": seconds}


def to_markdown(seconds: dict[str, dict[str, list[float]]]) -> str:
    """Returns one row a task and system; ratios are of the same turn."""
    rows = [
        [
            f"{task}, {system}",
            report.milliseconds(times),
            report.ratios(times, systems[OURS]),
        ]
        for task, systems in seconds.items()
        for system, times in systems.items()
    ]
    header = ["task, system", "ms: median (min)", "times ours: median (range)"]
    return report.table(header, rows)


def main():
    """Reads the flags, measures and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--config", default="albert_base_v2")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--predictions", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--threads", type=int, default=report.available_cores())
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=TASKS)
    parser.add_argument(
        "--json", type=pathlib.Path, help="file for all numbers"
    )
    flags = parser.parse_args()

    here = report.machine()
    config = AlbertConfig.from_official(
        flags.config, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    workload = Workload(
        config, flags.batch, flags.length, flags.predictions, flags.threads
    )
    result = measure(workload, flags.peers, flags.tasks, flags.repeats)
    result = {
        "command": report.command(),
        "machine": here,
        "config": flags.config,
        "batch": flags.batch,
        "length": flags.length,
        "predictions": flags.predictions,
        "threads": flags.threads,
        **result,
    }
    if flags.json:
        flags.json.write_text(json.dumps(result, indent=2) + "\n")
    print(
        f"- {flags.config}, float32, no dropout, {flags.batch} x "
        f"{flags.length} tokens without padding, {flags.predictions} "
        "predictions a sequence"
    )
    print(report.description(here, result["versions"], flags.threads), "\n")
    print(to_markdown(result["seconds"]))


if __name__ == "__main__":
    main()
