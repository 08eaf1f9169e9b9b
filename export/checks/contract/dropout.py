"""The check of dropout, of whatever a SavedModel gives."""

from __future__ import annotations

import numpy as np

from .exported import Exported
from .findings import expect


def dropout(
    exported: Exported, inputs, name: str, *, has_head: bool = False
) -> str:
    """Checks that an output changes from call to call with dropout only.

    Args:
      exported: the export.
      inputs: of its object.
      name: of a float output.
      has_head: whether there is a head, which may have dropout of its own.
    """

    def output(function, **arguments):
        return function(inputs, **arguments)[name].numpy()

    root, config = exported.root, exported.manifest["config"]
    first, second = output(root), output(root, training=False)
    expect(np.array_equal(first, second), "two calls without training differ")
    rates = [config[f"{x}_dropout_prob"] for x in ("hidden", "attention_probs")]
    for what, function, arguments in (
        ("training=True", root, {"training": True}),
        ("call_training", root.call_training, {}),
    ):
        first, second = (output(function, **arguments) for _ in range(2))
        same = np.array_equal(first, second)
        wrong = same if any(rates) else not same and not has_head
        expect(not wrong, f"{what}: equal={same}, rates {rates}")
    if not any(rates):
        return "off; the config has none"
    return f"off, and on with rates {rates[0]}, {rates[1]}"
