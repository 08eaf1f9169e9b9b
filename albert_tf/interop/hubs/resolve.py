"""Turns the name of a checkpoint into a local path, downloading if need be.

Hugging Face names go through huggingface_hub and Kaggle's through kagglehub,
each with its own cache, credentials and progress bars. Both libraries are
optional and are imported when a name needs them.
"""

from __future__ import annotations

import os
import re
import urllib.parse

from albert_tf.errors import InputError
from albert_tf.interop.hubs.hugging_face import from_hugging_face
from albert_tf.interop.hubs.kaggle import KAGGLE_HANDLE, from_kaggle

_FORMS = (
    '"owner/repo" or "hf://owner/repo@revision" (Hugging Face), '
    '"kaggle://owner/model/framework/variation" (Kaggle)'
)
# The names of the days before Hugging Face had owners for every repository.
_OLD_NAME = re.compile(r"albert-(base|large|xlarge|xxlarge)-v[12]")
_PART = r"\w(?:[\w.-]*\w)?"
_REPO = re.compile(rf"{_PART}/{_PART}", re.ASCII)
# A bare name with such an ending is a misspelt path: no hub is asked about it.
_FILE = re.compile(
    r"\.(bin|ckpt(-.*)?|gz|h5|index|json|keras|model|msgpack|npz|pb|pt|pth"
    r"|safetensors|tar|tgz|zip)$"
)


def resolve(name: str, *, revision: str | None = None) -> str:
    """Finds the checkpoint that `name` names, on disk or on a hub.

    Args:
      name: a local file, folder or TF checkpoint prefix, which always wins;
        "owner/repo", "hf://owner/repo[@revision]" or its address on
        huggingface.co; "kaggle://owner/model/framework/variation[/version]"
        or its address on kaggle.com; or one of the eight old names such as
        "albert-base-v2".
      revision: a branch, tag or commit of a Hugging Face repository; "main"
        if None.

    Returns:
      The path: `name` itself if it is local, else a folder in the cache of
      the hub's library. Where the hub cannot be reached, what that cache
      holds is used.

    Raises:
      InputError: there is no such file and no such name, the library is not
        installed, the hub refuses, or it cannot be reached and the cache does
        not hold the checkpoint.
    """
    name = os.fspath(name)
    if os.path.exists(name) or os.path.isfile(f"{name}.index"):
        return name
    handle = _handle_of_address(name) if "://" in name else name
    if handle.startswith("kaggle://"):
        return from_kaggle(name, handle.removeprefix("kaggle://"), revision)
    repo, marked, named_revision = handle.partition("@")
    is_address = repo.startswith("hf://")
    repo = repo.removeprefix("hf://")
    if _OLD_NAME.fullmatch(repo):
        repo = f"albert/{repo}"
    if not _is_repo(repo) or not (is_address or _is_bare(handle)):
        raise InputError(
            f"no such file or folder: {name!r}, and not a name: {_FORMS}"
        )
    if marked and not named_revision:
        raise InputError(f"{name}: a revision must follow the @")
    if marked and revision not in (None, named_revision):
        raise InputError(
            f"{name} names a revision, and revision={revision!r} another; "
            "give one"
        )
    return from_hugging_face(repo, revision or named_revision or "main")


def _is_repo(repo: str) -> bool:
    """Returns whether Hugging Face allows `repo` as "owner/repo"."""
    return (
        bool(_REPO.fullmatch(repo))
        and len(repo) <= 96
        and not re.search(r"--|\.\.|\.git$", repo)
    )


def _is_bare(name: str) -> bool:
    return "@" not in name and not _FILE.search(name)


def _handle_of_address(name: str) -> str:
    """Returns the hf:// or kaggle:// handle of an address."""
    if name.startswith(("hf://", "kaggle://")):
        return name
    address = urllib.parse.urlsplit(name)
    host = (address.hostname or "").removeprefix("www.")
    parts = [part for part in address.path.split("/") if part]
    if address.scheme in ("http", "https"):
        if host in ("huggingface.co", "hf.co"):
            return _hugging_face_handle(name, parts)
        if host == "kaggle.com":
            return _kaggle_handle(name, parts)
        if host == "tfhub.dev":
            raise InputError(
                f"{name}: tfhub.dev has moved to Kaggle; open the address in "
                "a browser and give the handle shown there as "
                "kaggle://owner/model/framework/variation"
            )
    raise InputError(f"{name}: cannot download from there; known are {_FORMS}")


def _hugging_face_handle(name: str, parts: list[str]) -> str:
    if len(parts) == 1 and _OLD_NAME.fullmatch(parts[0]):
        parts = ["albert", *parts]
    if _is_repo("/".join(parts)):
        return f"hf://{'/'.join(parts)}"
    if len(parts) > 3 and parts[2] == "tree" and _is_repo("/".join(parts[:2])):
        return f"hf://{'/'.join(parts[:2])}@{'/'.join(parts[3:])}"
    raise InputError(
        f"{name}: not the address of a model repository; give it as "
        "owner/repo or hf://owner/repo@revision"
    )


def _kaggle_handle(name: str, parts: list[str]) -> str:
    # Kaggle's older addresses have a word before each part.
    words = ("frameworks", "variations", "versions")
    parts = [part for part in parts if part not in words]
    if parts[:1] == ["models"] and KAGGLE_HANDLE.fullmatch("/".join(parts[1:])):
        return f"kaggle://{'/'.join(parts[1:])}"
    raise InputError(
        f"{name}: not the address of one variation of a Kaggle model; give it "
        "as kaggle://owner/model/framework/variation[/version]"
    )
