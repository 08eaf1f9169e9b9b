"""Texts as arguments of `fit`, `evaluate` and `predict`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError, shown
from albert_tf.text.arguments import check_not_table


def as_lists(values: Any) -> Any:
    """Returns sequences of other libraries, such as columns, as lists.

    A column of Hugging Face's datasets is one of them. Those in a tuple are
    lists afterwards, too; other values are returned as they are.
    """
    if isinstance(values, tuple):
        return tuple(map(as_lists, values))
    if not isinstance(values, Sequence):
        return values
    return values if isinstance(values, (str, bytes, list)) else list(values)


def count_texts(x: Any, model: str, num_texts: Sequence[int]) -> int:
    """Returns the number of texts of an example; 0 if inputs are not texts.

    Args:
      x: inputs of `fit`, with `as_lists` applied.
      num_texts: how many texts an example may have.

    Raises:
      InputError: if texts are not given as described in `TaskModel`.
    """
    numbers = " or ".join(str(n) for n in num_texts if n > 1)
    if isinstance(x, tf.data.Dataset):
        spec = x.element_spec
        spec = spec[0] if isinstance(spec, tuple) else spec
        parts = spec if isinstance(spec, tuple) else (spec,)
        is_text = [getattr(s, "dtype", None) == tf.string for s in parts]
        count = len(parts) if all(is_text) else 0
    elif isinstance(x, (str, bytes)):
        raise InputError(f"{shown(x)} is one text; give a list, [text]")
    elif isinstance(x, tuple):
        if x and any(isinstance(part, (str, bytes)) for part in x):
            raise InputError(
                "a tuple must consist of lists of texts, such as (first, "
                "second); give single texts as a list"
            )
        count = len(x) if x and all(map(_is_texts, x)) else 0
    else:
        is_list = isinstance(x, list) or _is_texts(x)
        if is_list and not len(x):
            raise InputError("no texts; give at least one, [text]")
        if isinstance(x, list) and isinstance(x[0], (list, tuple)):
            if x[0] and isinstance(x[0][0], (str, bytes)):
                raise InputError(_nested(model, numbers))
        count = int(_is_texts(x))
    if count and count not in num_texts:
        wanted = "one text"
        if numbers:
            wanted = f"a tuple of {numbers} lists of texts"
        raise InputError(f"{model} takes {wanted}, not {count}")
    return count


def _nested(model: str, numbers: str) -> str:
    """Returns what is wrong with a list of lists of strings."""
    if numbers:
        return "pairs of texts must be a tuple of two lists, (first, second)"
    return (
        f"{model} takes a list of strings, not of lists; join the words of a "
        'text, " ".join(words)'
    )


def _is_texts(x: Any) -> bool:
    check_not_table(x, "x")
    if tf.is_tensor(x):
        return x.dtype == tf.string
    if isinstance(x, list):
        while isinstance(x, (list, tuple)) and x:
            x = _first(x)
        return isinstance(x, (str, bytes))
    # NumPy's arrays and pandas's columns.
    kind = getattr(getattr(x, "dtype", None), "kind", "")
    return kind in ("U", "S", "O", "T")


def _first(values: Sequence[Any]) -> Any:
    """Returns the first text or list of texts, or else the first value.

    Some may be missing: None, or what pandas has for it.
    """
    parts = (str, bytes, list, tuple)
    return next((x for x in values if isinstance(x, parts)), values[0])


def as_strings(texts: Any, rank: int = 1) -> list[Any]:
    """Returns texts as a list of `str`, or with rank 2 as lists of them."""
    if tf.is_tensor(texts):
        texts = texts.numpy()
    if not isinstance(texts, np.ndarray):
        texts = list(texts)  # A column of pandas has any index.
    if rank == 2 and np.ndim(texts[0]) == 1:
        rows = [as_strings(row) for row in texts]
        if len({len(row) for row in rows}) > 1:
            raise InputError(
                "examples have different numbers of options; give each the "
                "same number"
            )
        return rows
    shape = getattr(texts, "shape", (len(texts),))
    if len(shape) != rank:
        form = "[examples, options]" if rank == 2 else "[examples]"
        raise InputError(
            f"texts of shape {list(shape)} must have the shape {form}"
        )
    strings = []
    for number, text in enumerate(texts):
        if isinstance(text, bytes):
            text = text.decode("utf-8", "replace")
        if not isinstance(text, str):
            raise InputError(f"text {number}, {shown(text)}, must be a string")
        strings.append(str(text))
    return strings
