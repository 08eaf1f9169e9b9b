"""Arrays that are compared."""

from __future__ import annotations

import numpy as np

from .findings import expect

# float32 sums in another order (XLA, fused or packed kernels) differ by about
# 1e-6 of the largest value; a wrong weight or a wrong kind of GELU shows at
# 1e-3 and above.
TOLERANCE = 1e-4


def difference(found, wanted, what: str, real=None) -> float:
    """Returns the largest difference, over the largest value if that is > 1.

    Args:
      found: an array.
      wanted: one of the same shape.
      what: names them.
      real: `[batch, seq]`: which tokens count; None: all.

    Raises:
      Failed: shapes differ, or numbers by more than `TOLERANCE`.
    """
    found, wanted = np.asarray(found), np.asarray(wanted)
    expect(
        found.shape == wanted.shape,
        f"{what}: shape {list(found.shape)}, not {list(wanted.shape)}",
    )
    expect(np.isfinite(found).all(), f"{what}: not finite")
    gaps = np.abs(found.astype("float64") - wanted)
    if real is not None:
        gaps = gaps[np.asarray(real) == 1]
    largest = float(np.max(gaps, initial=0))
    largest /= max(1.0, float(np.max(np.abs(wanted), initial=0)))
    expect(
        largest <= TOLERANCE,
        f"{what}: differs by {largest:.2g}, more than {TOLERANCE}",
    )
    return largest


def relative_error(found, wanted) -> float:
    """Returns the length of the difference over the length of the wanted."""
    found, wanted = (np.asarray(x, "float64") for x in (found, wanted))
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))


def shown(largest: float) -> str:
    """Returns the figure of a comparison."""
    return f"max difference {largest:.1e} (tolerance {TOLERANCE})"
