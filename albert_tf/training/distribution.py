"""Where the replicas run and in what precision they compute."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.training.choices import DISTRIBUTIONS, PRECISIONS
from albert_tf.training.tpu import tpu_strategy


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
      distribution: one of `DISTRIBUTIONS`. "auto" is the TPU where one is
        named, several workers where TF_CONFIG lists them, all GPUs where there
        are several, and one device otherwise.
      tpu: name or address of the TPU; "local" on a TPU VM.
      tpu_zone: the zone of a TPU given by name.
      gcp_project: the project of a TPU given by name.
      devices: names such as "GPU:0"; default: every GPU, else the CPU. (A CPU
        is several devices after `tf.config.set_logical_device_configuration`.)

    Raises:
      InputError: the arguments contradict each other or the machine.
    """
    if distribution not in DISTRIBUTIONS:
        raise InputError(
            f"distribution={distribution!r}: choose one of "
            + ", ".join(DISTRIBUTIONS)
        )
    workers = _workers_of_tf_config()
    devices = list(devices or ())
    if distribution == "auto":
        distribution = _detect(tpu, workers, devices)
    _check(distribution, tpu, tpu_zone, gcp_project, workers, devices)
    if distribution == "tpu":
        return tpu_strategy(tpu, tpu_zone, gcp_project)
    if distribution == "multi_worker":
        return tf.distribute.MultiWorkerMirroredStrategy()
    _check_devices(devices)
    gpus = [f"GPU:{i}" for i in range(len(_logical_devices("GPU")))]
    if distribution == "one_device":
        device = (devices or gpus or ["CPU:0"])[0]
        return tf.distribute.OneDeviceStrategy(f"/{device.lstrip('/')}")
    cpus = [f"CPU:{i}" for i in range(len(_logical_devices("CPU")))]
    if not devices and not gpus and len(cpus) == 1:
        raise InputError(
            "distribution='mirrored': this machine has no GPU, and its CPU is "
            "one device; use distribution='one_device'"
        )
    return _mirrored(tuple(devices or gpus or cpus))


def strategy_of_this_machine() -> tf.distribute.Strategy:
    """Creates a strategy for work of one process, such as an evaluation.

    All GPUs of this machine if there are several, else one device, whatever
    workers TF_CONFIG lists.
    """
    several = len(_logical_devices("GPU")) > 1
    return make_strategy("mirrored" if several else "one_device")


@functools.cache
def _mirrored(devices: tuple[str, ...]) -> tf.distribute.MirroredStrategy:
    # One a process: the collectives of a second strategy over the same devices
    # get the keys of the first one's, and TensorFlow aborts both.
    return tf.distribute.MirroredStrategy(devices)


def set_precision(precision: str) -> None:
    """Sets the dtype policy of the Keras layers that are created afterwards.

    Variables stay float32. "mixed_float16" also needs
    `TrainingConfig(dynamic_loss_scale=True)`.

    Args:
      precision: one of `PRECISIONS`.

    Raises:
      InputError: another word.
    """
    if precision not in PRECISIONS:
        raise InputError(
            f"precision={precision!r}: choose one of {', '.join(PRECISIONS)}"
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


def _logical_devices(kind: str) -> list[str]:
    return [device.name for device in tf.config.list_logical_devices(kind)]


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
                "distribution='tpu' needs tpu: its name or address, or 'local' "
                "on a TPU VM"
            )
        if workers:
            raise InputError(
                f"tpu={tpu!r} and the workers of TF_CONFIG contradict each "
                "other; unset one"
            )
    else:
        for name, value in (
            ("tpu", tpu),
            ("tpu_zone", tpu_zone),
            ("gcp_project", gcp_project),
        ):
            if value is not None:
                raise InputError(
                    f"{name}={value!r} means nothing with "
                    f"distribution={distribution!r}; use distribution='tpu'"
                )
    if distribution == "multi_worker" and not workers:
        raise InputError(
            "distribution='multi_worker' needs the environment variable "
            "TF_CONFIG with the workers of the cluster"
        )
    if distribution in ("tpu", "multi_worker") and devices:
        raise InputError(
            f"devices={','.join(devices)} cannot be chosen with "
            f"distribution={distribution!r}; leave devices out"
        )
    if distribution == "one_device" and len(devices) > 1:
        raise InputError(
            f"devices={','.join(devices)} with distribution='one_device'; "
            "name one device or use distribution='mirrored'"
        )


def _check_devices(devices: list[str]) -> None:
    known = _logical_devices("CPU") + _logical_devices("GPU")
    known = [name.split("device:")[-1] for name in known]
    for device in devices:
        if device.lstrip("/").upper() not in known:
            raise InputError(
                f"devices={','.join(devices)}: {device} is not on this "
                f"machine; it has {', '.join(known)}"
            )
