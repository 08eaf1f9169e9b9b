"""Where and in what precision a model can run: words for flags."""

from __future__ import annotations

DISTRIBUTIONS = ("auto", "one_device", "mirrored", "multi_worker", "tpu")
PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")
