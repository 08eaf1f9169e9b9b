"""Checks of the arguments of tokenizers."""

import inspect
from collections.abc import Mapping
from typing import Any

from albert_tf.errors import InputError
from albert_tf.schema import check_argument


def check_flags(**flags: Any) -> None:
    """Raises an `InputError` unless all values are Booleans."""
    for name, value in flags.items():
        check_argument(value, bool, name)


def check_names(
    settings: Mapping[str, Any], tokenizer_class: type, source: str
) -> None:
    """Checks that settings are arguments of a tokenizer's constructor.

    Args:
      settings: values by name.
      tokenizer_class: its constructor takes the vocabulary, settings, and the
        vocabulary's name.
      source: the name of the vocabulary in the error.

    Raises:
      InputError: if one is not.
    """
    _, _, *known, _ = inspect.signature(tokenizer_class.__init__).parameters
    for name, value in settings.items():
        if name not in known:
            raise InputError(
                f"{name}={value!r} is not a setting of "
                f"{tokenizer_class.__name__} ({source}); it has "
                f"{', '.join(known)}"
            )
