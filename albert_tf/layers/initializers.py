"""Weight initialization of the original."""

from __future__ import annotations

import keras


def truncated_normal(stddev: float) -> keras.initializers.Initializer:
    """Returns a new initializer: one for each weight, never shared.

    A Keras initializer with an explicit or drawn seed repeats its values, so
    two kernels of one shape would start out equal if they shared it.
    """
    return keras.initializers.TruncatedNormal(stddev=stddev)
