"""Fixtures of processes: commands, scripts, kills, workers, JavaScript."""

import contextlib
import functools
import io
import itertools
import json
import os
import pathlib
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

import command_server
import pytest

_REPOSITORY = pathlib.Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def forked():
    """Returns `forked(imports, **environment)`: the path of a command.

    It is an `albert` that also takes Python, as `python` does: `-c CODE` or
    FILE.py. Its processes are forked from one that has executed `imports`.
    """
    program = command_server.__file__

    @contextlib.contextmanager
    def serving(imports, environment):
        # Not pytest's folder: the path of a socket has at most 107 bytes.
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/socket"
            command = pathlib.Path(folder, "albert")
            command_server.write_command(command, path)
            process = subprocess.Popen(
                [sys.executable, program, "serve", path, imports],
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            assert process.stdout.readline() == "ready\n"
            yield command
            os.killpg(process.pid, signal.SIGTERM)
            process.communicate()

    with contextlib.ExitStack() as stack:
        yield functools.cache(
            lambda imports, **environment: stack.enter_context(
                serving(imports, environment)
            )
        )


# As `albert` does it: with oneDNN, and without chatter. The programs that check
# exports begin with TensorFlow alone.
_ALBERT = """
from albert_tf.quiet_import import import_tensorflow
import_tensorflow()
import tensorflow_text
serve_python()
import importlib
from albert_tf.cli.main import COMMANDS
for command in COMMANDS:
    importlib.import_module(f"albert_tf.cli.{command.replace('-', '_')}")
"""


@pytest.fixture(scope="session")
def albert_command(forked):
    """The path of an `albert` that does not import TensorFlow anew."""
    return forked(_ALBERT)


# The command, on a number of virtual devices in place of accelerators.
_ON_DEVICES = """
import sys
import tensorflow as tf
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * int(sys.argv.pop(1)),
)
from albert_tf.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="session")
def begin_albert(albert_command):
    """Returns `begin(*arguments, log=)`: a command to be killed.

    Its `process` is the id; `end()` waits, and returns the exit status or minus
    the signal. `devices` is its number of virtual devices, and `before` is
    Python that it executes first.
    """
    server = f"{albert_command.parent}/socket"

    def begin(*arguments, log, devices=1, before=""):
        code = before + _ON_DEVICES
        program = ["-c", code, f"{devices}", *map(str, arguments)]
        with open(os.devnull) as nothing, open(log, "w") as file:
            streams = [nothing.fileno(), *[file.fileno()] * 2]
            return command_server.Started(server, program, streams)

    return begin


@pytest.fixture(scope="session")
def run_albert(albert_command):
    """Returns `run(*arguments, **options of subprocess.run)`."""

    def run(*arguments, **options):
        return subprocess.run(
            [albert_command, *map(str, arguments)],
            capture_output=True,
            text=True,
            **options,
        )

    return run


@pytest.fixture(scope="session")
def python_with(forked, tmp_path_factory):
    """Returns `find(backend)`: a Python with it for Keras, its environment."""
    compiled = str(tmp_path_factory.mktemp("compiled"))

    def find(backend):
        environment = {
            "KERAS_BACKEND": backend,
            "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",  # It compiles faster so.
            # And only once what several processes run.
            "JAX_COMPILATION_CACHE_DIR": compiled,
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        }
        python = forked("import albert_tf.models.base", **environment)
        return python, {**os.environ, **environment}

    return find


@pytest.fixture(scope="session")
def run_script(python_with, eagerly):
    """Returns `run(script, backend, *arguments)`: what a script prints.

    It runs in this process, without graphs, if that has the backend of Keras.
    """
    import keras

    def run(script, backend, *arguments):
        arguments = [str(script), *map(str, arguments)]
        if backend == keras.backend.backend():
            printed = io.StringIO()
            with (
                eagerly(),
                pytest.MonkeyPatch.context() as patch,
                contextlib.redirect_stdout(printed),
            ):
                patch.setattr(sys, "argv", arguments)
                runpy.run_path(arguments[0], run_name="__main__")
            return printed.getvalue()
        python, environment = python_with(backend)
        return subprocess.run(
            [python, *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        ).stdout

    return run


class _Killed(BaseException):
    """Takes the place of a signal that ends the process."""


@pytest.fixture(scope="session")
def each_kill():
    """Kills a function before each of its changes of files, one at a time.

    Yields, from `each_kill(prepare, run)`, what `prepare(<name>)` returned,
    after `run` of it was killed: before its first change of a file or folder,
    in the next turn before its second, and so on to the last. Nothing that
    `finally` would still do is done either.
    """
    allowed = None

    def changes(event, arguments):
        if event == "open":
            *_, flags = arguments
            return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
        return event in (
            "os.mkdir",
            "os.rename",
            "os.remove",
            "os.rmdir",
            "os.link",
            "os.symlink",
            "ctypes.dlsym",  # The exchange of two names.
        )

    def watch(event, arguments):
        nonlocal allowed
        if allowed is None or not changes(event, arguments):
            return
        if allowed == 0:
            raise _Killed
        allowed -= 1

    # There is no way to remove it.
    sys.addaudithook(watch)

    def kill(prepare, run):
        nonlocal allowed
        for number in itertools.count():
            prepared = prepare(f"{number}")
            allowed = number
            try:
                run(prepared)
                return
            except _Killed:
                allowed = None
                yield prepared
            finally:
                allowed = None

    return kill


@pytest.fixture(scope="session")
def npm_packages():
    """The folder with `node_modules` that `make javascript` fills, or skips."""
    folder = _REPOSITORY / ".javascript"
    if not (folder / "installed").exists():
        pytest.skip("transformers.js is not installed (make javascript)")
    return folder


@pytest.fixture(scope="session")
def run_node(npm_packages):
    """Returns `run(name, **request)`: the output of a tests/javascript program.

    Requests and results are JSON.
    """
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    folder = pathlib.Path(__file__).with_name("javascript")

    def run(name, **request):
        result = subprocess.run(
            ["node", folder / name],
            input=json.dumps({"packages": str(npm_packages), **request}),
            capture_output=True,
            text=True,
        )
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    return run


@pytest.fixture(scope="session")
def transformers_js(run_node):
    """Returns `run(jobs)`: the results of transformers.js."""
    return lambda jobs: run_node("pipelines.mjs", jobs=jobs)


@pytest.fixture
def worker_environments():
    """Returns `make(count)`: the environments of a cluster's workers."""

    def make(count):
        with contextlib.ExitStack() as stack:
            sockets = [
                stack.enter_context(socket.socket()) for _ in range(count)
            ]
            for each in sockets:
                each.bind(("localhost", 0))
            ports = [each.getsockname()[1] for each in sockets]
        cluster = {"worker": [f"localhost:{port}" for port in ports]}
        tasks = [{"type": "worker", "index": index} for index in range(count)]
        return [
            os.environ
            | {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}
            for task in tasks
        ]

    return make
