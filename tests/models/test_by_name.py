"""`from_pretrained` by name, from the caches of the hubs' own libraries.

In a process of its own, since those libraries read their settings when they are
imported, with a closed port where the hubs would be.
"""

import json
import os
import pathlib
import shutil

import pytest

_STORED = pathlib.Path(__file__).parents[1] / "interop" / "data" / "stored"
_COMMIT = "0123456789abcdef0123456789abcdef01234567"
_CLOSED = "http://127.0.0.1:9"
_SCRIPT = """
import json, sys
import albert_tf
answers = []
for model, name in json.loads(sys.argv[1]):
    try:
        loaded = getattr(albert_tf, model).from_pretrained(name)
        answers.append(loaded.load_report)
    except albert_tf.InputError as error:
        answers.append("InputError: " + str(error))
print(json.dumps(answers))
"""


def _cached_snapshot(home, repo, source):
    """Creates a snapshot in huggingface_hub's layout."""
    folder = home / "hub" / f"models--{repo.replace('/', '--')}"
    snapshot = folder / "snapshots" / _COMMIT
    for name in (folder / "blobs", folder / "refs", snapshot):
        name.mkdir(parents=True)
    (folder / "refs" / "main").write_text(_COMMIT)
    for number, file in enumerate(sorted(source.iterdir())):
        blob = folder / "blobs" / f"{number:040x}"
        shutil.copy(file, blob)
        (snapshot / file.name).symlink_to(os.path.relpath(blob, snapshot))


def _cached_version(home, handle, source):
    """Creates a version in kagglehub's layout."""
    folder = home / "models" / handle
    shutil.copytree(source, folder / "2")
    (folder / "2.complete").touch()


@pytest.mark.long
def test_caches_are_used_without_a_network(run_albert, tmp_path):
    pytest.importorskip("huggingface_hub")
    pytest.importorskip("kagglehub")
    handle = "keras/albert/keras/albert_base_en_uncased"
    _cached_snapshot(
        tmp_path / "hf", "albert/albert-base-v2", _STORED / "huggingface"
    )
    _cached_version(
        tmp_path / "kaggle", handle, _STORED / "keras_hub_classifier"
    )
    asked = [
        ("AlbertPretrainer", "albert/albert-base-v2"),
        ("AlbertEncoder", "albert-base-v2"),
        ("AlbertClassifier", f"kaggle://{handle}"),
        ("AlbertEncoder", "albert/albert-large-v2"),
    ]
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.upper().startswith(("HF_", "HUGGING", "KAGGLE"))
        and not key.lower().endswith("_proxy")
    }
    process = run_albert(
        "-c",
        _SCRIPT,
        json.dumps(asked),
        env=kept
        | {
            "HOME": str(tmp_path),
            "HF_HOME": str(tmp_path / "hf"),
            "HF_ENDPOINT": _CLOSED,
            "KAGGLEHUB_CACHE": str(tmp_path / "kaggle"),
            "KAGGLE_API_ENVIRONMENT": "LOCALHOST",
            "HTTP_PROXY": _CLOSED,
        },
    )
    assert process.returncode == 0, process.stderr
    whole, old_name, kaggle, absent = json.loads(
        process.stdout.splitlines()[-1]
    )
    assert "components: encoder, pooler, mlm_head, sop_head" in whole
    assert _COMMIT in whole
    assert "(unused by this model): mlm_head, sop_head" in old_name
    assert "(KerasHub)" in kaggle
    assert "classifier_head" in kaggle
    assert absent.startswith("InputError: albert/albert-large-v2 at rev")
    assert "\n" not in absent
