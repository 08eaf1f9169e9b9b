"""Pools of worker processes that end with their parent process."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from concurrent.futures import process
from multiprocessing import util
from typing import Any


@contextlib.contextmanager
def worker_pool(
    num_workers: int,
    start: Callable[..., object],
    *arguments: Any,
    log: str | None = None,
) -> Iterator[futures.Executor]:
    """Opens a pool of new Python processes, which ignore SIGINT.

    Tasks that have not started when the context is left are cancelled.

    Args:
      num_workers: number of processes.
      start: initializer, called once in each process.
      arguments: arguments of `start`.
      log: file for the output of the processes. None for the streams of this
        process.

    Raises:
      RuntimeError: if a process died.
    """
    with tempfile.NamedTemporaryFile() as file, _without_current_folder():
        # Not through the pipe to the new process: if that died before reading
        # more than the pipe holds, this process would block forever.
        pickle.dump((start, arguments), file)
        file.flush()
        pool = futures.ProcessPoolExecutor(
            num_workers,
            # TensorFlow's threads do not survive a fork.
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


@contextlib.contextmanager
def _without_current_folder() -> Iterator[None]:
    """Starts processes of multiprocessing that do not import from there.

    They are `python -c "from multiprocessing..."`, which looks for modules in
    the current folder first: anyone could put them there. The workers get the
    `sys.path` of this process once they run.
    """
    # Typeshed does not know this function.
    name = "_args_from_interpreter_flags"
    original = getattr(util, name)
    # Python 3.10 has only the isolated mode.
    safe = "-P" if sys.version_info >= (3, 11) else "-I"
    setattr(util, name, lambda: [*original(), safe])
    try:
        yield
    finally:
        setattr(util, name, original)


def _start_worker(file: str, log: str | None) -> None:
    if log is not None:
        # Redirect descriptors, as libraries in C++ print too.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        descriptor = os.open(log, flags, 0o666)
        for stream in (1, 2):
            os.dup2(descriptor, stream)
        os.close(descriptor)
    # The parent handles interrupts, unless a task changes this.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Otherwise this process would outlive a parent that is killed.
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    with open(file, "rb") as opened:
        start, arguments = pickle.load(opened)
    start(*arguments)


def _exit_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)
