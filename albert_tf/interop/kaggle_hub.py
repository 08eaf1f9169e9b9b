"""Downloads from Kaggle, through kagglehub and its cache."""

from __future__ import annotations

import logging
import os
import pathlib
import re
import socket
import urllib.parse

from albert_tf.errors import InputError
from albert_tf.interop.hub_problems import CONNECT, first_line

_logger = logging.getLogger(__name__)

# A part of a handle, or of the name of a repository.
NAME = r"\w(?:[\w.-]*\w)?"
HANDLE = re.compile(rf"{NAME}(?:/{NAME}){{3}}(?:/[1-9][0-9]*)?", re.ASCII)


def from_kaggle(name: str, handle: str, revision: str | None) -> str:
    """Returns the folder of a model in the cache, downloaded if necessary.

    `name` is what the user gave, for error messages. `handle` is
    "owner/model/framework/variation[/version]"; there are no revisions.
    """
    if not HANDLE.fullmatch(handle):
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
            f"{name} could not be downloaded: {first_line(error)}"
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
        return f"Kaggle responded with an error ({first_line(error)})"
    return f"Kaggle cannot be reached ({first_line(error)}); {CONNECT}"
