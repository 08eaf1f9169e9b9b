"""Checkpoints from Kaggle Models, or from kagglehub's cache."""

from __future__ import annotations

import os
import pathlib
import re
import socket
import urllib.parse

from absl import logging

from albert_tf.errors import InputError
from albert_tf.interop.hubs.trouble import INSTALL, reason

_PART = r"\w(?:[\w.-]*\w)?"
KAGGLE_HANDLE = re.compile(
    rf"{_PART}(?:/{_PART}){{3}}(?:/[1-9][0-9]*)?", re.ASCII
)


def from_kaggle(name: str, handle: str, revision: str | None) -> str:
    """Returns the folder of a model in kagglehub's cache.

    Args:
      name: what the user gave, for messages.
      handle: "owner/model/framework/variation[/version]".
      revision: must be None; the version is in the handle.

    Raises:
      InputError: see `download.resolve`.
    """
    if not KAGGLE_HANDLE.fullmatch(handle):
        raise InputError(
            f"{name}: not of the form "
            "kaggle://owner/model/framework/variation[/version]"
        )
    if revision is not None:
        raise InputError(
            f"{name}: revision={revision!r} is for Hugging Face; a version on "
            "Kaggle is the fifth part of the handle"
        )
    try:
        import kagglehub
        import requests
        from kagglesdk import kaggle_env  # kagglehub's own, from 1.0 on
    except ImportError as error:
        raise InputError(
            f"{name}: downloading it needs kagglehub 1.0 or later: {INSTALL}"
        ) from error
    cached = _cached_model(handle)
    if cached and handle.count("/") == 4:
        return cached  # a version never changes
    try:
        _check_kaggle_answers(kaggle_env.get_endpoint(kaggle_env.get_env()))
        return kagglehub.model_download(handle)
    except (requests.RequestException, TimeoutError) as error:
        trouble = _kaggle_trouble(error)
        if cached:
            logging.warning("%s: using %s; %s", name, cached, trouble)
            return cached
        raise InputError(
            f"{name} is not in the cache of kagglehub, and {trouble}"
        ) from error
    except Exception as error:  # kagglehub's own have no common ancestor
        raise InputError(
            f"{name} could not be downloaded: {reason(error)}"
        ) from error


def _cached_model(handle: str) -> str | None:
    """Returns the folder of the newest complete version in the cache."""
    from kagglehub import cache
    from kagglehub.handle import parse_model_handle

    model = parse_model_handle(handle)
    if model.is_versioned():
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


def _check_kaggle_answers(url: str) -> None:
    """Raises TimeoutError where nothing answers at `url`.

    kagglehub asks without a timeout: behind a firewall that drops packets it
    would wait for minutes. Any other failure to connect is left to it, and so
    is everything where it takes another way: through a proxy, or inside of
    Kaggle's and Colab's notebooks.
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


def _kaggle_trouble(error: Exception) -> str:
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status in (401, 403):
        return (
            "Kaggle asks who you are: call kagglehub.login(), and accept the "
            "model's terms on its page"
        )
    if status == 404:
        return "Kaggle has no such model, variation or version"
    if status is not None:
        return f"Kaggle answers with an error ({reason(error)})"
    return (
        f"Kaggle cannot be reached ({reason(error)}); connect, or give a "
        "local folder"
    )
