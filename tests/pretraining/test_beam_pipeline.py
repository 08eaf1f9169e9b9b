"""The pipeline of Apache Beam creates the same data as local processes."""

import sys

import pytest
import tensorflow as tf

from albert_tf.cli.main import main
from albert_tf.errors import InputError
from albert_tf.pretraining import beam_pipeline, create_data
from albert_tf.pretraining.data_config import PretrainingDataConfig
from albert_tf.pretraining.shards import Limits
from albert_tf.text.tokenizer_files import tokenizer_files

# Several file groups, blocks, tasks and files of each shard.
SMALL = Limits(
    group_bytes=8000,
    min_block_bytes=4000,
    max_block_bytes=4000,
    pass_bytes=3000,
    shard_bytes=10_000,
)
FLAGS = ["--runner=DirectRunner"]


def contents(folder):
    folder = str(folder)
    found = {}
    for name in tf.io.gfile.listdir(folder):
        with tf.io.gfile.GFile(f"{folder}/{name}", "rb") as file:
            found[name] = file.read()
    return found


@pytest.fixture
def make(corpus, small_tokenizer, tmp_path):
    """Returns `make(output, **settings) -> config`."""

    def config(output, **settings):
        return PretrainingDataConfig(
            **{
                "input": f"{corpus}/*",
                "output": output if "://" in output else tmp_path / output,
                "tokenizer": small_tokenizer,
                "max_seq_length": 64,
                "max_predictions_per_seq": 10,
                "heldout_fraction": 0.2,
            }
            | settings
        )

    return config


@pytest.mark.beam
@pytest.mark.parametrize("order", ["sop", "nsp", "none"])
@pytest.mark.parametrize("masking", ["dynamic", "static"])
def test_bytes_equal_those_of_local_processes(make, order, masking):
    settings = {"sentence_order": order, "masking": masking}
    if masking == "static":
        settings |= {"dupe_factor": 2, "compress": True}
    local = create_data._create(make("local", **settings), SMALL)
    beams = make("beam", **settings)
    assert beam_pipeline._create(beams, SMALL, FLAGS) == local
    found = contents(beams.output)
    assert found == contents(make("local").output)
    # There are several files per shard, and blocks of several groups.
    assert sum(name.startswith("pretraining") for name in found) > 8
    assert sum(name.startswith("heldout") for name in found) > 0
    with pytest.raises(InputError, match="exists and is not empty"):
        beam_pipeline._create(beams, SMALL, FLAGS)


@pytest.mark.beam
def test_remote_input_and_output(make, corpus):
    for path in corpus.iterdir():
        tf.io.gfile.makedirs("ram://b/text")
        tf.io.gfile.copy(str(path), f"ram://b/text/{path.name}")
    config = make("ram://b/data", input="ram://b/text/*")
    manifest = beam_pipeline.create_with_beam(config, "DirectRunner")
    local = create_data.create_pretraining_data(make("local"))
    assert manifest["splits"] == local["splits"]
    names = [file["name"] for file in manifest["inputs"]]
    assert names[0] == "ram://b/text/a.txt"
    remote_files = contents("ram://b/data")
    local_files = contents(make("local").output)
    assert remote_files.pop("manifest.json") != local_files.pop("manifest.json")
    assert remote_files == local_files


@pytest.mark.beam
def test_the_command(make, corpus, small_tokenizer, tmp_path, capsys):
    for name, content in tokenizer_files(small_tokenizer).items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "bad.txt").write_bytes(b"Ba ro.\n\xff\n")
    command = [
        "create-data",
        f"--spm_model_file={tmp_path}/spiece.model",
        "--runner=DirectRunner",
    ]
    flags = [f"--input={corpus}/a.txt", f"--output={tmp_path}/data"]
    options = ["--beam_options=--direct_num_workers=1"]
    assert main(command + flags + options) == 0
    assert (tmp_path / "data" / "manifest.json").exists()
    capsys.readouterr()
    flags = [f"--input={tmp_path}/bad.txt", f"--output={tmp_path}/bad"]
    assert main(command + flags) == 2
    assert "bad.txt:2: byte 1 is not UTF-8" in capsys.readouterr().err
    assert not list((tmp_path / "bad").iterdir())


@pytest.mark.parametrize(
    ("runner", "options", "message"),
    [
        (
            "DirectRunner",
            "--a='",
            'beam_options="--a=\'": No closing quotation',
        ),
        ("DirectRunner", "", "need apache_beam, which cannot be imported"),
    ],
)
def test_invalid_options(make, monkeypatch, runner, options, message):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    with pytest.raises(InputError, match=message):
        beam_pipeline.create_with_beam(make("data"), runner, options)
