"""Flags that say where and in what precision a model runs."""

from __future__ import annotations

from absl import flags

from albert_tf.training.choices import DISTRIBUTIONS, PRECISIONS

DISTRIBUTION = flags.DEFINE_enum(
    "distribution",
    "auto",
    DISTRIBUTIONS,
    "auto: the TPU if --tpu names one, the workers of TF_CONFIG, all GPUs if "
    "there are several, else one device.",
)
TPU = flags.DEFINE_string(
    "tpu", None, "TPU: 'local' on a TPU VM, a name, or a grpc:// address."
)
TPU_ZONE = flags.DEFINE_string("tpu_zone", None, "Zone of a TPU by name.")
GCP_PROJECT = flags.DEFINE_string(
    "gcp_project", None, "Project of a TPU by name."
)
PRECISION = flags.DEFINE_enum(
    "precision", "float32", PRECISIONS, "Precision of the computation."
)
