"""The commands of docs/multi_worker.md, and the clusters of its scripts."""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

import pytest
import yaml

from albert_tf.cli.commands import command_flags
from albert_tf.training.checkpoint_files import list_checkpoints

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PAGE = (REPOSITORY / "docs" / "multi_worker.md").read_text("utf-8")
# Prints the worker's cluster and flags.
ALBERT = """\
#!/bin/bash
echo "[$TF_CONFIG, \\"$*\\"]"
"""


def block(name):
    (text,) = re.findall(rf"<!-- {name} -->\n```\w+\n(.*?)```", PAGE, re.DOTALL)
    return text


@pytest.fixture
def commands(records, tmp_path):
    """The commands of two processes, for `records` and with free ports."""
    (tmp_path / "data").symlink_to(records)
    text = block("run").replace("vocab_size=2000", "vocab_size=600")
    with contextlib.ExitStack() as stack:
        for port in ("12345", "12346"):
            free = stack.enter_context(socket.socket())
            free.bind(("localhost", 0))
            text = text.replace(port, str(free.getsockname()[1]))
    return text


@pytest.fixture
def start(tmp_path):
    """Returns `start(commands)`: a process group of its own."""
    started = []

    def start(commands):
        programs = pathlib.Path(sys.executable).parent
        process = subprocess.Popen(
            ["bash", "-e", "-c", commands],
            cwd=tmp_path,
            env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
            start_new_session=True,
            stdout=subprocess.DEVNULL,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def logs(folder):
    return [path.read_text("utf-8") for path in folder.glob("worker-*.log")]


@pytest.mark.long
def test_two_processes_train_together(commands, start, tmp_path):
    assert start(commands).wait() == 0, logs(tmp_path)
    assert len(logs(tmp_path)) == 2
    assert max(list_checkpoints(tmp_path / "together" / "checkpoints")) == 20


@pytest.mark.slow
@pytest.mark.parametrize("index", [0, 1])
def test_workers_in_loops_resume_after_a_kill(commands, start, tmp_path, index):
    steps = 600
    commands = commands.replace(
        "num_train_steps=20", f"num_train_steps={steps}"
    )
    commands = commands.replace("albert pretrain", "until albert pretrain")
    commands = commands.replace(
        "2>worker-$index.log &",
        "--save_checkpoints_steps=50 2>>worker-$index.log; do sleep 1; done &",
    )
    process = start(commands)
    checkpoints = tmp_path / "together" / "checkpoints"
    deadline = time.monotonic() + 600
    while not list_checkpoints(checkpoints):
        assert time.monotonic() < deadline, logs(tmp_path)
        time.sleep(0.1)
    (killed,) = subprocess.run(
        ["pgrep", "-g", f"{process.pid}", "-f", "bin/albert pretrain"],
        stdout=subprocess.PIPE,
        text=True,
    ).stdout.split()[index : index + 1]
    os.kill(int(killed), signal.SIGKILL)
    assert process.wait(600) == 0, logs(tmp_path)
    assert max(list_checkpoints(checkpoints)) == steps


@pytest.fixture
def workers(tmp_path):
    """Returns `run(script, **environment)`: clusters, tasks and flags."""
    programs = {
        "albert": ALBERT,
        "scontrol": "#!/bin/bash\nprintf 'node7\\nnode9\\n'\n",
        "srun": "#!/bin/bash\nshift\n"
        'for i in 0 1; do SLURM_PROCID=$i "$@"; done\n',
    }
    for name, program in programs.items():
        (tmp_path / name).write_text(program)
        (tmp_path / name).chmod(0o755)

    def run(script, **environment):
        printed = subprocess.run(
            ["bash", "-e", "-c", script],
            env={"PATH": f"{tmp_path}:{os.environ['PATH']}", **environment},
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        ).stdout
        found = printed.replace("\n]", "]").replace("\n    ", " ")
        for line in found.splitlines():
            config, arguments = json.loads(line)
            command, *flags = arguments.split()
            known = command_flags(command).settings
            for flag in flags:
                assert flag.removeprefix("--").partition("=")[0] in known, flag
            yield config["cluster"], config["task"]

    return run


def test_kubernetes(workers):
    service, job = yaml.safe_load_all(block("kubernetes"))
    name = job["metadata"]["name"]
    spec = job["spec"]
    assert spec["completionMode"] == "Indexed"
    assert spec["completions"] == spec["parallelism"] == 2
    pod = spec["template"]["spec"]
    assert pod["subdomain"] == service["metadata"]["name"]
    assert service["spec"]["selector"] == {"job-name": name}
    (container,) = pod["containers"]
    port = container["ports"][0]["containerPort"]
    for index in range(2):
        ((cluster, task),) = workers(
            container["args"][0], JOB_COMPLETION_INDEX=f"{index}"
        )
        assert cluster == {
            "worker": [
                f"{name}-{i}.{pod['subdomain']}:{port}" for i in range(2)
            ]
        }
        assert task == {"type": "worker", "index": index}


def test_slurm(workers):
    found = list(workers(block("slurm"), SLURM_JOB_NODELIST="node[7,9]"))
    cluster = {"worker": ["node7:12345", "node9:12345"]}
    assert found == [
        (cluster, {"type": "worker", "index": index}) for index in range(2)
    ]
