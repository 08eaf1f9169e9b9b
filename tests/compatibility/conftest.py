import itertools
import json
import pathlib
import shlex
import subprocess
import sys

import pytest

SERVER = pathlib.Path(__file__).with_name("command_server.py")


@pytest.fixture(scope="module")
def albert(folder, tmp_path_factory):
    """Returns `run(command)`: the output of `albert` in `folder`.

    Where `status` says that it fails, the output is that on stderr.
    """
    logs = tmp_path_factory.mktemp("logs")
    numbers = itertools.count()
    with subprocess.Popen(
        [sys.executable, SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:

        def run(command, status=0):
            log = logs / str(next(numbers))
            request = [str(folder), str(log), *shlex.split(command)]
            print(json.dumps(request), file=server.stdin, flush=True)
            ended_with = int(server.stdout.readline())
            errors = log.with_suffix(".err").read_text()
            assert ended_with == status, f"albert {command}\n{errors}"
            return errors if status else log.with_suffix(".out").read_text()

        yield run
        server.stdin.close()
