"""A server of commands, which imports their libraries once for all.

    command_server.py serve SOCKET IMPORTS
    command_server.py run SOCKET ARGUMENT ...

`run` does what `albert ARGUMENT ...` does, in a process that the server forks
before TensorFlow has started anything, with the folder, the environment, the
standard streams and the exit status of the one that asks. With `-c CODE` or
FILE.py for the first ARGUMENT, it executes Python instead.

IMPORTS is Python. It may call `serve_python()`: what is imported by then is
also imported in the processes that commands start with `sys.executable -c`.
Those started with a file are new ones, as the file may configure TensorFlow
before it imports it.
"""

import gc
import json
import multiprocessing
import os
import pathlib
import runpy
import shlex
import socket
import struct
import sys

_SIZE = struct.Struct("!I")


class Started:
    """A command that has been started.

    Args:
      path: the path of the server's socket.
      arguments: see `run`.
      streams: descriptors of the standard streams.

    Attributes:
      process: id of the process.
    """

    def __init__(self, path, arguments, streams=(0, 1, 2)):
        request = json.dumps([os.getcwd(), dict(os.environ), arguments])
        request = request.encode()
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
            size = [_SIZE.pack(len(request))]
            socket.send_fds(connection, size, list(streams))
            connection.sendall(request)
            self._answers = connection.makefile()
        self.process = int(self._answers.readline())

    def end(self):
        """Waits; returns the exit status, or minus the signal."""
        return int(self._answers.readline())


def write_command(command, path, first="*"):
    """Writes a program that sends its arguments to the server of a socket.

    It is Python for arguments that do not begin with `first`, a pattern.
    """
    client = [sys.executable, "-IS", __file__, "run", path]
    command.write_text(
        f'#!/bin/sh\ncase "$1" in {first}) exec {shlex.join(client)} "$@" ;; '
        f'esac\nexec {shlex.quote(sys.executable)} "$@"\n'
    )
    command.chmod(0o700)


def serve(path, imports):
    """Serves one command after another, until it is terminated."""

    def serve_python():
        command = pathlib.Path(path).with_name("tensorflow-python")
        write_command(command, f"{path}.python", "-c")
        listener = _listen(f"{path}.python")
        if os.fork() == 0:
            _serve(listener)
        listener.close()
        multiprocessing.set_executable(sys.executable)
        sys.executable = str(command)

    exec(imports, {"serve_python": serve_python})
    listener = _listen(path)
    print("ready", flush=True)
    _serve(listener)


def _listen(path):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    return listener


def _serve(listener):
    # Or each child would copy what its collector looks at.
    gc.collect()
    gc.freeze()
    while True:
        connection, _ = listener.accept()
        child = os.fork()
        if child == 0:
            listener.close()
            _run(connection)
        connection.sendall(f"{child}\n".encode())
        _, status = os.waitpid(child, 0)
        status = os.waitstatus_to_exitcode(status)
        connection.sendall(f"{status}\n".encode())
        connection.close()


def _run(connection):
    """Runs the command that was asked for, and ends the process."""
    size, streams, _, _ = socket.recv_fds(connection, _SIZE.size, 3)
    request = connection.makefile("rb").read(*_SIZE.unpack(size))
    folder, environment, arguments = json.loads(request)
    connection.close()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    status = 1
    try:
        status = _execute(arguments)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        # To take TensorFlow apart would take as long as many a command.
        os._exit(status)


def _execute(arguments):
    try:
        if arguments[:1] == ["-c"]:
            sys.argv = ["-c", *arguments[2:]]
            sys.path.insert(0, "")
            code = compile(arguments[1], "<string>", "exec")
            exec(code, {"__name__": "__main__"})
        elif arguments[0].endswith(".py"):
            sys.argv = arguments
            runpy.run_path(arguments[0], run_name="__main__")
        else:
            from albert_tf.__main__ import run

            sys.argv = ["albert", *arguments]
            run()
    except SystemExit as ended:
        if isinstance(ended.code, str):  # A message, as of `sys.exit`.
            print(ended.code, file=sys.stderr)
            return 1
        return ended.code or 0
    return 0


if __name__ == "__main__":
    action, socket_path, *rest = sys.argv[1:]
    if action == "serve":
        serve(socket_path, *rest)
    else:
        sys.exit(Started(socket_path, rest).end())
