"""The inputs of the models: by name, by position, or ids alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keras import ops

ENCODER_INPUTS = ("input_word_ids", "input_mask", "input_type_ids")

# Id of padding in all of ALBERT's vocabularies.
_PADDING = 0

# Hugging Face's name of an encoder input -> ours.
_HUGGING_FACE_INPUTS = {
    "input_ids": "input_word_ids",
    "attention_mask": "input_mask",
    "token_type_ids": "input_type_ids",
}


def named_inputs(
    inputs, names: tuple[str, ...], optional: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Validates a model's inputs and returns them under this library's names.

    Without a mask, padding is where an id is 0; without types, all are 0.

    Args:
      inputs: the argument of the model's call: a dict, whose keys for the
        encoder's inputs may be Hugging Face's; a list of the inputs in the
        order of `names`; or the ids alone.
      names: the keys: the encoder's inputs, and further ones that are required.
      optional: further keys that are allowed.

    Raises:
      ValueError: if a key is missing or unknown.
    """
    if not isinstance(inputs, Mapping):
        inputs = _by_position(inputs, names)
    theirs = [name for name in inputs if name in _HUGGING_FACE_INPUTS]
    ours = [name for name in inputs if name in ENCODER_INPUTS]
    if theirs and ours:
        raise ValueError(
            f"inputs mix Hugging Face's names ({', '.join(theirs)}) with this "
            f"library's ({', '.join(ours)}); use one or the other"
        )
    if theirs:
        names = (*_HUGGING_FACE_INPUTS, *names[len(ENCODER_INPUTS) :])
    derived = names[1 : len(ENCODER_INPUTS)]
    missing = [x for x in names if x not in inputs and x not in derived]
    unknown = [name for name in inputs if name not in names + optional]
    if missing or unknown:
        also = f" and may have {', '.join(optional)}" if optional else ""
        raise ValueError(
            f"inputs must have the keys {', '.join(names)}{also}; missing: "
            f"{', '.join(missing) or 'none'}; unknown: "
            f"{', '.join(unknown) or 'none'}"
        )
    found = {
        _HUGGING_FACE_INPUTS.get(name, name): value
        for name, value in inputs.items()
    }
    ids, mask, types = ENCODER_INPUTS
    if mask not in found:
        found[mask] = ops.cast(ops.not_equal(found[ids], _PADDING), "int32")
    if types not in found:
        found[types] = ops.zeros_like(found[mask], dtype="int32")
    return found


def _by_position(inputs, names: tuple[str, ...]) -> dict[str, Any]:
    """Returns ids, or a list of inputs, as a dict."""
    values = inputs if isinstance(inputs, (list, tuple)) else [inputs]
    if not 1 <= len(values) <= len(names):
        raise ValueError(
            f"inputs are a list of {len(values)}, but must be ids, a dict, or "
            f"a list in the order {', '.join(names)}"
        )
    return dict(zip(names, values, strict=False))


def check_not_texts(inputs) -> None:
    """Raises a `ValueError` if a model is called with a text or a list of them.

    Keras would say that a text is no tensor.
    """
    values = inputs if isinstance(inputs, (list, tuple)) else [inputs]
    if any(map(_is_text, values)):
        raise ValueError(
            "inputs are texts, but the model takes token ids: "
            "model.tokenizer(texts) or an AlbertPreprocessor makes them"
        )


def _is_text(value: Any) -> bool:
    dtype = getattr(value, "dtype", None)
    return (
        isinstance(value, (str, bytes))
        or getattr(dtype, "kind", "") in ("S", "U")
        or "string" in str(dtype)
    )
