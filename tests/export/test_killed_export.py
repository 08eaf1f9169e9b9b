"""`albert export`, killed at any moment, leaves a whole export or none."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
import tensorflow as tf

pytestmark = pytest.mark.long

SERVER = pathlib.Path(__file__).parents[1] / "pretraining/killable.py"
PATIENCE = 300
# A command is killed when this file is in its temporary folder; "" is the
# folder itself, None a while before that.
MOMENTS = (None, "", "assets", "variables", "saved_model.pb", "export.json")


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Returns `start(source, output)`: the process of an export."""
    server = subprocess.Popen(
        [sys.executable, str(SERVER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    log = tmp_path_factory.mktemp("log") / "log"

    def start(source, output):
        arguments = [f"--model={source}", f"--output={output}", "--overwrite"]
        request = [1, str(log), "export", *arguments]
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        return int(server.stdout.readline())

    # The next line is the status, or minus the signal.
    yield start, lambda: int(server.stdout.readline())
    server.stdin.close()
    server.wait(timeout=PATIENCE)


def temporaries(output):
    return list(output.parent.glob(f".{output.name}.*"))


def wait_for_file(output, name, process):
    """Waits until an unfinished export has a file, or its process ended."""
    deadline = time.monotonic() + PATIENCE
    while alive(process):
        if any((folder / name).exists() for folder in temporaries(output)):
            return
        assert time.monotonic() < deadline
        time.sleep(0.0002)


def sha256_of_whole(folder):
    """Loads an export, and returns the sha256 of its weights."""
    assert (folder / "README.md").stat().st_size > 1000
    loaded = tf.saved_model.load(folder)
    assert pathlib.Path(
        loaded.sp_model_file.asset_path.numpy().decode()
    ).exists()
    return json.loads((folder / "export.json").read_text())["weights_sha256"]


def test_nothing_or_all_and_the_old_or_the_new(
    start, make_pretrained, tmp_path
):
    begin, end = start
    output = tmp_path / "e"
    sources = [make_pretrained(seed, num_hidden_layers=1) for seed in (4, 5)]
    whole = []
    for source in sources:
        begin(source, tmp_path / source.name)
        assert end() == 0
        whole.append(sha256_of_whole(tmp_path / source.name))
    assert whole[0] != whole[1]
    # The first ones find nothing there; the others the export of source 0.
    for source, before in ((sources[0], None), (sources[1], whole[0])):
        if before:
            begin(sources[0], output)
            assert end() == 0
            assert temporaries(output) == []
        for moment in MOMENTS:
            process = begin(source, output)
            if moment is None:
                time.sleep(0.5)
            else:
                wait_for_file(output, moment, process)
            # It may have come to its end before.
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            status = end()
            if status == 0:
                assert sha256_of_whole(output) == whole[sources.index(source)]
                continue
            assert status == -signal.SIGKILL
            # What is left is hidden, and of this one only: the one before was
            # removed when this one began to write.
            assert len(temporaries(output)) <= 1
            if before is None:
                assert not output.exists() or (
                    sha256_of_whole(output) == whole[0]
                )
            else:
                assert sha256_of_whole(output) in whole
    begin(sources[1], output)
    assert end() == 0
    assert sha256_of_whole(output) == whole[1]
    assert temporaries(output) == []


def alive(process):
    stat = pathlib.Path(f"/proc/{process}/stat")
    return stat.exists() and stat.read_text().split()[2] != "Z"
