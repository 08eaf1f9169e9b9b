"""Downloads from Hugging Face, through huggingface_hub and its cache."""

from __future__ import annotations

import logging
import os
import pathlib
import re
from collections.abc import Collection

from albert_tf.errors import InputError
from albert_tf.interop.hub_problems import CONNECT, first_line

_logger = logging.getLogger(__name__)

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

# Other files that are read, such as those of modules of sentence-transformers
# and the heads of a pretraining objective.
_COMPANION = re.compile(
    r"[^/]*(?<!\.index)\.json|\d+_\w+/(config\.json|model\.safetensors)"
    r"|objective\.safetensors|[^/]+\.model|vocab\.txt|assets/tokenizer/.*"
)
_MODULE = re.compile(r"\d+_(?!WordWeights)\w+/config\.json")
_VOCABULARY = re.compile(r"[^/]+\.model|vocab\.txt|tokenizer\.json|assets/.*")


def from_hugging_face(repo: str, revision: str) -> str:
    """Returns the folder of a repository in the cache, downloaded if necessary.

    `repo` is "owner/repo"; `revision` is a branch, tag or commit. See
    `hubs.resolve` for errors.
    """
    try:
        import huggingface_hub
        from huggingface_hub import constants, errors
    except ImportError as error:
        raise InputError(
            f"{repo} is not a local path, and downloading it needs "
            "huggingface_hub: pip install huggingface_hub"
        ) from error
    cached = _cached_snapshot(repo, revision)
    found = _files_in(cached) if cached else []
    missing = _missing_files(found) if cached else ""
    # A commit never changes, but another library may have left files out.
    is_whole = not missing and any(map(_VOCABULARY.fullmatch, found))
    if "modules.json" in found:  # What they compute has files of its own.
        is_whole = is_whole and any(map(_MODULE.fullmatch, found))
    if cached and is_whole and _COMMIT.fullmatch(revision):
        return cached
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
        return f"the hub responded with an error ({first_line(error)})"
    if isinstance(error, errors.OfflineModeIsEnabled):
        return f"HF_HUB_OFFLINE is set; unset it and {CONNECT}"
    return f"the hub cannot be reached ({first_line(error)}); {CONNECT}"


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
