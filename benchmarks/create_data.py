"""Compares `albert create-data` with Model Garden's program.

Prints a Markdown table: seconds of the command, megabytes of text per second
and core without start-up (which is measured with a hundredth of the text), the
same relative to Model Garden, and the peak memory of all processes. Static
masks need several passes over the text, dynamic masks one.

Example:
  python benchmarks/create_data.py --input=text.txt \
      --spm_model_file=30k-clean.model
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import report

GARDEN = ".venv-model-garden/bin/python"


@dataclasses.dataclass(frozen=True)
class Cost:
    """Cost of a command.

    Attributes:
      seconds: Wall time.
      cpu_seconds: CPU time of all its processes.
      megabytes: Peak memory of all its processes (proportional set size).
    """

    seconds: float
    cpu_seconds: float
    megabytes: float


def run(command: list[str]) -> Cost:
    """Runs a command and returns its cost."""
    before, started = os.times(), time.perf_counter()
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        peak = 0.0
        while process.poll() is None:
            peak = max(peak, sum(map(_megabytes, _family(process.pid))))
            time.sleep(0.1)
        if process.returncode:
            log.seek(0)
            sys.exit(log.read().decode(errors="replace")[-4000:])
    after = os.times()
    cpu = (
        after.children_user
        + after.children_system
        - before.children_user
        - before.children_system
    )
    return Cost(time.perf_counter() - started, cpu, peak)


def _family(process: int) -> Iterator[int]:
    yield process
    for file in pathlib.Path(f"/proc/{process}/task").glob("*/children"):
        try:
            children = file.read_text().split()
        except OSError:
            continue
        for child in children:
            yield from _family(int(child))


def _megabytes(process: int) -> float:
    try:
        text = pathlib.Path(f"/proc/{process}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    sizes = [line.split() for line in text.splitlines()]
    return sum(float(x[1]) for x in sizes if x[0] == "Pss:") / 1e3


def garden(python: str, text: pathlib.Path, args: argparse.Namespace) -> Cost:
    """Runs Model Garden's program."""
    with tempfile.TemporaryDirectory() as folder:
        return run(
            [
                *(python, "-m", "official.nlp.data.create_pretraining_data"),
                f"--input_file={text}",
                f"--output_file={folder}/data.tfrecord",
                "--tokenization=SentencePiece",
                f"--sp_model_file={args.spm_model_file}",
                "--do_whole_word_mask",
                "--max_ngram_size=3",
                f"--max_seq_length={args.length}",
                f"--dupe_factor={args.passes}",
            ]
        )


def ours(
    masking: str, workers: int, text: pathlib.Path, args: argparse.Namespace
) -> Cost:
    """Runs `albert create-data`."""
    with tempfile.TemporaryDirectory() as folder:
        passes = [f"--dupe_factor={args.passes}"] * (masking == "static")
        return run(
            [
                *(sys.executable, "-m", "albert_tf", "create-data"),
                f"--input={text}",
                f"--output={folder}/data",
                f"--spm_model_file={args.spm_model_file}",
                f"--masking={masking}",
                f"--num_workers={workers}",
                f"--max_seq_length={args.length}",
                *passes,
            ]
        )


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", required=True, help="a sentence a line")
    parser.add_argument("--spm_model_file", required=True)
    parser.add_argument("--garden", default=GARDEN, help="Python with it")
    parser.add_argument("--megabytes", type=float, default=40)
    parser.add_argument("--garden_megabytes", type=float, default=2)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--passes", type=int, default=2)
    args = parser.parse_args()
    here = report.machine()
    content = pathlib.Path(args.input).read_bytes()
    runs = {
        "Model Garden": lambda text: garden(args.garden, text, args),
        "static, 1 worker": lambda text: ours("static", 1, text, args),
        "static, 2 workers": lambda text: ours("static", 2, text, args),
        "dynamic, 1 worker": lambda text: ours("dynamic", 1, text, args),
        "dynamic, 2 workers": lambda text: ours("dynamic", 2, text, args),
    }
    costs, rates, rows = {}, {}, []
    with tempfile.TemporaryDirectory() as folder:
        for name, measure in runs.items():
            is_garden = name == "Model Garden"
            megabytes = args.garden_megabytes if is_garden else args.megabytes
            size = min(len(content), int(megabytes * 1e6))
            text, start = pathlib.Path(folder, "a"), pathlib.Path(folder, "b")
            text.write_bytes(_documents(content, size))
            start.write_bytes(_documents(content, size // 100))
            costs[name] = cost = measure(text)
            done = (text.stat().st_size - start.stat().st_size) / 1e6
            seconds = cost.cpu_seconds - measure(start).cpu_seconds
            rates[name] = done / max(seconds, 1e-3)
            rows.append(
                [
                    f"{name}, {size / 1e6:.1f} MB",
                    f"{cost.seconds:.1f}",
                    f"{rates[name]:.3f}",
                    f"{rates[name] / rates['Model Garden']:.1f}",
                    f"{cost.megabytes:,.0f}",
                ]
            )
    print(report.description(here, {}, report.available_cores()), "\n")
    print(
        report.table(
            [
                f"length {args.length}, {args.passes} passes",
                "seconds",
                "MB of text/s of a core",
                "of Model Garden",
                "peak MB",
            ],
            rows,
        )
    )
    for masking in ("static", "dynamic"):
        one, two = (costs[f"{masking}, {x}"] for x in ("1 worker", "2 workers"))
        print(f"\n{masking}: {one.seconds / two.seconds:.2f} with two workers")


def _documents(content: bytes, size: int) -> bytes:
    """Returns whole documents of about `size` bytes."""
    end = content.find(b"\n\n", size)
    return content if end < 0 else content[: end + 1]


if __name__ == "__main__":
    main()
