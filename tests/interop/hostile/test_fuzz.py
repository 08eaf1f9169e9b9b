"""Checkpoints with mutated files, for a minute per format (`make fuzz`).

`ALBERT_TF_FUZZ_SECONDS` changes the time, `ALBERT_TF_FUZZ_SEED` the cases.
"""

import copy
import json
import os
import tarfile
import time

import pytest

hypothesis = pytest.importorskip("hypothesis")
st = hypothesis.strategies

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


def mutations(size):
    """Returns a strategy of small changes to a file's bytes."""
    position = st.integers(0, max(0, size - 1))
    return st.lists(
        st.one_of(
            st.tuples(st.just("flip"), position, st.integers(0, 7)),
            st.tuples(st.just("write"), position, st.sampled_from(PIECES)),
            st.tuples(st.just("insert"), position, st.sampled_from(PIECES)),
            st.tuples(st.just("cut"), position, st.integers(1, 64)),
            st.tuples(st.just("end"), position, st.just(0)),
            st.tuples(st.just("repeat"), position, st.integers(1, 64)),
        ),
        min_size=1,
        max_size=4,
    )


def mutated(content, changes):
    content = bytearray(content)
    for kind, position, value in changes:
        if kind == "flip" and position < len(content):
            content[position] ^= 1 << value
        elif kind == "write":
            content[position : position + len(value)] = value
        elif kind == "insert":
            content[position:position] = value
        elif kind == "cut":
            del content[position : position + value]
        elif kind == "end":
            del content[position:]
        elif kind == "repeat":
            content[position:position] = (
                content[position : position + value] * 50
            )
    return bytes(content)


def places(values, path=()):
    """Yields the paths of all values in JSON."""
    items = enumerate(values) if isinstance(values, list) else values.items()
    for key, value in items:
        yield (*path, key)
        if isinstance(value, (list, dict)):
            yield from places(value, (*path, key))


def changed_json(content, data):
    """Replaces or removes one or two values."""
    values = json.loads(content)
    for _ in range(data.draw(st.integers(1, 2))):
        known = sorted(places(values), key=repr)
        *outer, key = data.draw(st.sampled_from(known))
        inner = values
        for step in outer:
            inner = inner[step]
        if data.draw(st.integers(0, 9)):
            inner[key] = copy.deepcopy(data.draw(st.sampled_from(VALUES)))
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

    @hypothesis.settings(
        max_examples=200,
        deadline=None,
        database=None,
        phases=[hypothesis.Phase.generate],  # To shrink takes minutes.
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(data=st.data())
    def open_mutated(data):
        path = data.draw(st.sampled_from(files))
        content = wholes[path]
        if path.suffix == ".json" and data.draw(st.booleans()):
            content = changed_json(content, data)
        else:
            content = mutated(content, data.draw(mutations(len(content))))
        path.write_bytes(content)
        try:
            kind, message = server.open(stored)
        finally:
            path.write_bytes(wholes[path])
        assert kind in ("opened", "InputError"), (path.name, kind, message)
        assert "\n" not in message
        if kind == "opened" and form == "tar.gz":
            assert message == expected[1]

    end = time.monotonic() + SECONDS
    round = 0
    while time.monotonic() < end:
        hypothesis.seed(f"{SEED} {round}")(open_mutated)()
        round += 1
