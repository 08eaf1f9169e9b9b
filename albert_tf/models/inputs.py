"""The dict that every model takes."""

from __future__ import annotations

from collections.abc import Mapping

ENCODER_INPUTS = ("input_word_ids", "input_mask", "input_type_ids")
MASKED_LM_POSITIONS = "masked_lm_positions"
P_MASK = "p_mask"
START_POSITIONS = "start_positions"


def check_inputs(
    inputs, names: tuple[str, ...], optional: tuple[str, ...] = ()
) -> None:
    """Raises a `ValueError` that says which keys are missing or unknown.

    Args:
      inputs: what a model was called with.
      names: the keys that must be there.
      optional: keys that may be there too.
    """
    if not isinstance(inputs, Mapping):
        raise ValueError(
            f"inputs must be a dict with the keys {', '.join(names)}; got "
            f"{type(inputs).__name__}"
        )
    missing = [name for name in names if name not in inputs]
    unknown = [name for name in inputs if name not in names + optional]
    if missing or unknown:
        also = f" and may have {', '.join(optional)}" if optional else ""
        raise ValueError(
            f"inputs must have the keys {', '.join(names)}{also}; missing: "
            f"{', '.join(missing) or 'none'}; unknown: "
            f"{', '.join(unknown) or 'none'}"
        )
