"""The pipeline of Apache Beam creates the same data as local processes."""

import os
import signal
import sys

import pytest
import tensorflow as tf

from albert_tf.cli.main import main
from albert_tf.data import beam_pipeline, create_data
from albert_tf.data.data_config import PretrainingDataConfig
from albert_tf.data.shards import Limits
from albert_tf.errors import InputError
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
DASK = "apache_beam.runners.dask.dask_runner.DaskRunner"


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


@pytest.fixture(scope="module")
def dask():
    """A client of a cluster of two worker processes."""
    distributed = pytest.importorskip("distributed", reason="make test-beam")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def dask_flags(dask):
    address = dask.scheduler.address
    return [
        f"--runner={DASK}",
        f"--dask_client_address={address}",
        "--dask_partition_size=1",
    ]


def killer(when, once):
    """Returns a plugin that kills the first worker to get there.

    Args:
      when: "results": when it holds the results of five tasks; "file": between
        the copy of a file and its renaming.
      once: folder to create, which a second worker finds.
    """
    import distributed

    # Pickled by value, as workers cannot import tests.
    class Killer(distributed.WorkerPlugin):
        name = "killer"

        def setup(self, worker):
            self.results = 0
            if when == "file":
                tf.io.gfile.rename = (
                    lambda *_, rename=tf.io.gfile.rename, **__: (
                        self.kill() or rename(*_, **__)
                    )
                )

        def transition(self, key, start, finish, **_):
            self.results += finish == "memory"
            if when == "results" and self.results == 5:
                self.kill()

        def kill(self):
            if not os.path.exists(once):
                os.mkdir(once)
                os.kill(os.getpid(), signal.SIGKILL)

    return Killer()


@pytest.mark.beam
@pytest.mark.parametrize("when", ["never", "results", "file"])
def test_a_worker_of_dask_is_killed(make, dask, dask_flags, tmp_path, when):
    local = create_data._create(make("local"), SMALL)
    dask.register_plugin(killer(when, str(tmp_path / "killed")))
    try:
        clusters = make("cluster")
        assert beam_pipeline._create(clusters, SMALL, dask_flags) == local
    finally:
        dask.unregister_worker_plugin("killer")
    assert (tmp_path / "killed").exists() == (when != "never")
    assert contents(clusters.output) == contents(make("local").output)


@pytest.mark.beam
def test_errors_of_dask(make, dask_flags, tmp_path):
    (tmp_path / "bad.txt").write_bytes(b"Ba ro.\n\xff\n")
    config = make("bad", input=f"{tmp_path}/bad.txt")
    with pytest.raises(InputError, match="bad.txt:2: byte 1 is not UTF-8"):
        beam_pipeline._create(config, SMALL, dask_flags)
    assert contents(config.output) == {}


@pytest.mark.beam
@pytest.mark.parametrize(
    "flags",
    [
        "--direct_running_mode=multi_processing --direct_num_workers=2",
        "--job_endpoint=embed --environment_type=LOOPBACK",
    ],
)
def test_processes_of_the_portability_framework(make, flags):
    local = create_data._create(make("local"), SMALL)
    runner = "Direct" if "direct" in flags else "Portable"
    beams = make("beam")
    flags = [f"--runner={runner}Runner", *flags.split()]
    assert beam_pipeline._create(beams, SMALL, flags) == local
    assert contents(beams.output) == contents(make("local").output)


@pytest.mark.beam
def test_an_unknown_runner_writes_nothing(make):
    config = make("data")
    with pytest.raises(InputError, match="--runner=DuskRunner: Unexpected"):
        beam_pipeline.create_with_beam(config, "DuskRunner")
    assert not os.path.exists(config.output)


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
def test_a_remote_mixture(make, corpus):
    patterns = f"wiki=3:{corpus}/a.txt,books=1:{corpus}/b.txt.gz"
    local = make("local", input=patterns)
    expected = create_data.create_pretraining_data(local)
    folder = "ram://b/mixture"
    config = make(folder, input=patterns, overwrite=True)
    assert beam_pipeline.create_with_beam(config, "DirectRunner") == expected
    for name in ("wiki", "books"):
        found = contents(f"{folder}/{name}")
        assert found == contents(local.output / name)
    with pytest.raises(InputError, match="does not replace data"):
        beam_pipeline.create_with_beam(config, "DirectRunner")
    # As if it had been killed while it made the second one.
    tf.io.gfile.remove(f"{folder}/manifest.json")
    tf.io.gfile.rmtree(f"{folder}/books")
    assert beam_pipeline.create_with_beam(config, "DirectRunner") == expected
    assert contents(f"{folder}/books") == contents(local.output / "books")


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
