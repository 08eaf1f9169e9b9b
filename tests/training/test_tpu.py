"""TPU runs up to the TPU itself, which is replaced by a recorder of calls."""

import os

import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.pretraining.config import PretrainConfig
from albert_tf.pretraining.train import pretrain
from albert_tf.training.distribution import check_tpu_run, make_strategy


class Calls(list):
    """The recorded calls, in order."""

    def record(self, name, result=None):
        def call(*arguments, **keywords):
            self.append((name, arguments, keywords))
            return result

        return call


@pytest.fixture
def calls(monkeypatch):
    """Records the TensorFlow calls that need a TPU instead of making them."""
    calls = Calls()
    for owner, name, result in (
        (tf.distribute.cluster_resolver, "TPUClusterResolver", "resolver"),
        (tf.config, "experimental_connect_to_cluster", None),
        (tf.tpu.experimental, "initialize_tpu_system", "topology"),
        (tf.distribute, "TPUStrategy", "strategy"),
    ):
        monkeypatch.setattr(owner, name, calls.record(name, result))
    return calls


def resolved(tpu, zone=None, project=None):
    keywords = {"tpu": tpu, "zone": zone, "project": project}
    return ("TPUClusterResolver", (), keywords)


CONNECTED = ("experimental_connect_to_cluster", ("resolver",), {})
INITIALIZED = ("initialize_tpu_system", ("resolver",), {})
STRATEGY = ("TPUStrategy", ("resolver",), {})


def test_local_tpu_needs_no_connection(calls):
    assert make_strategy(tpu="local") == "strategy"
    assert calls == [resolved("local"), INITIALIZED, STRATEGY]


@pytest.mark.parametrize("distribution", ["auto", "tpu"])
@pytest.mark.parametrize("tpu", ["my-tpu", "grpc://10.0.0.2:8470"])
def test_remote_tpu_is_connected_to_first(calls, distribution, tpu):
    strategy = make_strategy(
        distribution, tpu=tpu, tpu_zone="us-1", gcp_project="p"
    )
    assert strategy == "strategy"
    assert calls == [
        resolved(tpu, "us-1", "p"),
        CONNECTED,
        INITIALIZED,
        STRATEGY,
    ]


@pytest.mark.parametrize(
    "failing",
    [
        "TPUClusterResolver",
        "experimental_connect_to_cluster",
        "initialize_tpu_system",
    ],
)
@pytest.mark.parametrize(
    "error",
    [
        ValueError("no such TPU\nand more"),
        ImportError("no such TPU: googleapiclient must be installed"),
        tf.errors.UnavailableError(None, None, "no such TPU"),
        OSError("no such TPU"),
    ],
)
def test_failed_connection_is_a_one_line_error(
    calls, monkeypatch, failing, error
):
    def fail(*arguments, **keywords):
        raise error

    for owner in (
        tf.distribute.cluster_resolver,
        tf.config,
        tf.tpu.experimental,
    ):
        if hasattr(owner, failing):
            monkeypatch.setattr(owner, failing, fail)
    with pytest.raises(InputError, match="tpu='x' cannot be .*no such") as info:
        make_strategy(tpu="x")
    assert "\n" not in str(info.value)
    assert STRATEGY not in calls


GOOD = {"input": "gs://bucket/data,gs://bucket/more/*", "output": "gs://b/run"}


@pytest.mark.parametrize("tpu", ["my-tpu", "grpc://10.0.0.2:8470"])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input": "gs://bucket/data, data/*"}, r"input='data/\*' is a local"),
        ({"input": ["/data"]}, "input='/data' is a local path"),
        ({"output": "runs/1"}, "output='runs/1' is a local path.*gs://"),
        ({"output": "file:///runs/1"}, "output='file:///runs/1' is a local"),
    ],
)
def test_remote_tpu_needs_paths_in_buckets(tpu, changes, message):
    check_tpu_run(tpu, GOOD)
    with pytest.raises(InputError, match=message) as error:
        check_tpu_run(tpu, GOOD | changes)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("tpu", [None, "local"])
def test_local_tpu_may_use_local_paths(tpu, tmp_path):
    check_tpu_run(tpu, {"input": "data/*", "output": tmp_path})


def test_settings_that_tpus_do_not_support_are_errors():
    with pytest.raises(InputError, match="use mixed_bfloat16"):
        check_tpu_run("local", {}, precision="mixed_float16")
    with pytest.raises(InputError, match="jit_compile=True with tpu='local'"):
        check_tpu_run("local", {}, jit_compile=True)


def config_with(**settings):
    return PretrainConfig(
        model=AlbertConfig.from_official("albert_mini"),
        num_train_steps=1,
        num_warmup_steps=0,
        **settings,
    )


def test_pretraining_connects_before_it_reads_or_writes(calls, monkeypatch):
    def fail(*arguments, **keywords):
        raise ValueError("stop here")

    monkeypatch.setattr(tf.tpu.experimental, "initialize_tpu_system", fail)
    config = config_with(
        input="gs://bucket/data",
        output="gs://bucket/run",
        tpu="my-tpu",
        tpu_zone="us-1",
        gcp_project="p",
    )
    with pytest.raises(InputError, match=r"cannot be reached \(stop here\)"):
        pretrain(config)
    assert calls == [resolved("my-tpu", "us-1", "p"), CONNECTED]


def test_pretraining_checks_paths_before_it_connects(calls, tmp_path):
    config = config_with(
        input="gs://bucket/data", output=tmp_path / "run", tpu="my-tpu"
    )
    with pytest.raises(InputError, match="output='.*' is a local path"):
        pretrain(config)
    assert not calls
    assert not os.listdir(tmp_path)
