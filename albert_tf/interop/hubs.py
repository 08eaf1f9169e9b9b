"""Checkpoints on Hugging Face and Kaggle: names, addresses, downloads.

Downloads go through huggingface_hub and kagglehub, with their caches,
credentials and progress bars. Both libraries are optional and imported lazily.
"""

from __future__ import annotations

import difflib
import logging
import os
import pathlib
import re
import socket
import urllib.parse
from collections.abc import Collection

from albert_tf.errors import InputError
from albert_tf.input_files import check_not_web_address
from albert_tf.pretrained_models import (
    DEFAULT,
    local_or_packaged,
    packaged_names,
)

_logger = logging.getLogger(__name__)


def _first_line(error: Exception) -> str:
    text = str(error)
    system = re.search(r"\[Errno -?\d+\] ([^\"')\n]+)", text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    line = system.group(1) if system else (lines or [type(error).__name__])[0]
    return line if len(line) <= 160 else f"{line[:157]}..."


# What to do without a network, for error messages.
_CONNECT = (
    "connect, or give a folder that was copied from another machine, or "
    f'"{DEFAULT}", which is part of albert_tf'
)
_EXAMPLE = "albert/albert-base-v2"
_COMMIT = re.compile(r"[0-9a-f]{40}")
# Formats of weights in order of preference: the file that identifies a format,
# and a pattern of its other files. Only one format is downloaded.
_WEIGHTS = (
    ("model.safetensors", ""),
    ("model.safetensors.index.json", r"model-\d+-of-\d+\.safetensors"),
    ("pytorch_model.bin", ""),
    ("pytorch_model.bin.index.json", r"pytorch_model-\d+-of-\d+\.bin"),
    ("model.weights.h5", r"task\.weights\.h5"),  # KerasHub; a task's head
)
_COMPANION = re.compile(
    r"[^/]*(?<!\.index)\.json|1_Pooling/config\.json|[^/]+\.model|vocab\.txt"
    r"|assets/tokenizer/.*"
)


def _from_hugging_face(repo: str, revision: str) -> str:
    try:
        import huggingface_hub
        from huggingface_hub import constants, errors
    except ImportError as error:
        raise InputError(
            f"{repo} is not a local path, and downloading it needs "
            "huggingface_hub: pip install huggingface_hub"
        ) from error
    cached = _cached_snapshot(repo, revision)
    missing = _missing_files(_files_in(cached)) if cached else ""
    if cached and not missing and _COMMIT.fullmatch(revision):
        return cached  # a commit never changes
    try:
        info = huggingface_hub.HfApi().model_info(
            repo, revision=revision, timeout=constants.HF_HUB_ETAG_TIMEOUT
        )
    except errors.RevisionNotFoundError as error:
        raise InputError(
            f"{repo} on Hugging Face has no revision {revision!r}"
        ) from error
    except Exception as error:  # of requests or httpx, depending on the version
        problem = _hugging_face_problem(error)
        if cached and not missing:
            # With HF_HUB_OFFLINE, the user has asked for the cache.
            if not isinstance(error, errors.OfflineModeIsEnabled):
                _logger.warning("%s: using %s; %s", repo, cached, problem)
            return cached
        # `from None`, as the problem would drown in four tracebacks.
        if cached:
            raise InputError(
                f"{repo}: {cached} in the Hugging Face cache lacks {missing}, "
                f"and {problem}"
            ) from None
        raise InputError(
            f"{repo} at revision {revision} is neither a local path nor in the "
            f"Hugging Face cache, and {problem}"
        ) from None
    files = [sibling.rfilename for sibling in info.siblings or ()]
    if missing := _missing_files(files):
        raise InputError(
            f"{repo} on Hugging Face lacks {missing}; it has "
            f"{', '.join(sorted(files)[:12]) or 'no files'}"
        )
    companions = [f for f in files if _COMPANION.fullmatch(f)]
    try:
        folder = huggingface_hub.snapshot_download(
            repo,
            revision=revision,
            allow_patterns=[*_weight_files(files), *companions],
        )
    except Exception as error:
        raise InputError(
            f"{repo} could not be downloaded: {_hugging_face_problem(error)}"
        ) from error
    # If the connection is lost, the library returns an incomplete folder.
    if missing := _missing_files(_files_in(folder)):
        raise InputError(
            f"{repo}: the download is incomplete, {folder} lacks {missing}; "
            "run again to resume it"
        )
    return folder


def _cached_snapshot(repo: str, revision: str) -> str | None:
    """Returns the cached folder of a revision, complete or not, or None."""
    import huggingface_hub

    for file in ("config.json", *(mark for mark, _ in _WEIGHTS)):
        path = huggingface_hub.try_to_load_from_cache(
            repo, file, revision=revision
        )
        if isinstance(path, str):
            return os.path.dirname(path)
    return None


def _files_in(folder: str) -> list[str]:
    """Returns the relative paths of files in a folder, without broken links."""
    root = pathlib.Path(folder)
    return [
        path.relative_to(root).as_posix()
        for path in root.rglob("*")
        if path.is_file()
    ]


def _hugging_face_problem(error: Exception) -> str:
    from huggingface_hub import errors

    if isinstance(error, errors.GatedRepoError):
        return (
            "access must be requested on its page on huggingface.co; then "
            "run `hf auth login`"
        )
    if isinstance(error, errors.RepositoryNotFoundError):
        return (
            "the hub has no such repository, or it is private (then run "
            "`hf auth login`)"
        )
    if isinstance(error, errors.HfHubHTTPError):
        return f"the hub responded with an error ({_first_line(error)})"
    if isinstance(error, errors.OfflineModeIsEnabled):
        return f"HF_HUB_OFFLINE is set; unset it and {_CONNECT}"
    return f"the hub cannot be reached ({_first_line(error)}); {_CONNECT}"


def _weight_files(files: Collection[str]) -> list[str]:
    """Returns the files of the preferred format of weights."""
    for mark, others in _WEIGHTS:
        if mark in files:
            return [mark, *(f for f in files if re.fullmatch(others, f))]
    return []


def _missing_files(files: Collection[str]) -> str:
    """Describes what a checkpoint needs and `files` lack, or returns ""."""
    missing = [] if "config.json" in files else ["config.json"]
    weights = _weight_files(files)
    if not weights:
        missing.append("weights (safetensors, pytorch_model.bin or KerasHub's)")
    elif weights[0].endswith(".index.json"):
        total = re.search(r"-of-(\d+)", weights[-1])
        if not total or int(total[1]) != len(weights) - 1:
            missing.append(f"some of the files of {weights[0]}")
    return " and ".join(missing)


_NAME = r"\w(?:[\w.-]*\w)?"
_KAGGLE_HANDLE = re.compile(
    rf"{_NAME}(?:/{_NAME}){{3}}(?:/[1-9][0-9]*)?", re.ASCII
)


def _from_kaggle(name: str, handle: str, revision: str | None) -> str:
    if not _KAGGLE_HANDLE.fullmatch(handle):
        raise InputError(
            f"{name}: expected "
            "kaggle://owner/model/framework/variation[/version]"
        )
    if revision is not None:
        raise InputError(
            f"{name}: revision={revision!r} is for Hugging Face; on Kaggle, "
            "the version is the fifth part of the handle"
        )
    try:
        import kagglehub
        import requests
        from kagglesdk import kaggle_env  # kagglehub's own, from 1.0 on
    except ImportError as error:
        raise InputError(
            f"{name}: downloading it needs kagglehub 1.0 or later: pip "
            "install --upgrade kagglehub"
        ) from error
    cached = _cached_model(handle)
    if cached and handle.count("/") == 4:
        return cached  # a version never changes
    try:
        _check_kaggle_reachable(kaggle_env.get_endpoint(kaggle_env.get_env()))
        return kagglehub.model_download(handle)
    except (requests.RequestException, TimeoutError) as error:
        problem = _kaggle_problem(error)
        if cached:
            _logger.warning("%s: using %s; %s", name, cached, problem)
            return cached
        raise InputError(
            f"{name} is not in the cache of kagglehub, and {problem}"
        ) from error
    except Exception as error:  # kagglehub's errors have no common base class
        raise InputError(
            f"{name} could not be downloaded: {_first_line(error)}"
        ) from error


def _cached_model(handle: str) -> str | None:
    """Returns the newest complete version in the cache, or None."""
    from kagglehub import cache
    from kagglehub.handle import parse_model_handle

    model = parse_model_handle(handle)
    if model.version is not None and model.is_versioned():
        versions = [model.version]
    else:
        marks = pathlib.Path(cache.get_cached_path(model)).parent.glob(
            "*.complete"
        )
        versions = sorted(
            (int(mark.stem) for mark in marks if mark.stem.isdecimal()),
            reverse=True,
        )
    for version in versions:
        folder = cache.get_cached_path(model.with_version(version))
        if os.path.isdir(folder) and os.path.isfile(f"{folder}.complete"):
            return folder
    return None


def _check_kaggle_reachable(url: str) -> None:
    """Raises a `TimeoutError` if connecting to `url` times out.

    kagglehub has no connection timeout: behind a firewall that drops packets it
    would wait for minutes. It handles all other failures, connections through a
    proxy, and those of Kaggle's and Colab's notebooks.
    """
    from kagglehub import clients
    from requests.utils import get_environ_proxies

    notebooks = ("KAGGLE_KERNEL_RUN_TYPE", "TBE_RUNTIME_ADDR")
    if get_environ_proxies(url) or any(key in os.environ for key in notebooks):
        return
    address = urllib.parse.urlsplit(url)
    port = address.port or {"http": 80, "https": 443}[address.scheme]
    try:
        socket.create_connection(
            (address.hostname, port), clients.DEFAULT_CONNECT_TIMEOUT
        ).close()
    except TimeoutError:
        raise
    except OSError:
        return


def _kaggle_problem(error: Exception) -> str:
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status in (401, 403):
        return (
            "Kaggle requires a login: call kagglehub.login(), and accept the "
            "model's terms on its page"
        )
    if status == 404:
        return "Kaggle has no such model, variation or version"
    if status is not None:
        return f"Kaggle responded with an error ({_first_line(error)})"
    return f"Kaggle cannot be reached ({_first_line(error)}); {_CONNECT}"


_FORMS = (
    '"owner/repo" or "hf://owner/repo@revision" (Hugging Face), '
    '"kaggle://owner/model/framework/variation" (Kaggle)'
)
# Repositories that Hugging Face listed before each had an owner.
_OLD_NAME = re.compile(r"albert-(base|large|xlarge|xxlarge)-v[12]")
_REPO = re.compile(rf"{_NAME}/{_NAME}", re.ASCII)
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
        if None.

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
    if os.path.exists(name) or os.path.isfile(f"{name}.index"):
        return name
    if (folder := local_or_packaged(name)) != name:
        if revision is not None:
            raise InputError(
                f"revision={revision!r} is for Hugging Face, but {name} is "
                "part of albert_tf; leave it out"
            )
        return folder
    handle = _handle_of_address(name) if "://" in name else name
    if handle.startswith("kaggle://"):
        return _from_kaggle(name, handle.removeprefix("kaggle://"), revision)
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
    return _from_hugging_face(repo, revision or named_revision or "main")


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
    if first == "models" and _KAGGLE_HANDLE.fullmatch(handle):
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
