import collections
import itertools
import os
import sys

import numpy as np
import pytest

from albert_tf.cli.main import main
from albert_tf.data.data_config import TextConfig
from albert_tf.data.documents import read_corpus
from albert_tf.data.manifest import read_manifest
from albert_tf.data.text_files import find_text_files
from albert_tf.data.tfds import find_tfds_files
from albert_tf.errors import InputError

pytestmark = pytest.mark.peer

TEXTS = [
    f"Title {i}\n\nFirst sentence {i}. Ça va?\nAnother paragraph."
    for i in range(7)
]


@pytest.fixture(scope="module")
def data_sets(tmp_path_factory):
    """A folder with the data set `toy`, written by the library."""
    tfds = pytest.importorskip("tensorflow_datasets")
    folder = tmp_path_factory.mktemp("tfds")
    features = tfds.features.FeaturesDict(
        {
            "text": tfds.features.Text(),
            "body": tfds.features.Text(),
            "n": tfds.features.Scalar(dtype=np.int64),
        }
    )
    rows = [
        (i, {"text": text, "body": f"Body {i}.", "n": i})
        for i, text in enumerate(TEXTS)
    ]
    rows[4][1]["body"] = b"Not \xff one."
    for file_format in ("tfrecord", "array_record"):
        tfds.dataset_builders.store_as_tfds_dataset(
            name="toy",
            config=file_format,
            version="1.0.0",
            features=features,
            split_datasets={"train": rows, "more": rows[:3]},
            data_dir=folder,
            file_format=file_format,
            download_config=tfds.download.DownloadConfig(num_shards=3),
        )
    return folder


@pytest.fixture(autouse=True)
def data_dir(data_sets, monkeypatch):
    import tensorflow_datasets as tfds

    # The library reads TFDS_DATA_DIR when it is imported.
    monkeypatch.setattr(tfds.core.constants, "DATA_DIR", str(data_sets))


def documents_of(name, **settings):
    config = TextConfig(input=name, **settings)
    counts = collections.Counter()
    files = find_text_files(config.input)
    return list(read_corpus(files, config, counts)), counts


@pytest.mark.parametrize("file_format", ["tfrecord", "array_record"])
def test_examples_are_documents(file_format):
    name = f"tfds:toy/{file_format}"
    files = find_text_files(name)
    assert len(files) == 3
    documents, _ = documents_of(name)
    assert sorted(documents) == [
        [f"Title {i}", f"First sentence {i}.", "Ça va?", "Another paragraph."]
        for i in range(7)
    ]
    assert documents == documents_of(name)[0]
    # Files can also be named by a pattern.
    pattern = f"{files[0].parent}/toy-train*"
    assert documents_of(pattern)[0] == documents
    more, _ = documents_of(f"{name}#more")
    assert sorted(more) == sorted(documents)[:3]


def test_folder_of_data_sets(data_sets, monkeypatch, tmp_path):
    import tensorflow_datasets as tfds

    expected = find_text_files("tfds:toy/tfrecord")
    monkeypatch.setattr(tfds.core.constants, "DATA_DIR", str(tmp_path))
    assert find_text_files("tfds:toy/tfrecord", str(data_sets)) == expected
    with pytest.raises(InputError, match="name its folder with data_dir"):
        find_text_files("tfds:toy/tfrecord")
    with pytest.raises(InputError, match="data_dir='x' must be left out"):
        TextConfig(input="a.txt", data_dir="x")


def test_other_fields():
    documents, counts = documents_of(
        "tfds:toy/tfrecord", text_field="body", encoding_errors="replace"
    )
    found = set(itertools.chain(*documents))
    assert found == {
        "Not \ufffd one.",
        *(f"Body {i}." for i in (0, 1, 2, 3, 5, 6)),
    }
    assert counts["invalid_utf8"] == 1


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("toy/tfrecord#x", {}, "the split .x. has no examples"),
        ("nothing", {}, "could not be loaded.*not found.*with data_dir"),
        ("", {}, "could not be loaded"),
        (
            "toy/tfrecord",
            {"text_field": "m"},
            "no field .m. .*body.*choose another one",
        ),
        ("toy/tfrecord", {"text_field": "n"}, "'n' is not text, but Scalar"),
        ("toy/tfrecord", {"text_field": "body"}, "byte 5 is not UTF-8"),
    ],
)
def test_errors_are_one_line(name, settings, message):
    with pytest.raises(InputError, match=message) as error:
        documents_of(f"tfds:{name}", **settings)
    assert "\n" not in str(error.value)


def test_the_error_of_a_failed_download_is_one_line(
    data_sets, monkeypatch, tmp_path
):
    def fail(*arguments, **options):
        raise ConnectionError("no network")

    # The library would retry for minutes.
    monkeypatch.setattr("requests.Session.get", fail)
    with pytest.raises(
        InputError, match="could not be loaded.*no network.*with data_dir"
    ) as error:
        find_tfds_files("tfds:imdb_reviews", os.fspath(tmp_path))
    assert "\n" not in str(error.value)


def test_without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with pytest.raises(InputError, match="pip install tensorflow-datasets"):
        find_text_files("tfds:toy/tfrecord")


def test_damaged_files_are_named(data_sets, tmp_path):
    [path, *_] = find_text_files("tfds:toy/tfrecord")
    for file in path.parent.iterdir():
        content = file.read_bytes()
        if file.name == path.name:
            content = content[:-3] + b"???"
        (tmp_path / file.name).write_bytes(content)
    with pytest.raises(InputError, match=f"{path.name}: could not be read"):
        documents_of(str(tmp_path / path.name))


def test_a_mixture_with_other_files(data_sets, corpus, create):
    folder, manifest = create(
        input=f"toy=1:tfds:toy/tfrecord,other=1:{corpus}/a.txt",
        data_dir=os.fspath(data_sets),
        text_field="body",
        encoding_errors="replace",
        masking="dynamic",
        sentence_order="none",
    )
    assert [x["documents"] for x in manifest["corpora"]] == [7, 70]
    settings = read_manifest(folder / "other")["settings"]
    assert settings["text_field"] == "text"


def test_commands(data_sets, tmp_path, small_tokenizer, create):
    _, manifest = create(input="tfds:toy/tfrecord", num_shards=1)
    assert [x["name"] for x in manifest["inputs"]] == [
        f"toy-train.tfrecord-0000{i}-of-00003" for i in range(3)
    ]
    assert manifest["splits"]["train"]["counts"]["documents"] == 7
    command = [
        "train-vocab",
        "--input=tfds:toy/tfrecord",
        f"--data_dir={data_sets}",
        f"--output={tmp_path}/vocab",
        "--model_type=wordpiece",
        "--vocab_size=50",
    ]
    assert main(command) == 0
    assert (tmp_path / "vocab.txt").exists()
