"""Pools of processes that end with the process that started them."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from concurrent.futures import process
from typing import Any


@contextlib.contextmanager
def worker_pool(
    num_workers: int,
    start: Callable[..., object],
    *arguments: Any,
    log: str | None = None,
) -> Iterator[futures.Executor]:
    """Opens a pool of new Python processes, which ignore SIGINT.

    Tasks that have not begun when the context is left are not run.

    Args:
      num_workers: processes.
      start: called in each process before its tasks.
      arguments: of `start`.
      log: file that gets what the processes print; None: they print it here.

    Raises:
      RuntimeError: a process died.
    """
    with tempfile.NamedTemporaryFile() as file:
        # Not through the pipe of a new process: one that dies before it has
        # read more than a pipe holds would block this one for good.
        pickle.dump((start, arguments), file)
        file.flush()
        pool = futures.ProcessPoolExecutor(
            num_workers,
            # This process may have TensorFlow's threads, which do not survive
            # fork.
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_start_worker,
            initargs=(file.name, log),
        )
        try:
            yield pool
        except process.BrokenProcessPool:
            raise RuntimeError(
                "a worker process died: it ran out of memory, was killed, or "
                "the script that started it lacks "
                '`if __name__ == "__main__":`'
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)


def _start_worker(file: str, log: str | None) -> None:
    if log is not None:
        # Also what libraries print that are not Python.
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        for stream in (1, 2):
            os.dup2(descriptor, stream)
        os.close(descriptor)
    # Interrupts are the parent's to answer, unless a task says otherwise.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # When the parent is killed, nobody else would end this process.
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    with open(file, "rb") as opened:
        start, arguments = pickle.load(opened)
    start(*arguments)


def _exit_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)
