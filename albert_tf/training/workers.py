"""Workers of a run: their chief, and decisions that they take together."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from albert_tf.errors import InputError


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether this process writes the files of the run."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return True
    # Without a "chief" in TF_CONFIG, worker 0 is the chief.
    resolver = strategy.cluster_resolver
    task = (resolver.task_type, resolver.task_id)
    return task[0] in (None, "chief") or (
        task == ("worker", 0)
        and not resolver.cluster_spec().as_dict().get("chief")
    )


def sum_over_replicas(
    strategy: tf.distribute.Strategy,
) -> Callable[[float], float]:
    """Returns a function that sums a number over all replicas.

    Its argument is the number of each replica of this process. All processes
    must call it at the same point; it waits for the last one.
    """
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return lambda value: value * strategy.num_replicas_in_sync

    @tf.function(autograph=False)
    def total(mine):
        def on_replica():
            replica = tf.distribute.get_replica_context()
            # The copy has a device, which the sum needs.
            return replica.all_reduce(
                tf.distribute.ReduceOp.SUM, tf.identity(mine)
            )

        result = strategy.run(on_replica)
        return strategy.experimental_local_results(result)[0]

    return lambda value: float(total(tf.constant(value, tf.float64)))


def any_worker(
    strategy: tf.distribute.Strategy, flag: Callable[[], bool]
) -> Callable[[], bool]:
    """Returns a function that returns whether `flag()` is true in any process.

    All processes must call it at the same step: one that left the loop alone
    would leave the others waiting for its gradients.
    """
    total = sum_over_replicas(strategy)
    return lambda: total(float(flag())) > 0


def on_chief(
    strategy: tf.distribute.Strategy, function: Callable[[], object]
) -> None:
    """Calls a function in the chief; the other workers wait until it is done.

    All processes must call it.

    Raises:
      InputError: in the other workers, if the function has failed.
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

    All processes must call it.

    Args:
      strategy: the strategy of the workers.
      step: the step that this process has restored; None without a checkpoint.

    Raises:
      InputError: the steps differ; raised in all processes.
    """
    mine = -1 if step is None else step
    total = sum_over_replicas(strategy)(mine)
    mean = total / strategy.num_replicas_in_sync
    if any_worker(strategy, lambda: mine != mean)():
        found = "no checkpoint" if step is None else f"that of step {step}"
        raise InputError(
            f"the workers found different checkpoints, this one {found}; all "
            "must see the same run folder"
        )
