"""Where exported weights come from: what a model card says of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class Origin:
    """What is known of the making of a model; all of it may be unknown.

    Nothing of it may tell where on the exporting machine a file was.

    Attributes:
      name: what the model is called, such as "albert_tiny".
      source: the kind of checkpoint, such as "training run of albert_tf, step
        3200".
      data_manifest: of the pretraining records, as `create-data` wrote it.
      training_flags: resolved flags of the run, name -> value.
      scores: metric -> score, of held-out or development data.
      scored_on: what data that is, and who has scored, such as "the
        development set, by albert finetune".
      licence: an SPDX name, or a sentence; empty if nobody has said.
    """

    name: str = "albert"
    source: str = ""
    data_manifest: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    training_flags: Mapping[str, str] = dataclasses.field(default_factory=dict)
    scores: Mapping[str, float] = dataclasses.field(default_factory=dict)
    scored_on: str = ""
    licence: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Returns JSON values, without the manifest's long lists of files."""
        manifest = dict(self.data_manifest)
        manifest.pop("inputs", None)
        if "splits" in manifest:
            manifest["splits"] = {
                name: {k: v for k, v in split.items() if k != "files"}
                for name, split in manifest["splits"].items()
            }
        return dataclasses.asdict(self) | {"data_manifest": manifest}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Origin:
        """Returns the origin that `to_dict` has written.

        Names that are not known here, of another version, are left out.
        """
        names = {field.name for field in dataclasses.fields(cls)}
        return cls(**{k: v for k, v in values.items() if k in names})


UNKNOWN = Origin()
