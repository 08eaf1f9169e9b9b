"""Processes that make the records of blocks of text.

Nothing here imports TensorFlow, so that they start fast and stay small.
"""

from __future__ import annotations

import collections
import multiprocessing
import os
import pickle
import signal
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent import futures
from concurrent.futures import process

from albert_tf.pretraining.block_worker import BlockRecords, BlockWorker
from albert_tf.pretraining.data_config import PretrainingDataConfig
from albert_tf.pretraining.documents import TextBlock
from albert_tf.pretraining.units import Task

# Of a task and its records, in general.
_TASK_BYTES = 24 << 20


def records_of_tasks(
    tasks: Iterable[Task],
    config: PretrainingDataConfig,
    num_shards: Mapping[str, int],
) -> Iterator[BlockRecords]:
    """Yields the records of tasks in order, made by `config.num_workers`.

    Raises:
      RuntimeError: a worker process died.
    """
    if config.num_workers == 1:
        worker = BlockWorker(config, num_shards)
        yield from (worker(task.block, task.passes) for task in tasks)
        return
    with tempfile.NamedTemporaryFile() as file:
        # Not through the pipe of a new process: one that dies before it has
        # read more than a pipe holds would block this one for good.
        pickle.dump((config, num_shards), file)
        file.flush()
        pool = futures.ProcessPoolExecutor(
            config.num_workers,
            # This process may have TensorFlow's threads, which do not survive
            # fork.
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_start_worker,
            initargs=(file.name,),
        )
        try:
            yield from _run_tasks(pool, tasks, config.num_workers + 2)
        except process.BrokenProcessPool:
            raise RuntimeError(
                "a worker process died: it ran out of memory, was killed, or "
                "the script that started it lacks "
                '`if __name__ == "__main__":`'
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)


def _run_tasks(
    pool: futures.Executor, tasks: Iterable[Task], most: int
) -> Iterator[BlockRecords]:
    """Yields the records of tasks in order.

    At most `most` tasks, or as many bytes as those should have, are handed out:
    those that wait, or whose records do, are held in memory.
    """
    pending: collections.deque[tuple[int, futures.Future]] = collections.deque()
    num_bytes = 0
    for task in tasks:
        while pending and (
            len(pending) >= most
            or num_bytes + task.num_bytes > most * _TASK_BYTES
        ):
            size, future = pending.popleft()
            num_bytes -= size
            yield future.result()
        pending.append(
            (task.num_bytes, pool.submit(_run_task, task.block, task.passes))
        )
        num_bytes += task.num_bytes
    while pending:
        yield pending.popleft()[1].result()


_worker: BlockWorker | None = None


def _start_worker(config_file: str) -> None:
    """Prepares this process for `_run_task`.

    Args:
      config_file: pickle of the arguments of `BlockWorker`.
    """
    global _worker
    # Interrupts are the parent's to answer. And when it is killed, nobody else
    # would end this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    with open(config_file, "rb") as file:
        _worker = BlockWorker(*pickle.load(file))


def _exit_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)


def _run_task(block: TextBlock, passes: range) -> BlockRecords:
    """Makes the records of a block in a process that has been prepared."""
    assert _worker is not None  # See `_start_worker`.
    return _worker(block, passes)
