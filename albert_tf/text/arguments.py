"""Checks of arguments that are texts, and of tokenizers' settings."""

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from albert_tf.errors import InputError, shown
from albert_tf.schema import check_argument


def check_not_table(values: Any, name: str) -> None:
    """Raises an `InputError` for a table of pandas, a sequence of names."""
    if hasattr(values, "columns"):
        raise InputError(
            f"{name} is a table, of which only the names of columns would be "
            'read; give a column, such as table["text"], or, where dicts are '
            'taken, table[["text", "pair"]].to_dict("records")'
        )


def text_list(texts: str | Iterable[str], name: str) -> list[str]:
    """Returns the texts of the argument `name` as a list.

    Raises:
      InputError: if it is neither a text nor an iterable of texts.
    """
    if isinstance(texts, str):
        return [texts]
    check_not_table(texts, name)
    if isinstance(texts, (bytes, Mapping)) or not isinstance(texts, Iterable):
        raise InputError(
            f"{name}={shown(texts)} must be a text or a list of texts"
        )
    texts = list(texts)
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(
                f"{name}[{i}]={shown(text)} must be a text, not "
                f"{type(text).__name__}"
            )
    return texts


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
