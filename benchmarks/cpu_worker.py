"""A system in a process of its own; and the side that asks it.

Requests and answers are lines of JSON, arrays are files: the other process may
be another Python's, without albert_tf. While it is not asked it is stopped, so
that threads which wait in loops take nothing from the others.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from cpu_systems import SYSTEMS, System


class WorkerError(Exception):
    """A process failed; its log's last line."""


class Worker:
    """Starts a system's process.

    Args:
      name: of the system.
      folder: of the model, see `cpu_systems.models`.
      threads: that it may use.
      log: file for what it prints.

    Attributes:
      versions: library -> version.
    """

    def __init__(
        self,
        name: str,
        folder: pathlib.Path,
        threads: int,
        log: pathlib.Path,
    ):
        self._log = log
        self._process = start(
            SYSTEMS[name], ["serve", name, folder, threads], log
        )
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None  # Both are pipes.
        self._requests, self._answers = requests, answers
        self._stopped = False
        self.versions: dict[str, str] = self._receive()["versions"]

    def prepare(
        self, kind: str, inputs: pathlib.Path, outputs: pathlib.Path
    ) -> dict[str, np.ndarray]:
        """Prepares work and runs it once; returns what is compared."""
        self._ask(prepare=kind, inputs=str(inputs), outputs=str(outputs))
        with np.load(outputs) as arrays:
            return dict(arrays)

    def seconds(self, at_least: float) -> float:
        """Returns the median time of calls that take `at_least` in all."""
        return statistics.median(self._ask(run=at_least)["seconds"])

    def rate(self) -> float:
        """Returns operations per second, of work of kind "rate"."""
        return self._ask(run=0.0)["rate"]

    def peak_memory(self) -> int:
        """Returns the most resident memory of the process yet, in bytes."""
        return self._ask(memory=True)["bytes"]

    def stop(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        """Stops the process until it is asked again."""
        if not self._stopped and self._process.poll() is None:
            self._process.send_signal(signal.SIGSTOP)
            self._stopped = True

    def _ask(self, **request: Any) -> dict:
        if self._stopped:
            self._process.send_signal(signal.SIGCONT)
            self._stopped = False
        try:
            self._requests.write(json.dumps(request) + "\n")
            self._requests.flush()
        except BrokenPipeError:
            pass  # The answer is missing, too.
        return self._receive()

    def _receive(self):
        line = self._answers.readline()
        if not line:
            self._process.wait()
            raise WorkerError(last_line(self._log, self._process.returncode))
        return json.loads(line)


def start(
    system: System, arguments: list, log: pathlib.Path
) -> subprocess.Popen:
    """Starts this file with a system's Python; prints go to the log."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as file:
        return subprocess.Popen(
            [system.interpreter, __file__, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
        )


def make_models(
    system: System, folder: pathlib.Path, threads: int, log: pathlib.Path
) -> None:
    """Makes the formats of the model that a system needs and are not there.

    Raises:
      WorkerError: a maker failed.
    """
    for name in system.models:
        done = folder / name / "done"
        if done.exists():
            continue
        # Only Model Garden's last step needs its Python.
        python = system if name == system.models[-1] else SYSTEMS_HERE
        process = start(python, ["make", name, folder, threads], log)
        process.communicate()
        if process.returncode:
            raise WorkerError(f"{name}: {last_line(log, process.returncode)}")
        done.touch()


SYSTEMS_HERE = next(x for x in SYSTEMS.values() if not x.python)


def last_line(log: pathlib.Path, status: int) -> str:
    """Returns what a process that ended said last."""
    lines = [x for x in log.read_text().splitlines() if x.strip()]
    said = lines[-1].strip()[:300] if lines else "nothing was printed"
    return f"exit status {status}: {said} (all of it: {log})"


def _serve(name: str, folder: str, threads: str, answers) -> None:
    import importlib

    system = SYSTEMS[name]
    module = importlib.import_module(f"cpu_systems.{system.module}")
    instance = getattr(module, system.factory)(
        pathlib.Path(folder),
        int(threads),
        precision=system.precision,
        **system.options,
    )

    def answer(**values):
        answers.write(json.dumps(values) + "\n")
        answers.flush()

    answer(versions=instance.versions)
    task = None
    for line in sys.stdin:
        request = json.loads(line)
        if "memory" in request:
            answer(bytes=_peak_memory())
        elif "prepare" in request:
            work = _read_work(request["inputs"])
            task = getattr(instance, request["prepare"])(work)
            np.savez(request["outputs"], **(task.check or task.run)())
            if task.check:
                task.run()
            answer()
        else:
            answer(**_run(task, request["run"]))


def _run(task, at_least: float) -> dict:
    """Times calls; short ones after one that is not timed.

    That one brings back caches and threads after another process has had the
    processor, which takes no part of a long call.
    """
    seconds: list[float] = []
    outputs: Mapping[str, np.ndarray] = {}
    while not seconds or sum(seconds) < at_least:
        start = time.perf_counter()
        outputs = task.run()
        seconds.append(time.perf_counter() - start)
    if not all(np.all(np.isfinite(x)) for x in outputs.values()):
        raise FloatingPointError("the outputs are not finite")
    timed = seconds[1:] or seconds
    rate = {"rate": float(outputs["rate"])} if "rate" in outputs else {}
    return {"seconds": timed, **rate}


def write_work(path: pathlib.Path, work: Mapping[str, Any]) -> None:
    """Writes arrays and other values of a piece of work."""
    arrays: dict[str, Any] = {
        k: v for k, v in work.items() if isinstance(v, np.ndarray)
    }
    others = {k: v for k, v in work.items() if k not in arrays}
    np.savez(path, **arrays, others=np.array(json.dumps(others)))


def _read_work(path: str) -> dict[str, Any]:
    with np.load(path) as arrays:
        work = dict(arrays)
    return {**json.loads(str(work.pop("others"))), **work}


def _peak_memory() -> int:
    """Returns the process's highest resident memory in bytes."""
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def main() -> None:
    """Serves a system, or makes a format of a model."""
    command, name, folder, threads = sys.argv[1:]
    # Whatever libraries print goes to the log.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))[: int(threads)]
        os.sched_setaffinity(0, cores)
    if command == "serve":
        _serve(name, folder, threads, answers)
    else:
        from cpu_systems.models import MAKERS

        output = pathlib.Path(folder) / name
        shutil.rmtree(output, ignore_errors=True)  # Of a run that was killed.
        MAKERS[name](pathlib.Path(folder), output, int(threads))


if __name__ == "__main__":
    main()
