"""One system in a process of its own, asked for one measurement at a time."""

from __future__ import annotations

import multiprocessing
import os
import time

import numpy as np
from systems import SYSTEMS
from workload import Workload


class Worker:
    """Starts a system in a new process and measures it on demand.

    TensorFlow and PyTorch never share a process, so their threads cannot get in
    each other's way; only the process that is asked computes.

    Args:
      system: a name of `SYSTEMS`.
      workload: what it computes.

    Attributes:
      system: its name.
      versions: library name -> version.
      tasks: the names of the tasks that it can do.
    """

    def __init__(self, system: str, workload: Workload):
        self.system = system
        context = multiprocessing.get_context("spawn")
        self._pipe, other_end = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(other_end, system, workload), daemon=True
        )
        self._process.start()
        other_end.close()  # So that a dead process ends `recv`.
        self.versions, self.tasks = self._receive()

    def shape(self, task: str) -> tuple[int, ...]:
        """Returns the shape of the task's result; compiles it."""
        return self._ask(task)[1]

    def seconds(self, task: str) -> float:
        """Does the task twice in a row and returns the second's time.

        The first one is not timed: it brings back caches and threads after
        another process has had the processor.
        """
        self._ask(task)
        return self._ask(task)[0]

    def stop(self) -> None:
        """Ends the process."""
        self._pipe.close()
        self._process.join()

    def _ask(self, task):
        self._pipe.send(task)
        return self._receive()

    def _receive(self):
        try:
            return self._pipe.recv()
        except EOFError:
            raise SystemExit(f"{self.system} failed; see above") from None


def _serve(pipe, system, workload):
    """Answers each task name with the seconds it took and the shape."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))[: workload.threads]
        os.sched_setaffinity(0, cores)
    versions, tasks = SYSTEMS[system](workload)
    pipe.send((versions, tuple(tasks)))
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        start = time.perf_counter()
        result = tasks[task]()
        seconds = time.perf_counter() - start
        if not np.all(np.isfinite(result)):
            raise FloatingPointError(f"{system} {task}: result is not finite")
        pipe.send((seconds, result.shape))
