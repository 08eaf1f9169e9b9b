"""Coordination of the workers of a run."""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Callable, Iterator

import tensorflow as tf

from albert_tf.errors import InputError

# Seconds to wait for an answer of another worker.
_ANSWER_SECONDS = 5.0


class LostWorkerError(RuntimeError):
    """Raised in the other workers when one of them has died."""


def input_context(
    strategy: tf.distribute.Strategy,
) -> tf.distribute.InputContext:
    """Returns which of the run's input pipelines this process is.

    There is one for each worker. A single process controls a whole TPU pod.
    """
    replicas = strategy.num_replicas_in_sync
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return tf.distribute.InputContext(1, 0, replicas)
    resolver = strategy.cluster_resolver
    cluster = resolver.cluster_spec().as_dict()
    chiefs, workers = (len(cluster.get(x, ())) for x in ("chief", "worker"))
    index = resolver.task_id or 0
    if resolver.task_type == "worker":
        index += chiefs
    return tf.distribute.InputContext(chiefs + workers or 1, index, replicas)


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether this process writes the files of the run.

    Without a "chief" in TF_CONFIG, worker 0 is the chief. An "evaluator", whose
    index is not one of the workers', never is.
    """
    if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        if strategy.cluster_resolver.task_type == "evaluator":
            return False
    return input_context(strategy).input_pipeline_id == 0


def mean_over_workers(
    strategy: tf.distribute.Strategy,
) -> Callable[[float], float]:
    """Returns a function that averages a number over all processes.

    They must call it at the same point; it blocks until the last one does.
    """
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return lambda value: value

    @tf.function(autograph=False)
    def total(mine):
        def on_replica():
            replica = tf.distribute.get_replica_context()
            # `identity` places the tensor on a device, as all_reduce requires.
            return replica.all_reduce(
                tf.distribute.ReduceOp.SUM, tf.identity(mine)
            )

        result = strategy.run(on_replica)
        return strategy.experimental_local_results(result)[0]

    replicas = strategy.num_replicas_in_sync
    return lambda x: float(total(tf.constant(x, tf.float64))) / replicas


def any_worker(
    strategy: tf.distribute.Strategy, flag: Callable[[], bool]
) -> Callable[[], bool]:
    """Returns a function that tells whether `flag()` is true in any process.

    All processes must call it at the same step, and so leave the loop together:
    if only one left, the others would wait for its gradients.
    """
    mean = mean_over_workers(strategy)
    return lambda: mean(float(flag())) > 0


def on_chief(
    strategy: tf.distribute.Strategy, function: Callable[[], object]
) -> None:
    """Calls a function in the chief while the other workers wait.

    All processes must call it. If the function fails, all of them do.
    """
    error = None
    if is_chief(strategy):
        try:
            function()
        except Exception as raised:
            error = raised
    failed = any_worker(strategy, lambda: error is not None)()
    if error is not None:
        raise error
    if failed:
        raise InputError("the chief of the workers has failed; see its error")


def check_same_step(strategy: tf.distribute.Strategy, step: int | None) -> None:
    """Checks that all workers resume from the same step.

    All processes must call it, with the step of the checkpoint that they
    restored; None without one.
    """
    mine = -1 if step is None else step
    mean = mean_over_workers(strategy)(mine)
    if any_worker(strategy, lambda: mine != mean)():
        found = "no checkpoint" if step is None else f"that of step {step}"
        raise InputError(
            f"the workers found different checkpoints, this one {found}; all "
            "must see the same run folder"
        )


@contextlib.contextmanager
def naming_lost_workers(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Names the workers that have died, which TensorFlow's errors may not.

    An error in the block, if another worker cannot be reached, is raised as a
    `LostWorkerError`.
    """
    try:
        yield
    except tf.errors.OpError as error:
        gone = _lost_workers(strategy, str(error))
        if not gone:
            raise
        logs = "their logs" if len(gone) > 1 else "its log"
        raise LostWorkerError(
            f"lost {', '.join(gone)}; find the cause in {logs}, then start the "
            "same commands on all workers to resume from the newest checkpoint"
        ) from error


def _lost_workers(strategy: tf.distribute.Strategy, reason: str) -> list[str]:
    """Returns the workers that do not answer, or that an error says are down.

    `reason` is TensorFlow's message.
    """
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return []
    resolver = strategy.cluster_resolver
    named = set(re.findall(r"/job:(\w+)/replica:0/task:(\d+)", reason))
    silent, blamed = [], []
    for job, addresses in resolver.cluster_spec().as_dict().items():
        for task, address in enumerate(addresses):
            if (job, task) == (resolver.task_type, resolver.task_id):
                continue
            worker = f"{job} {task} ({address})"
            if not _answers(address):
                silent.append(worker)
            elif (job, str(task)) in named:
                blamed.append(worker)
    return silent or blamed


def _answers(address: str) -> bool:
    """Returns whether a process listens at `host:port`."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), _ANSWER_SECONDS):
            return True
    except (OSError, ValueError):
        return False
