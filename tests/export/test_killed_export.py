"""`albert export` leaves a complete export or none when it is killed.

tests/test_folders.py kills the functions that it uses before each of their
changes of files.
"""

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
# folder itself.
MOMENTS = ("", "saved_model.pb", "export.json")


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

    # The next line is the status, or the negative signal.
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


def sha256_of_complete(folder):
    """Checks that an export is complete; returns the sha256 of its weights."""
    assert (folder / "README.md").stat().st_size > 1000
    loaded = tf.saved_model.load(folder)
    assert pathlib.Path(
        loaded.sp_model_file.asset_path.numpy().decode()
    ).exists()
    return json.loads((folder / "export.json").read_text())["weights_sha256"]


def test_a_killed_export_is_complete_or_absent(
    start, make_pretrained, tmp_path
):
    begin, end = start
    output = tmp_path / "e"
    sources = [make_pretrained(seed) for seed in (4, 5)]
    complete = []
    for source in sources:
        begin(source, tmp_path / source.name)
        assert end() == 0
        complete.append(sha256_of_complete(tmp_path / source.name))
    assert complete[0] != complete[1]
    # First into no folder, then into one with the export of source 0.
    for source, before in ((sources[0], None), (sources[1], complete[0])):
        if before:
            begin(sources[0], output)
            assert end() == 0
            assert temporaries(output) == []
        for moment in MOMENTS:
            process = begin(source, output)
            wait_for_file(output, moment, process)
            # It may have finished before.
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            status = end()
            if status == 0:
                assert (
                    sha256_of_complete(output)
                    == complete[sources.index(source)]
                )
                continue
            assert status == -signal.SIGKILL
            # A hidden folder is left, but not that of the previous command.
            assert len(temporaries(output)) <= 1
            if before is None:
                assert not output.exists() or (
                    sha256_of_complete(output) == complete[0]
                )
            else:
                assert sha256_of_complete(output) in complete
    begin(sources[1], output)
    assert end() == 0
    assert sha256_of_complete(output) == complete[1]
    assert temporaries(output) == []


def alive(process):
    stat = pathlib.Path(f"/proc/{process}/stat")
    return stat.exists() and stat.read_text().split()[2] != "Z"
