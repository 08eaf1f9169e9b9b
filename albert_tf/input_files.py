"""Safe reading of input files, including all JSON files."""

from __future__ import annotations

import json
import os
import re
import stat
import urllib.parse
from typing import Any

from albert_tf.errors import InputError

# Far more than any config, weight index, vocabulary or graph needs.
MAX_BYTES = 64 << 20
_MAX_DEPTH = 64
# An unterminated string extends to the end, which avoids quadratic time.
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def check_regular(path: str | os.PathLike[str]) -> None:
    """Checks that a path is not a pipe, a device or a socket.

    Reading from these may never end.

    Raises:
      InputError: if the path exists and is neither a file nor a folder.
    """
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return  # Opening the file reports the error.
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise InputError(
            f"{os.fspath(path)}: a pipe, device or socket; give a regular file"
        )


def check_not_web_address(path: str | os.PathLike[str], instead: str) -> None:
    """Checks that a path is not a web address, which is not downloaded.

    Published code often refers to models by web addresses, many of them of
    tfhub.dev, which has moved.

    Args:
      path: the path to check.
      instead: what to give instead, for the error message.

    Raises:
      InputError: if the path is a web address.
    """
    address = urllib.parse.urlsplit(os.fspath(path))
    if address.scheme not in ("http", "https"):
        return
    problem = "web addresses are not downloaded"
    if (address.hostname or "").removeprefix("www.") == "tfhub.dev":
        problem = "tfhub.dev has moved to Kaggle"
    raise InputError(f"{os.fspath(path)}: {problem}; give {instead}")


def read_bytes(
    path: str | os.PathLike[str], source: str = "", limit: int = MAX_BYTES
) -> bytes:
    """Reads a whole file.

    Args:
      path: a local file.
      source: name of the file in error messages. Defaults to the path.
      limit: maximum size, in bytes.

    Raises:
      InputError: if the file cannot be read, is not regular, or is too large.
    """
    source = source or os.fspath(path)
    check_regular(path)
    try:
        with open(path, "rb") as file:
            content = file.read(limit + 1)
    except (OSError, ValueError) as error:  # ValueError: a null byte
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{source}: {reason}") from None
    if len(content) > limit:
        raise InputError(
            f"{source}: larger than {limit >> 20} MiB, the maximum for such a "
            "file; give another file"
        )
    return content


def parse_json(text: str | bytes, source: str) -> Any:
    """Parses JSON of bounded depth.

    Args:
      text: the JSON.
      source: name of the file in error messages.

    Raises:
      InputError: if the text is not JSON in UTF-8, is nested too deeply, or has
        a string with a lone surrogate.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8-sig")
        if _is_too_deep(text):
            raise InputError(
                f"{source}: nested deeper than {_MAX_DEPTH} levels"
            )
        values = json.loads(text)
        if _SURROGATE.search(text):
            json.dumps(values, ensure_ascii=False).encode()
    except InputError:
        raise
    except UnicodeEncodeError:
        raise InputError(
            f"{source}: a string has half of a surrogate pair; expected "
            "Unicode text"
        ) from None
    except ValueError as error:
        raise InputError(f"{source} is not JSON: {error}") from None
    return values


def parse_object(text: str | bytes, source: str) -> dict[str, Any]:
    """Parses a JSON object; see `parse_json`."""
    values = parse_json(text, source)
    if not isinstance(values, dict):
        raise InputError(f"{source}: expected a JSON object")
    return values


def read_json(path: str | os.PathLike[str], source: str = "") -> dict[str, Any]:
    """Reads a JSON object from a file.

    Args:
      path: a local file.
      source: name of the file in error messages. Defaults to the path.

    Raises:
      InputError: if the file cannot be read or parsed (see `read_bytes` and
        `parse_json`), or if it is not an object.
    """
    source = source or os.fspath(path)
    return parse_object(read_bytes(path, source), source)


def shown(value: Any) -> str:
    """Returns the `repr` of a value, shortened for an error message."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _is_too_deep(text: str) -> bool:
    if text.count("[") + text.count("{") <= _MAX_DEPTH:
        return False
    depth = 0
    for bracket in re.findall(r"[\[\]{}]", _STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        if depth > _MAX_DEPTH:
            return True
    return False
