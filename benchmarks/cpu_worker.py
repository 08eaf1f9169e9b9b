"""Processes of the systems that `cpu_speed.py` compares: client and server.

Requests and answers are lines of JSON, and arrays are files, so that a system
can run in another Python without albert_tf. A process is stopped (SIGSTOP)
while others are measured, so that its spinning threads do not disturb them.
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
    """A process failed; the message has the last line of its log."""


class Worker:
    """The process of a system.

    Args:
      name: Name of the system.
      folder: Folder of the model, see `cpu_systems.models`.
      threads: Number of threads that it may use.
      log: Path of its log.

    Attributes:
      versions: Versions of its libraries.
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
        """Prepares a workload, runs it once and returns the outputs."""
        self._ask(prepare=kind, inputs=str(inputs), outputs=str(outputs))
        with np.load(outputs) as arrays:
            return dict(arrays)

    def seconds(self, at_least: float) -> float:
        """Returns the median time of calls, repeated for `at_least` s."""
        return statistics.median(self._ask(run=at_least)["seconds"])

    def rate(self) -> float:
        """Returns operations per second, for work of kind "rate"."""
        return self._ask(run=0.0)["rate"]

    def peak_memory(self) -> int:
        """Returns the peak resident memory of the process in bytes."""
        return self._ask(memory=True)["bytes"]

    def stop(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        """Suspends the process until the next request."""
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
            pass  # _receive reports the failure.
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
    """Runs this file with a system's Python; its output goes to the log."""
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
    """Writes the model in the formats that a system needs, if missing.

    Raises:
      WorkerError: if writing a format fails.
    """
    for name in system.models:
        done = folder / name / "done"
        if done.exists():
            continue
        # Only the last format of Model Garden needs its Python.
        python = system if name == system.models[-1] else _LOCAL_SYSTEM
        process = start(python, ["make", name, folder, threads], log)
        process.communicate()
        if process.returncode:
            raise WorkerError(f"{name}: {last_line(log, process.returncode)}")
        done.touch()


_LOCAL_SYSTEM = next(x for x in SYSTEMS.values() if not x.python)


def last_line(log: pathlib.Path, status: int) -> str:
    """Describes a process that ended, with the last line of its log."""
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
    """Times calls; short ones after a warm-up call.

    The warm-up restores caches and threads after other processes have run; for
    long calls that does not matter.
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
    """Writes the inputs of a workload: arrays and other values."""
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
    """Serves a system, or writes a model in a format."""
    command, name, folder, threads = sys.argv[1:]
    # Redirects what libraries print to the log.
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
        shutil.rmtree(output, ignore_errors=True)  # left by a killed run
        MAKERS[name](pathlib.Path(folder), output, int(threads))


if __name__ == "__main__":
    main()
