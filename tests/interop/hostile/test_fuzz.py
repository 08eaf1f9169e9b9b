"""Checkpoints with mutated files, for a minute per format (`make fuzz`).

`ALBERT_TF_FUZZ_SECONDS` changes the time, `ALBERT_TF_FUZZ_SEED` the cases.
"""

import copy
import json
import os
import random
import tarfile
import time

import pytest

SECONDS = float(os.environ.get("ALBERT_TF_FUZZ_SECONDS", "60"))
SEED = os.environ.get("ALBERT_TF_FUZZ_SEED", "0")
# Format -> its files.
FORMS = {
    "huggingface": (
        "model.safetensors",
        "config.json",
        "spiece.model",
        "tokenizer_config.json",
    ),
    "torch": ("pytorch_model.bin", "config.json"),
    "keras_hub": (
        "model.weights.h5",
        "task.weights.h5",
        "config.json",
        "task.json",
        "metadata.json",
        "assets/tokenizer/vocabulary.spm",
    ),
    "google": (
        "model.ckpt-best.data-00000-of-00001",
        "model.ckpt-best.index",
        "albert_config.json",
        "30k-clean.model",
    ),
}
# Bytes to insert: sizes and numbers at the limits of formats.
PIECES = (
    *(b"\0" * 8, b"\xff" * 4, b"\xff" * 8, b"\x7f\xff\xff\xff", b"\x80" * 9),
    *(b"\xff\xff\xff\xff\xff\x7f", b"[" * 200, b'{"a":' * 90, b"\\ud800"),
)
VALUES = (
    *(None, True, False, 0, -1, 1, 2, 10**9, 10**30, 0.5, -0.0, 1e308, "", "x"),
    *(float("nan"), float("inf"), "\x00", "../x", "9" * 5000, [], {}, [[]]),
    *({"a": None}, ["a"], [1], {"0": "a"}, "False", "a" * 10**5),
)


def mutated(content, rng):
    """Makes up to four small changes to a file's bytes."""
    content = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(content) + 1)
        piece, size = rng.choice(PIECES), rng.randint(1, 64)
        kind = rng.choice(("flip", "write", "insert", "cut", "end", "repeat"))
        if kind == "flip" and at < len(content):
            content[at] ^= 1 << rng.randrange(8)
        elif kind == "write":
            content[at : at + len(piece)] = piece
        elif kind == "insert":
            content[at:at] = piece
        elif kind == "cut":
            del content[at : at + size]
        elif kind == "end":
            del content[at:]
        elif kind == "repeat":
            content[at:at] = content[at : at + size] * 50
    return bytes(content)


def places(values, path=()):
    """Yields the paths of all values in JSON."""
    items = enumerate(values) if isinstance(values, list) else values.items()
    for key, value in items:
        yield (*path, key)
        if isinstance(value, (list, dict)):
            yield from places(value, (*path, key))


def changed_json(content, rng):
    """Replaces or removes one or two values."""
    values = json.loads(content)
    for _ in range(rng.randint(1, 2)):
        *outer, key = rng.choice(list(places(values)))
        inner = values
        for step in outer:
            inner = inner[step]
        if rng.randrange(10):
            inner[key] = copy.deepcopy(rng.choice(VALUES))
        else:
            del inner[key]
    return json.dumps(values).encode()


def archived(folder, path):
    with tarfile.open(path, "w:gz") as archive:
        archive.add(folder, "model")
    return path


@pytest.mark.fuzz
@pytest.mark.parametrize("form", [*FORMS, "tar.gz"])
def test_fuzz(tmp_path, make, server, form):
    """Opens mutated files for `SECONDS`.

    Each one opens, or is an error of one line. If everything has a checksum, as
    in an archive, what opens is unchanged.
    """
    stored = make(form if form in FORMS else "huggingface", tmp_path / "model")
    files = [stored / name for name in FORMS.get(form, ())]
    if form == "tar.gz":
        files = [archived(stored, tmp_path / "model.tar.gz")]
        stored = files[0]
    wholes = {path: path.read_bytes() for path in files}
    expected = server.open(stored)
    assert expected[0] == "opened"

    rng = random.Random(SEED)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        path = rng.choice(files)
        if path.suffix == ".json" and rng.randrange(2):
            path.write_bytes(changed_json(wholes[path], rng))
        else:
            path.write_bytes(mutated(wholes[path], rng))
        kind, message = server.open(stored)
        # What fails stays there, to be looked at.
        assert kind in ("opened", "InputError"), (path, kind, message)
        assert "\n" not in message
        if kind == "opened" and form == "tar.gz":
            assert message == expected[1]
        path.write_bytes(wholes[path])
