"""What an export says of itself, to programs and to people."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

from albert_tf.export.manifest import versions, write_manifest
from albert_tf.export.model_card import model_card
from albert_tf.export.origin import Origin

CARD = "README.md"


def describe_export(
    folder: pathlib.Path, values: Mapping[str, Any], origin: Origin
) -> None:
    """Writes the model card and `export.json`, as the last step of an export.

    Args:
      folder: of the export, with its other files.
      values: what `export.json` holds beside versions and origin; "kind" is the
        kind of the export. What `describe_weights` returns is among it.
      origin: of the weights.
    """
    values = {**values, "origin": origin.to_dict(), "versions": versions()}
    card = model_card(values, origin)
    (folder / CARD).write_text(card, encoding="utf-8")
    write_manifest(folder, values)
