"""Checkpoints on Hugging Face and Kaggle: names, addresses, downloads.

Downloads go through huggingface_hub and kagglehub, with their caches,
credentials and progress bars. Both libraries are optional and imported lazily.
"""

from __future__ import annotations

import difflib
import os
import re
import urllib.parse

from albert_tf.errors import InputError
from albert_tf.input_files import check_not_web_address
from albert_tf.interop.hugging_face_hub import from_hugging_face
from albert_tf.interop.kaggle_hub import HANDLE, NAME, from_kaggle
from albert_tf.pretrained_models import local_or_packaged, packaged_names

_EXAMPLE = "albert/albert-base-v2"
_FORMS = (
    '"owner/repo" or "hf://owner/repo@revision" (Hugging Face), '
    '"kaggle://owner/model/framework/variation" (Kaggle)'
)
# Repositories that Hugging Face listed before each had an owner.
_OLD_NAME = re.compile(r"albert-(base|large|xlarge|xxlarge)-v[12]")
_REPO = re.compile(rf"{NAME}/{NAME}", re.ASCII)
# A name with such a suffix is a misspelt path, not a repository.
_FILE = re.compile(
    r"\.(bin|ckpt(-.*)?|gz|h5|index|json|keras|model|msgpack|npz|pb|pt|pth"
    r"|safetensors|tar|tgz|zip)$"
)


def resolve(name: str, *, revision: str | None = None) -> str:
    """Returns the local path of a checkpoint, downloading it if necessary.

    Args:
      name: a local file, folder or TF checkpoint prefix, which has precedence;
        a model of the package, such as "albert_tiny_en"; "owner/repo",
        "hf://owner/repo[@revision]" or its address on huggingface.co;
        "kaggle://owner/model/framework/variation[/version]" or its address on
        kaggle.com; or one of the eight legacy names such as
        "albert-base-v2".
      revision: a branch, tag or commit of a Hugging Face repository; "main"
        if None. Only for these.

    Returns:
      `name` itself if it is local, or else a folder of the package or in the
      cache of the hub's library. If the hub cannot be reached, the cache is
      used.

    Raises:
      InputError: if there is neither such a file nor such a name, the library
        is not installed, the hub denies access, or the hub cannot be reached
        and the checkpoint is not cached.
    """
    name = os.fspath(name)
    is_local = os.path.exists(name) or os.path.isfile(f"{name}.index")
    folder = name if is_local else local_or_packaged(name)
    if is_local or folder != name:
        if revision is not None:
            what = "a local path" if is_local else "part of albert_tf"
            raise InputError(
                f"revision={revision!r} is for Hugging Face, but {name} is "
                f"{what}; leave it out"
            )
        return folder
    handle = _handle_of_address(name) if "://" in name else name
    if handle.startswith("kaggle://"):
        return from_kaggle(name, handle.removeprefix("kaggle://"), revision)
    is_address = handle.startswith("hf://")
    repo, marked, named_revision = handle.removeprefix("hf://").partition("@")
    is_bare = not marked and not _FILE.search(handle)
    if _OLD_NAME.fullmatch(repo):
        repo = f"albert/{repo}"
    if not _is_repo(repo) or not (is_address or is_bare):
        raise InputError(
            f"no such file or folder: {name!r}{_did_you_mean(name)}; a name on "
            f"a hub is {_FORMS}"
        )
    if marked and not named_revision:
        raise InputError(f"{name}: a revision must follow the @")
    if marked and revision not in (None, named_revision):
        raise InputError(
            f"{name} and revision={revision!r} differ; give only one of them"
        )
    return from_hugging_face(repo, revision or named_revision or "main")


def _is_repo(repo: str) -> bool:
    """Returns whether `repo` is a valid "owner/repo" on Hugging Face."""
    return (
        bool(_REPO.fullmatch(repo))
        and len(repo) <= 96
        and not re.search(r"--|\.\.|\.git$", repo)
    )


def _handle_of_address(name: str) -> str:
    """Returns the hf:// or kaggle:// handle of a web address."""
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
            check_not_web_address(
                name,
                f'a checkpoint such as "{_released_name(name) or _EXAMPLE}", '
                "or the handle shown at this address: "
                "kaggle://owner/model/framework/variation",
            )
    raise InputError(f"{name}: cannot download from this host; give {_FORMS}")


def _hugging_face_handle(name: str, parts: list[str]) -> str:
    if len(parts) == 1 and _OLD_NAME.fullmatch(parts[0]):
        parts = ["albert", *parts]
    if _is_repo("/".join(parts)):
        return f"hf://{'/'.join(parts)}"
    if len(parts) > 3 and parts[2] == "tree" and _is_repo("/".join(parts[:2])):
        return f"hf://{'/'.join(parts[:2])}@{'/'.join(parts[3:])}"
    raise InputError(f"{name}: not the address of a model; give {_FORMS}")


def _kaggle_handle(name: str, parts: list[str]) -> str:
    # Kaggle's older addresses name each part.
    words = ("frameworks", "variations", "versions")
    first, *parts = [part for part in parts if part not in words] or [""]
    handle = "/".join(parts)
    if first == "models" and HANDLE.fullmatch(handle):
        return f"kaggle://{handle}"
    raise InputError(
        f"{name}: not the address of one variation of a Kaggle model; give it "
        "as kaggle://owner/model/framework/variation[/version]"
    )


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


def _did_you_mean(name: str) -> str:
    """Returns "; did you mean ..." for a name that is close to a model's.

    For others, it says which models are part of the package.
    """
    names = packaged_names()
    spelled = name.rstrip("/").replace("-", "_").lower()
    close = difflib.get_close_matches(spelled, names, n=1, cutoff=0.8)
    if known := _released_name(name) or "".join(close):
        return f'; did you mean "{known}"?'
    packaged = ", ".join(f'"{name}"' for name in names)
    return f"; a name that needs no download is {packaged}"


def _released_name(name: str) -> str:
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
