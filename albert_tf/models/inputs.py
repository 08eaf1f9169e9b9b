"""The inputs of the models: by name, by position, or ids alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from albert_tf.text.packing import ENCODER_INPUTS

# Inputs for rows of several sequences; see `AlbertEncoder`.
SEQUENCE_INPUTS = ("sequence_ids", "sequence_starts")

# Id of padding in all of ALBERT's vocabularies.
_PADDING = 0

# Hugging Face's name of an encoder input -> ours.
HUGGING_FACE_INPUTS = {
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
    theirs = [name for name in inputs if name in HUGGING_FACE_INPUTS]
    ours = [name for name in inputs if name in ENCODER_INPUTS]
    if theirs and ours:
        raise ValueError(
            f"inputs mix Hugging Face's names ({', '.join(theirs)}) with this "
            f"library's ({', '.join(ours)}); use one or the other"
        )
    if theirs:
        names = (*HUGGING_FACE_INPUTS, *names[len(ENCODER_INPUTS) :])
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
        HUGGING_FACE_INPUTS.get(name, name): value
        for name, value in inputs.items()
    }
    ids, mask, types = ENCODER_INPUTS
    if mask not in found:
        found[mask] = ops.cast(ops.not_equal(found[ids], _PADDING), "int32")
    if types not in found:
        found[types] = ops.zeros_like(found[mask], dtype="int32")
    return found


def sequence_inputs(inputs, names: tuple[str, ...]) -> dict[str, Any]:
    """Returns `named_inputs`, which may include both `SEQUENCE_INPUTS`.

    Raises:
      ValueError: if a key is missing or unknown.
    """
    inputs = named_inputs(inputs, names, SEQUENCE_INPUTS)
    given = [name for name in SEQUENCE_INPUTS if name in inputs]
    if len(given) == 1:
        raise ValueError(
            f"inputs have only {given[0]}; rows of several sequences need "
            f"{' and '.join(SEQUENCE_INPUTS)}"
        )
    return inputs


def first_tokens(inputs):
    """Returns each sequence's first position, int32 `[batch, sequences]`."""
    if "sequence_starts" in inputs:
        return ops.cast(inputs["sequence_starts"], "int32")
    return ops.zeros((ops.shape(inputs["input_mask"])[0], 1), dtype="int32")


def as_integers(name: str, values):
    """Converts an input to an integer tensor.

    float32 is accepted, as by `keras.layers.Embedding`: Keras traces exported
    subclassed models with it.

    Raises:
      ValueError: if the dtype cannot represent every id.
    """
    values = ops.convert_to_tensor(values)
    dtype = keras.backend.standardize_dtype(values.dtype)
    if dtype in ("float16", "bfloat16"):
        raise ValueError(
            f"{name} is {dtype}, which cannot represent every id; use int32"
        )
    # TensorFlow does not gather by smaller integers.
    return values if dtype in ("int32", "int64") else ops.cast(values, "int32")


def check_shapes(arrays: dict[str, Any]) -> None:
    """Checks that arrays are `[batch, seq]` as far as shapes are known.

    Raises:
      ValueError: if an array has another rank, or another shape than the first.
    """
    first, expected = "", ()
    for name, values in arrays.items():
        if getattr(values.shape, "rank", 0) is None:
            continue
        shape = tuple(values.shape)
        if len(shape) != 2:
            raise ValueError(
                f"{name} has the shape {list(shape)}, but must be "
                "[batch, seq], also for a single row"
            )
        if not first:
            first, expected = name, shape
        sizes = zip(shape, expected, strict=True)
        # Unknown ones are None, or symbols and tensors of tracing.
        if any(type(x) is type(y) is int and x != y for x, y in sizes):
            raise ValueError(
                f"{name} has the shape {list(shape)}, but {first} has "
                f"{list(expected)}; all inputs must have the same"
            )


def check_not_texts(inputs) -> None:
    """Raises a `ValueError` if inputs of a model are a text or a list of them.

    Keras's own error would only say that a text is not a tensor.
    """
    values = inputs if isinstance(inputs, (list, tuple)) else [inputs]
    if any(map(_is_text, values)):
        raise ValueError(
            "inputs are texts, but the model takes token ids: "
            "model.tokenizer(texts) or an AlbertPreprocessor makes them"
        )


def _by_position(inputs, names: tuple[str, ...]) -> dict[str, Any]:
    """Returns ids, or a list of inputs, as a dict."""
    values = inputs if isinstance(inputs, (list, tuple)) else [inputs]
    if not 1 <= len(values) <= len(names):
        raise ValueError(
            f"inputs are a list of {len(values)}, but must be ids, a dict, or "
            f"a list in the order {', '.join(names)}"
        )
    return dict(zip(names, values, strict=False))


def _is_text(value: Any) -> bool:
    dtype = getattr(value, "dtype", None)
    return (
        isinstance(value, (str, bytes))
        or getattr(dtype, "kind", "") in ("S", "U")
        or "string" in str(dtype)
    )
