"""What can be chosen of: words for flags."""

from __future__ import annotations

DISTRIBUTIONS = ("auto", "one_device", "mirrored", "multi_worker", "tpu")
PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")
ON_DIVERGENCE = ("stop", "rollback")
