"""Checkpoints from the Hugging Face hub, or from its library's cache."""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Collection

from absl import logging

from albert_tf.errors import InputError
from albert_tf.interop.hubs.trouble import INSTALL, reason

_COMMIT = re.compile(r"[0-9a-f]{40}")
# The kinds of weights, best first: the file that shows the kind, and a pattern
# of the others that belong to it. Only files of one kind are fetched.
_WEIGHTS = (
    ("model.safetensors", ""),
    ("model.safetensors.index.json", r"model-\d+-of-\d+\.safetensors"),
    ("pytorch_model.bin", ""),
    ("pytorch_model.bin.index.json", r"pytorch_model-\d+-of-\d+\.bin"),
    ("model.weights.h5", r"task\.weights\.h5"),  # KerasHub; a task's head
)
_COMPANION = re.compile(
    r"[^/]*(?<!\.index)\.json|[^/]+\.model|vocab\.txt|assets/tokenizer/.*"
)


def from_hugging_face(repo: str, revision: str) -> str:
    """Returns the folder of a repository in huggingface_hub's cache.

    Args:
      repo: "owner/name".
      revision: a branch, tag or commit.

    Raises:
      InputError: see `download.resolve`.
    """
    try:
        import huggingface_hub
        from huggingface_hub import constants, errors
    except ImportError as error:
        raise InputError(
            f"{repo} is not a local path, and downloading it needs "
            f"huggingface_hub: {INSTALL}"
        ) from error
    cached = _cached_snapshot(repo, revision)
    lacks = _lacks(_files_in(cached)) if cached else ""
    if cached and not lacks and _COMMIT.fullmatch(revision):
        return cached  # a commit never changes
    try:
        info = huggingface_hub.HfApi().model_info(
            repo,
            revision=revision,
            timeout=constants.HF_HUB_ETAG_TIMEOUT,
        )
    except errors.RevisionNotFoundError as error:
        raise InputError(
            f"{repo} on Hugging Face has no revision {revision!r}"
        ) from error
    except Exception as error:  # of requests, httpx or httpx2, by version
        trouble = _hugging_face_trouble(error)
        if cached and not lacks:
            # Whoever sets HF_HUB_OFFLINE knows.
            if not isinstance(error, errors.OfflineModeIsEnabled):
                logging.warning("%s: using %s; %s", repo, cached, trouble)
            return cached
        if cached:
            raise InputError(
                f"{repo}: {cached} in the Hugging Face cache lacks {lacks}, "
                f"and {trouble}"
            ) from error
        at = "" if revision == "main" else f" at revision {revision}"
        raise InputError(
            f"{repo}{at} is neither a local path nor in the Hugging Face "
            f"cache, and {trouble}"
        ) from error
    files = [sibling.rfilename for sibling in info.siblings or ()]
    if lacks := _lacks(files):
        raise InputError(
            f"{repo} on Hugging Face lacks {lacks}; it has "
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
            f"{repo} could not be downloaded: {_hugging_face_trouble(error)}"
        ) from error
    # The library returns what it has if the network goes away.
    if lacks := _lacks(_files_in(folder)):
        raise InputError(
            f"{repo}: the download broke off, {folder} lacks {lacks}; run "
            "again, what is there is kept"
        )
    return folder


def _cached_snapshot(repo: str, revision: str) -> str | None:
    """Returns the folder of `revision` in the cache, whole or not."""
    import huggingface_hub

    for file in ("config.json", *(mark for mark, _ in _WEIGHTS)):
        path = huggingface_hub.try_to_load_from_cache(
            repo, file, revision=revision
        )
        if isinstance(path, str):
            return os.path.dirname(path)
    return None


def _files_in(folder: str) -> list[str]:
    """Returns the files below `folder`; a link to nothing is none."""
    root = pathlib.Path(folder)
    return [
        path.relative_to(root).as_posix()
        for path in root.rglob("*")
        if path.is_file()
    ]


def _hugging_face_trouble(error: Exception) -> str:
    from huggingface_hub import errors

    if isinstance(error, errors.GatedRepoError):
        return (
            "access is by request: ask for it on its page on "
            "huggingface.co, then `hf auth login`"
        )
    if isinstance(error, errors.RepositoryNotFoundError):
        return (
            "the hub has no such repository, or it is private "
            "(then `hf auth login`)"
        )
    if isinstance(error, errors.HfHubHTTPError):
        return f"the hub answers with an error ({reason(error)})"
    if isinstance(error, errors.OfflineModeIsEnabled):
        return "HF_HUB_OFFLINE is set; unset it, or give a local folder"
    return (
        f"the hub cannot be reached ({reason(error)}); connect, or "
        "give a local folder"
    )


def _weight_files(files: Collection[str]) -> list[str]:
    """Returns the files of the best kind of weights among `files`."""
    for mark, others in _WEIGHTS:
        if mark in files:
            return [mark, *(f for f in files if re.fullmatch(others, f))]
    return []


def _lacks(files: Collection[str]) -> str:
    """Says what `files` lack to be a checkpoint: "" is nothing."""
    lacks = [] if "config.json" in files else ["config.json"]
    weights = _weight_files(files)
    if not weights:
        lacks.append("weights (safetensors, pytorch_model.bin or KerasHub's)")
    elif weights[0].endswith(".index.json"):
        total = re.search(r"-of-(\d+)", weights[-1])
        if not total or int(total[1]) != len(weights) - 1:
            lacks.append(f"some of the files of {weights[0]}")
    return " and ".join(lacks)
