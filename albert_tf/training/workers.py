"""What the processes of a run with several workers tell each other."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from albert_tf.errors import InputError


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process is the one that writes the run's files."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return True
    # Without a "chief" in TF_CONFIG, worker 0 is it.
    resolver = strategy.cluster_resolver
    task = (resolver.task_type, resolver.task_id)
    return task[0] in (None, "chief") or (
        task == ("worker", 0)
        and not resolver.cluster_spec().as_dict().get("chief")
    )


def sum_over_replicas(
    strategy: tf.distribute.Strategy,
) -> Callable[[float], float]:
    """Returns a function that adds up a number of each replica.

    It is called with the number that each replica of this process has. All
    processes must call it at the same place; it waits for the last one.
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
    """Returns a function that tells whether `flag()` holds in any process.

    All processes must call it at the same step: one that left the loop alone
    would leave the others waiting for its gradients.
    """
    total = sum_over_replicas(strategy)
    return lambda: total(float(flag())) > 0


def check_same_step(strategy: tf.distribute.Strategy, step: int | None) -> None:
    """Refuses workers that go on from different steps.

    All processes must call it.

    Args:
      strategy: theirs.
      step: whose checkpoint this process has restored; None for none.

    Raises:
      InputError: in all of them.
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
