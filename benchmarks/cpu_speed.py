"""Compares the speed of ALBERT implementations on CPUs.

Each system runs in its own process, with the same cores, weights and inputs,
and its outputs are compared with ours before it is timed. Systems take turns,
so that slow periods of the machine affect all of them. Results are written to
results.json in --output after each workload, and are not measured again;
report.md and plots are made from them.

Example:
  python benchmarks/cpu_speed.py --output=build/cpu --work=rate,forward/base
  python benchmarks/cpu_speed.py --output=build/cpu --short
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import statistics
import sys
import time
from typing import Any

import cpu_report
import numpy as np
import report
from cpu_systems import REFERENCE, SHORT, SYSTEMS, TOLERANCES
from cpu_systems.models import CONFIG
from cpu_work import (
    SENTENCES,
    UNCOMPARED,
    Work,
    all_work,
    config_of,
    flops,
    inputs_of,
    select,
    short_work,
)
from cpu_worker import Worker, WorkerError, make_models, write_work

_RESULTS = "results.json"
_FRESH = ("start", "memory")  # parts that need a new process


@dataclasses.dataclass
class Session:
    """Settings, results and processes of a run of this program.

    Attributes:
      output: Folder of results, models and logs.
      data: Folder of the data sets, see `cpu_work`.
      vocabulary: Path of the models' SentencePiece model, or "".
      threads: Threads of each system.
      turns: Measurements of each system.
      at_least: Minimum seconds of a measurement; short calls are repeated.
      results: Content of results.json.
      workers: Running processes by system, all with `model`.
      model: Model of the previous workload.
    """

    output: pathlib.Path
    data: pathlib.Path
    vocabulary: str
    threads: int
    turns: int
    at_least: float
    results: dict
    workers: dict[str, Worker] = dataclasses.field(default_factory=dict)
    model: str = ""

    def log(self, name: str) -> pathlib.Path:
        """Returns the path of a system's log."""
        return self.output / "logs" / f"{name}.log"

    def model_folder(self, model: str) -> pathlib.Path:
        """Returns the folder of a model, and writes its description there."""
        folder = self.output / "models" / (model or "none")
        folder.mkdir(parents=True, exist_ok=True)
        if model:
            described = {
                "config": config_of(model).to_dict(),
                "vocabulary": self.vocabulary,
            }
            (folder / CONFIG).write_text(json.dumps(described))
        return folder

    def worker(self, system: str, work: Work) -> Worker:
        """Returns a system's process, a new one if its start is measured."""
        if system not in self.workers or work.part in _FRESH:
            self.stop(system)
            self.workers[system] = self._start(system, work)
        return self.workers[system]

    def stop(self, *systems: str) -> None:
        """Ends the processes of systems, if they run."""
        for system in systems:
            if system in self.workers:
                self.workers.pop(system).stop()

    def stop_others(self, model: str, systems: list[str]) -> None:
        """Ends processes of other systems or with another model."""
        for system in list(self.workers):
            if model != self.model or system not in systems:
                self.stop(system)
        self.model = model

    def _start(self, system: str, work: Work) -> Worker:
        """Starts a system, after writing the model in its formats."""
        folder = self.model_folder(work.model)
        log = self.log(system)
        make_models(SYSTEMS[system], folder, self.threads, log)
        worker = Worker(system, folder, self.threads, log)
        self.results["versions"].update(worker.versions)
        return worker

    def write(self) -> None:
        """Writes the results and the report."""
        path = self.output / _RESULTS
        path.write_text(json.dumps(self.results, indent=1) + "\n")
        cpu_report.write(self.results, self.output)


def measure(session: Session, work: Work, systems: list[str]) -> dict:
    """Measures a workload.

    Returns:
      The workload, with `systems` and `failures` by name. Each system has
      `values`, one per turn (seconds, operations per second, or bytes), and
      `error`, the relative difference from our float32 outputs.
    """
    inputs = session.output / "inputs.npz"
    write_work(inputs, inputs_of(work, session.data, session.vocabulary))
    found, failures, outputs = {}, {}, {}
    fresh = work.part in _FRESH
    session.stop_others(work.model, systems)

    def fail(name: str, error: Exception) -> None:
        _say(f"  {name}: FAILED: {error}")
        failures[name] = str(error)
        found.pop(name, None)
        session.stop(name)

    for name in systems:
        try:
            worker = session.worker(name, work)
            outputs[name] = worker.prepare(
                work.kind, inputs, session.output / "outputs.npz"
            )
            compared = work.kind not in UNCOMPARED
            error = _error(outputs, name) if compared else 0.0
            found[name] = {"error": error, "values": []}
            if work.part == "memory":
                found[name]["values"] = [worker.peak_memory()]
            elif work.part == "start":
                found[name]["values"] = _first_outputs(
                    session, work, name, inputs
                )
            if fresh:
                session.stop(name)
            else:
                worker.pause()
        except (WorkerError, WrongOutputError) as error:
            fail(name, error)
    for _ in range(0 if fresh else session.turns):
        for name in list(found):
            worker = session.workers[name]
            try:
                found[name]["values"].append(
                    worker.rate()
                    if work.kind == "rate"
                    else worker.seconds(session.at_least)
                )
                worker.pause()
            except WorkerError as error:
                fail(name, error)
    return {
        **dataclasses.asdict(work),
        "flops": flops(work),
        "systems": found,
        "failures": failures,
    }


class WrongOutputError(Exception):
    """The outputs of a system differ from ours."""


def _error(outputs: dict[str, dict], name: str) -> float:
    """Returns the relative difference between a system's outputs and ours.

    Raises:
      WrongOutputError: if it is too large, or there is nothing to compare.
    """
    if REFERENCE not in outputs:
        raise WrongOutputError(f"no outputs of {REFERENCE} to compare with")
    ours, theirs = outputs[REFERENCE], outputs[name]
    names = sorted(set(ours) & set(theirs) - {"gradient_norm"})
    if not names:
        raise WrongOutputError(f"nothing comparable in {sorted(theirs)}")
    errors = []
    for key in names:
        expected, actual = ours[key], theirs[key]
        if expected.shape != actual.shape:
            raise WrongOutputError(
                f"{key} is {actual.shape}, ours {expected.shape}"
            )
        difference = np.linalg.norm(np.ravel(actual - expected))
        errors.append(difference / np.linalg.norm(np.ravel(expected)))
    worst = float(np.max(errors))  # NaN if any is NaN
    bound = TOLERANCES[SYSTEMS[name].precision]
    if not worst <= bound:  # also for NaN
        raise WrongOutputError(
            f"outputs differ from ours by {worst:.1e}, more than {bound}"
        )
    return worst


def _first_outputs(session, work, name, inputs) -> list[float]:
    """Returns seconds from a process's start to its first outputs."""
    seconds = []
    for _ in range(session.turns):
        start = time.perf_counter()
        worker = session.worker(name, work)
        worker.prepare(work.kind, inputs, session.output / "outputs.npz")
        seconds.append(time.perf_counter() - start)
    return seconds


def run(session: Session, selected: list[Work], systems: list[str]) -> None:
    """Measures the workloads that have no results yet."""
    for number, work in enumerate(selected, 1):
        head = f"[{number}/{len(selected)}] {work.name}"
        able = [
            name
            for name in systems
            if work.kind in SYSTEMS[name].kinds
            and (not work.systems or name in work.systems)
        ]
        absent = {name: SYSTEMS[name].absent() for name in able}
        skipped = {name: why for name, why in absent.items() if why}
        able = [name for name in able if name not in skipped]
        # Ours comes first: the others are compared with it.
        able.sort(key=lambda name: name != REFERENCE)
        earlier = session.results["work"].get(work.name)
        if earlier and set(able) <= {
            *earlier["systems"],
            *earlier["failures"],
        }:
            _say(f"{head}: measured before")
            continue
        _say(head + " again, with these systems only" * bool(earlier))
        for name, why in skipped.items():
            _say(f"  {name}: skipped: {why}")
        start = time.perf_counter()
        try:
            result = measure(session, work, able)
        except FileNotFoundError as error:
            _say(f"  skipped: no data: {error}")
            session.results["skipped"][work.name] = f"no data: {error}"
            continue
        result["skipped"] = skipped
        session.results["work"][work.name] = result
        session.results["skipped"].pop(work.name, None)
        for name, values in result["systems"].items():
            middle = statistics.median(values["values"])
            _say(f"  {name}: {cpu_report.quantity(work.part, middle)}")
        _say(f"  in {time.perf_counter() - start:.0f} s")
        session.write()


def _say(line: str) -> None:
    print(line, flush=True)


def _flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    repository = pathlib.Path(__file__).resolve().parents[1]
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument(
        "--work",
        default="",
        help="names, or their beginnings up to a slash, with commas",
    )
    parser.add_argument("--systems", default="", help="names, with commas")
    parser.add_argument("--list", action="store_true", help="print all names")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=int, default=report.available_cores())
    parser.add_argument("--texts", type=int, default=128)
    parser.add_argument("--reviews", type=int, default=128)
    parser.add_argument("--examples", type=int, default=256)
    parser.add_argument(
        "--data",
        type=pathlib.Path,
        default=repository.parent / "shared" / "data",
        help="folder of glue, imdb and sentencepiece-30k-clean",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="measure again"
    )
    parser.add_argument(
        "--short",
        action="store_true",
        help="a tiny model and one turn, to check that everything works",
    )
    return parser.parse_args()


def main() -> int:
    """Runs the benchmark and returns the exit status."""
    flags = _flags()
    work = (
        short_work()
        if flags.short
        else all_work(flags.texts, flags.reviews, flags.examples)
    )
    if flags.list:
        _say("\n".join([*(w.name for w in work), "", *SYSTEMS]))
        return 0
    selected = select(work, flags.work)
    systems = [x for x in flags.systems.split(",") if x] or list(
        SHORT if flags.short else SYSTEMS
    )
    for name in systems:
        if name not in SYSTEMS:
            raise SystemExit(
                f"--systems: {name!r} must be one of {', '.join(SYSTEMS)}"
            )
    if REFERENCE not in systems:
        systems = [REFERENCE, *systems]
    flags.output.mkdir(parents=True, exist_ok=True)
    path = flags.output / _RESULTS
    results: dict[str, Any] = {
        **{"work": {}, "skipped": {}, "versions": {}},
        "runs": [],
    }
    if path.exists() and not flags.overwrite:
        results = json.loads(path.read_text())
    results["machine"] = report.machine()
    results["threads"] = flags.threads
    results["runs"].append({"command": report.command(), **report.machine()})
    session = Session(
        output=flags.output.resolve(),
        data=flags.data,
        vocabulary=_vocabulary(flags),
        threads=flags.threads,
        turns=1 if flags.short else flags.turns,
        at_least=0.0 if flags.short else 0.3,
        results=results,
    )
    try:
        run(session, selected, systems)
    finally:
        session.stop(*session.workers)
        session.write()
    _say(f"report: {flags.output / 'report.md'}")
    failed = [
        f"{name}: {system}"
        for name, result in results["work"].items()
        for system in result["failures"]
    ]
    if failed:
        _say("failed:\n  " + "\n  ".join(failed))
    return 1 if failed else 0


def _vocabulary(flags) -> str:
    """Returns the path of the models' vocabulary, or "" if it is missing."""
    if not flags.short:
        file = flags.data / "sentencepiece-30k-clean" / "30k-clean.model"
        return str(file.resolve()) if file.exists() else ""
    from albert_tf.text.vocabulary import VocabularyConfig, train_vocabulary

    return str(
        train_vocabulary(
            [*SENTENCES] * 10,
            flags.output.resolve() / "spiece",
            VocabularyConfig(vocab_size=60),
            overwrite=True,
        )
    )


if __name__ == "__main__":
    sys.exit(main())
