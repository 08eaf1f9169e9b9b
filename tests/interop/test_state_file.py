"""The state of a run outside of TensorFlow."""

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.interop.state_file import read_state, write_state

SETTINGS = {"seed": 1, "model": {"layers": (1, 2)}}


def test_a_state_is_read_back(tmp_path):
    path = tmp_path / "state.npz"
    assert read_state(path, SETTINGS) is None
    arrays = [np.arange(3, dtype=np.float32), np.int32(7)]
    write_state(path, arrays, SETTINGS, 1.5)
    found, seconds = read_state(path, SETTINGS)
    assert seconds == 1.5
    for a, b in zip(found, arrays, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    assert [x.name for x in tmp_path.iterdir()] == ["state.npz"]


def test_other_settings_are_named(tmp_path):
    path = tmp_path / "state.npz"
    write_state(path, [], SETTINGS, 0.0)
    for name, value in (("seed", 2), ("model", {}), ("new", 1)):
        with pytest.raises(InputError, match=f"the run had another {name};"):
            read_state(path, {**SETTINGS, name: value})


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"[1, 2]"])
def test_other_files_are_errors(tmp_path, content):
    path = tmp_path / "state.npz"
    path.write_bytes(content)
    with pytest.raises(InputError, match="not the state of a run"):
        read_state(path, SETTINGS)
    np.savez(path, np.zeros(2))
    with pytest.raises(InputError, match="not the state of a run"):
        read_state(path, SETTINGS)
