"""`str.split()` and `str.strip()` in graphs."""

from __future__ import annotations

import functools
import sys

import tensorflow as tf


def split(texts: tf.Tensor) -> tf.RaggedTensor:
    """Returns the words of texts as `str.split()` does.

    Args:
      texts: strings `[batch]`, in UTF-8.

    Returns:
      Ragged strings `[batch, (words)]`.
    """
    # Without separators, TensorFlow splits at ASCII's blanks and no others.
    blanks = tf.strings.regex_replace(texts, f"{_whitespace()}+", " ")
    return tf.strings.split(blanks)


def strip(texts: tf.Tensor) -> tf.Tensor:
    """Returns strings of any shape as `str.strip()` does."""
    space = _whitespace()
    return tf.strings.regex_replace(texts, f"^{space}+|{space}+$", "")


@functools.cache
def _whitespace() -> str:
    """Returns a class of RE2 with what Python holds for whitespace."""
    spaces = [c for c in range(sys.maxunicode + 1) if chr(c).isspace()]
    return "[" + "".join(rf"\x{{{code:x}}}" for code in spaces) + "]"
