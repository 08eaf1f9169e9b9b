"""TPUs: what a run on one must fulfil, and connecting to it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.path_patterns import split_patterns

# The TPU of the machine that this process runs on.
LOCAL = "local"


def check_tpu_run(
    tpu: str | None,
    paths: Mapping[str, str | os.PathLike[str] | Sequence[str]],
    *,
    precision: str = "float32",
    jit_compile: bool = False,
) -> None:
    """Refuses what cannot work on a TPU, before anything is touched.

    A TPU given by name or address computes on other machines, which read the
    records and write the checkpoints, so those must lie where they all can see
    them. With "local" that is this machine, and any path will do.

    Args:
      tpu: as `make_strategy` takes it; nothing is checked if there is none.
      paths: name of the setting -> path, or patterns separated by commas or in
        a list.
      precision: see `set_precision`.
      jit_compile: see `TrainingConfig`.

    Raises:
      InputError: names the setting, its value and the rule.
    """
    if tpu is None:
        return
    if precision == "mixed_float16":
        raise InputError(
            f"precision={precision!r} with tpu={tpu!r}: TPUs compute in "
            "bfloat16; use mixed_bfloat16"
        )
    if jit_compile:
        raise InputError(
            f"jit_compile=True with tpu={tpu!r}: a TPU compiles anyway; leave "
            "it out"
        )
    if tpu == LOCAL:
        return
    for name, value in paths.items():
        for path in split_patterns(value):
            if not path.startswith("gs://"):
                raise InputError(
                    f"{name}={path!r} is a local path, which the machines of "
                    f"tpu={tpu!r} cannot see; copy it to a bucket and give "
                    "gs://BUCKET/..., or use --tpu=local on a TPU VM of one "
                    "host"
                )


def tpu_strategy(
    tpu: str, zone: str | None = None, project: str | None = None
) -> tf.distribute.TPUStrategy:
    """Connects to a TPU, initializes it and returns its strategy.

    Args:
      tpu: "local", the name of a TPU, or the address `grpc://...` of its first
        host.
      zone: of a TPU given by name; default: this machine's.
      project: likewise.

    Raises:
      InputError: there is no such TPU, or it cannot be reached.
    """
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
            tpu=tpu, zone=zone, project=project
        )
        # On the TPU's own machine the devices are already in this process.
        if tpu != LOCAL:
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    # Of all kinds: the resolver asks Google's API client, which is not a
    # dependency, over HTTP; the rest is TensorFlow over gRPC.
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"tpu={tpu!r} cannot be reached ({reason}); check the name, the "
            "zone and that this TensorFlow is tensorflow-tpu (docs/tpu.md)"
        ) from error
    return tf.distribute.TPUStrategy(resolver)
