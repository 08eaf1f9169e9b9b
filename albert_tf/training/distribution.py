"""Distribution strategies and precision."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import keras
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.files import split_patterns
from albert_tf.training.config import Distribution, Precision, TrainingConfig
from albert_tf.training.optimizers import name_of, tf_variable


def check_model(
    config: TrainingConfig, strategy: tf.distribute.Strategy, model: Any
) -> None:
    """Checks that a model can be trained with a strategy and settings."""
    if not model.trainable_variables:
        raise InputError(
            "the model has no trainable variable; unfreeze some of its layers"
        )
    if model.compute_dtype == "float16" and not config.dynamic_loss_scale:
        raise InputError(
            "a model in float16 requires dynamic_loss_scale=True, as most of "
            "its gradients are zero otherwise; set it, or use mixed_bfloat16"
        )
    replicas = strategy.num_replicas_in_sync
    if config.jit_compile and replicas > 1:
        raise InputError(
            f"jit_compile=True works on one replica, not {replicas}; leave it "
            "out (a TPU compiles anyway)"
        )
    for variable in model.weights:
        if not strategy.extended.variable_created_in_scope(
            tf_variable(variable)
        ):
            raise ValueError(
                f"variable {name_of(variable)!r} was not created under the "
                "strategy; create the model under strategy.scope()"
            )


# Name of the TPU that is attached to this machine.
LOCAL = "local"


def check_tpu_run(
    tpu: str | None,
    paths: Mapping[str, str | os.PathLike[str] | Sequence[str]],
    *,
    precision: str = "float32",
    jit_compile: bool = False,
) -> None:
    """Checks that a TPU, if one is given, supports the settings of a run.

    A TPU given by name or address is attached to other machines, which read the
    records and write the checkpoints, so all paths must be in a bucket. With
    "local" any path will do. `paths` are setting -> path, or comma-separated or
    listed patterns.
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
            f"jit_compile=True with tpu={tpu!r}: a TPU compiles anyway; remove "
            "it"
        )
    if tpu == LOCAL:
        return
    for name, value in paths.items():
        for path in split_patterns(value):
            if not path.startswith("gs://"):
                raise InputError(
                    f"{name}={path!r} is a local path, which the machines of "
                    f"tpu={tpu!r} cannot see; copy it to a bucket and pass "
                    "gs://BUCKET/..., or use --tpu=local on a TPU VM with one "
                    "host"
                )


def _tpu_strategy(
    tpu: str, zone: str | None, project: str | None
) -> tf.distribute.TPUStrategy:
    """Connects to a TPU, initializes it and returns its strategy."""
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
            tpu=tpu, zone=zone, project=project
        )
        # On a TPU VM the devices already belong to this process.
        if tpu != LOCAL:
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    # The resolver may raise anything: it uses Google's API client, which is not
    # a dependency, over HTTP, and TensorFlow over gRPC.
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"tpu={tpu!r} cannot be reached ({reason}); check the name, the "
            "zone and that this TensorFlow is tensorflow-tpu (docs/tpu.md)"
        ) from error
    return tf.distribute.TPUStrategy(resolver)


def make_strategy(
    distribution: str = "auto",
    *,
    tpu: str | None = None,
    tpu_zone: str | None = None,
    gcp_project: str | None = None,
    devices: Sequence[str] | None = None,
) -> tf.distribute.Strategy:
    """Creates the strategy; call it before any other TensorFlow operation.

    Args:
      distribution: see `Distribution`. "auto" uses the TPU if one is given, the
        workers in TF_CONFIG if set, all GPUs if there are several, and one
        device otherwise.
      tpu: name or address of the TPU; "local" on a TPU VM.
      tpu_zone: zone of a TPU given by name.
      gcp_project: project of a TPU given by name.
      devices: device names such as "GPU:0"; default: all GPUs, else the CPU. (A
        CPU is several devices after
        `tf.config.set_logical_device_configuration`.)

    Raises:
      InputError: if the arguments do not fit each other or the machine.
    """
    if distribution not in get_args(Distribution):
        raise InputError(
            f"distribution={distribution!r}: choose one of "
            + ", ".join(get_args(Distribution))
        )
    workers = _workers_of_tf_config()
    devices = list(devices or ())
    if distribution == "auto":
        distribution = _detect(tpu, workers, devices)
    _check(distribution, tpu, tpu_zone, gcp_project, workers, devices)
    if distribution == "tpu" and tpu is not None:
        return _tpu_strategy(tpu, tpu_zone, gcp_project)
    if distribution == "multi_worker":
        return tf.distribute.MultiWorkerMirroredStrategy()
    _check_devices(devices)
    gpus, cpus = _logical_devices("GPU"), _logical_devices("CPU")
    if distribution == "one_device":
        device = (devices or gpus or ["CPU:0"])[0]
        return tf.distribute.OneDeviceStrategy(f"/{device.lstrip('/')}")
    if not devices and not gpus and len(cpus) == 1:
        raise InputError(
            "distribution='mirrored': this machine has no GPU, and its CPU is "
            "one device; use distribution='one_device'"
        )
    return _mirrored(tuple(devices or gpus or cpus))


def strategy_of_this_machine() -> tf.distribute.Strategy:
    """Creates the strategy of a single process, for evaluations.

    It uses all GPUs if there are several, else one device, and ignores
    TF_CONFIG.
    """
    several = len(_logical_devices("GPU")) > 1
    return make_strategy("mirrored" if several else "one_device")


@functools.cache
def _mirrored(devices: tuple[str, ...]) -> tf.distribute.MirroredStrategy:
    # One per process: the collectives of a second strategy over the same
    # devices would get the same keys, and TensorFlow would abort both.
    return tf.distribute.MirroredStrategy(devices)


def set_precision(precision: str) -> None:
    """Sets the dtype policy (`Precision`) of Keras layers created afterwards.

    Variables stay float32. "mixed_float16" also needs
    `TrainingConfig(dynamic_loss_scale=True)`.
    """
    if precision not in get_args(Precision):
        raise InputError(
            f"precision={precision!r}: choose one of "
            + ", ".join(get_args(Precision))
        )
    keras.config.set_dtype_policy(precision)


def _workers_of_tf_config() -> list[str]:
    text = os.environ.get("TF_CONFIG", "")
    if not text:
        return []
    try:
        config = json.loads(text)
        cluster: Mapping[str, Any] = config.get("cluster", {})
        return [*cluster.get("chief", []), *cluster.get("worker", [])]
    except (ValueError, AttributeError, TypeError) as error:
        raise InputError(
            f"TF_CONFIG is not a JSON description of a cluster ({error}); "
            "correct or unset the environment variable"
        ) from error


def _logical_devices(device_type: str) -> list[str]:
    """Returns names such as "GPU:0"."""
    devices = tf.config.list_logical_devices(device_type)
    return [device.name.split("device:")[-1] for device in devices]


def _detect(tpu, workers, devices) -> str:
    if tpu is not None:
        return "tpu"
    if workers:
        return "multi_worker"
    count = len(devices) if devices else len(_logical_devices("GPU"))
    return "mirrored" if count > 1 else "one_device"


def _check(distribution, tpu, tpu_zone, gcp_project, workers, devices) -> None:
    if distribution == "tpu":
        if not tpu:
            raise InputError(
                "distribution='tpu' requires tpu: its name or address, or "
                "'local' on a TPU VM"
            )
        if workers:
            raise InputError(
                f"tpu={tpu!r} and the workers of TF_CONFIG contradict each "
                "other; unset one"
            )
    else:
        given = {"tpu": tpu, "tpu_zone": tpu_zone, "gcp_project": gcp_project}
        for name, value in given.items():
            if value is not None:
                raise InputError(
                    f"{name}={value!r} requires distribution='tpu', not "
                    f"{distribution!r}"
                )
    if distribution == "multi_worker" and not workers:
        raise InputError(
            "distribution='multi_worker' requires the environment variable "
            "TF_CONFIG with the workers of the cluster"
        )
    if distribution in ("tpu", "multi_worker") and devices:
        raise InputError(
            f"devices={','.join(devices)} is not supported with "
            f"distribution={distribution!r}; remove it"
        )
    if distribution == "one_device" and len(devices) > 1:
        raise InputError(
            f"devices={','.join(devices)} with distribution='one_device'; "
            "pass one device or use distribution='mirrored'"
        )


def _check_devices(devices: list[str]) -> None:
    known = _logical_devices("CPU") + _logical_devices("GPU")
    for device in devices:
        if device.lstrip("/").upper() not in known:
            raise InputError(
                f"devices={','.join(devices)}: {device} is not on this "
                f"machine; it has {', '.join(known)}"
            )
