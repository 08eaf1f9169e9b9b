"""The dict that every model takes."""

from __future__ import annotations

from collections.abc import Mapping

ENCODER_INPUTS = ("input_word_ids", "input_mask", "input_type_ids")
MASKED_LM_POSITIONS = "masked_lm_positions"


def check_inputs(inputs, names: tuple[str, ...]) -> None:
    """Raises a `ValueError` that says which keys are missing or unknown."""
    if not isinstance(inputs, Mapping):
        raise ValueError(
            f"inputs must be a dict with the keys {', '.join(names)}; got "
            f"{type(inputs).__name__}"
        )
    if set(inputs) != set(names):
        missing = [name for name in names if name not in inputs]
        unknown = [name for name in inputs if name not in names]
        raise ValueError(
            f"inputs must have exactly the keys {', '.join(names)}; missing: "
            f"{', '.join(missing) or 'none'}; unknown: "
            f"{', '.join(unknown) or 'none'}"
        )
