"""Checks of the vocabulary that an export carries."""

from __future__ import annotations

import hashlib
import os

from .exported import Exported
from .findings import Skipped, expect, expect_same


def assets(exported: Exported) -> str:
    """The vocabulary is there, readable, and the one of `export.json`."""
    tokenizer = _tokenizer(exported)
    is_wordpiece = tokenizer["file"].endswith(".txt")
    name = "vocab_file" if is_wordpiece else "sp_model_file"
    asset = getattr(exported.root, name, None)
    expect(asset is not None, f"the object has no {name}")
    path = asset.asset_path.numpy().decode()
    inside = os.path.realpath(exported.folder) + os.sep
    expect(
        os.path.realpath(path).startswith(inside),
        f"{name} is outside of the export: {path}",
    )
    expect(os.path.isfile(path), f"{name}: {os.path.basename(path)} is missing")
    with open(path, "rb") as file:
        content = file.read()
    digest = hashlib.sha256(content).hexdigest()
    expect_same(digest, tokenizer["fingerprint"], f"sha256 of {name}")
    return f"{name}, {len(content):,} bytes"


def do_lower_case(exported: Exported) -> str:
    """Whether text is lower-cased can be read."""
    wanted = _tokenizer(exported)["do_lower_case"]
    found = getattr(exported.root, "do_lower_case", None)
    expect(found is not None, "the object has no do_lower_case")
    expect_same(bool(found.numpy()), wanted, "do_lower_case")
    return str(wanted)


def _tokenizer(exported: Exported) -> dict:
    tokenizer = exported.manifest.get("tokenizer")
    if not tokenizer:
        raise Skipped("exported without a tokenizer")
    return tokenizer
