import json

import pytest

from albert_tf.data.manifest import read_manifest
from albert_tf.errors import InputError


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not a manifest of pretraining data"),
        ("[]", "not a manifest of pretraining data"),
        ('{"format": "other"}', "not a manifest of pretraining data"),
        (
            '{"format": "albert_tf pretraining data", "version": 99}',
            "of version 99, but version 1 is read here",
        ),
    ],
)
def test_other_files_are_refused(tmp_path, content, message):
    (tmp_path / "manifest.json").write_text(content, "utf-8")
    with pytest.raises(InputError, match=message):
        read_manifest(tmp_path)


def test_it_is_plain_json(create):
    folder, manifest = create()
    text = (folder / "manifest.json").read_text("utf-8")
    assert json.loads(text) == manifest == read_manifest(str(folder))
