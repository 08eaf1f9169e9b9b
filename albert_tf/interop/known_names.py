"""Names of models: packaged ones, and those of other libraries and papers."""

from __future__ import annotations

import difflib
import re

from albert_tf import pretrained_models

# The preset's name in KerasHub, such as albert_extra_large_en_uncased.
_KERAS_HUB = re.compile(
    r"albert_((extra_){0,2}large|base)_en_uncased", re.IGNORECASE
)
_KERAS_HUB_HANDLE = "kaggle://keras/albert/keras/"
# Google's archives and TF-Hub handles, with underscores or hyphens, such as
# albert_base_v2, google/albert_base/3 and tensorflow/albert_en_base/2.
_RELEASED = re.compile(
    r"(?:.*/)?albert[-_](?:en[-_])?(x{0,2}large|base|preprocess)"
    r"(?:(?:[-_]v|/)(\d))?(?:\.tar\.gz)?/?",
    re.IGNORECASE,
)


# What to do without a network, for error messages.
CONNECT = (
    "connect, or give a folder that was copied from another machine, or "
    f'"{pretrained_models.DEFAULT}", which is part of albert_tf'
)


def did_you_mean(name: str) -> str:
    """Returns "; did you mean ..." for a name that is close to a model's.

    For others, it says which models are part of the package.
    """
    names = pretrained_models.packaged_names()
    spelled = name.rstrip("/").replace("-", "_").lower()
    close = difflib.get_close_matches(spelled, names, n=1, cutoff=0.8)
    if known := released_name(name) or "".join(close):
        return f'; did you mean "{known}"?'
    packaged = ", ".join(f'"{name}"' for name in names)
    return f"; a name that needs no download is {packaged}"


def released_name(name: str) -> str:
    """Returns the name of a released model that a hub has, or ""."""
    if "/" not in name and (match := _KERAS_HUB.fullmatch(name)):
        return f"{_KERAS_HUB_HANDLE}{match[0].lower()}"
    if match := _RELEASED.fullmatch(name):
        size, version = match[1].lower(), match[2]
        # TF-Hub's first version has the weights of v1, later ones those of v2.
        release = "v1" if version == "1" and "_en_" not in name else "v2"
        size = "base" if size == "preprocess" else size
        return f"albert/albert-{size}-{release}"
    return ""
