import shlex

import pytest


@pytest.fixture(scope="module")
def albert(folder, run_albert):
    """Returns `run(command)`: the output of `albert` in `folder`.

    Where `status` says that it fails, the output is that on stderr.
    """

    def run(command, status=0):
        result = run_albert(*shlex.split(command), cwd=folder)
        assert result.returncode == status, f"albert {command}\n{result.stderr}"
        return result.stderr if status else result.stdout

    return run
