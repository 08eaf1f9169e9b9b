"""What a file of tensors is to those who read it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np


@dataclasses.dataclass(frozen=True)
class TensorFile:
    """The tensors of a file under their own names.

    Attributes:
      shapes: name -> shape, of everything that the file holds.
      read: returns the array of a name.
      source: what error messages call the file.
    """

    shapes: Mapping[str, tuple[int, ...]]
    read: Callable[[str], np.ndarray]
    source: str
