"""Runs `albert` commands, without importing TensorFlow anew for each.

A server: each line of its input is JSON, `[folder, log, argument, ...]`. It
forks, before TensorFlow has started anything, a process that runs the command
in the folder and prints into `log.out` and `log.err`, and answers with its exit
status.
"""

import gc
import json
import os
import sys

import keras  # noqa: F401
import tensorflow as tf  # noqa: F401
import tensorflow_text  # noqa: F401

from albert_tf.cli import main


def run(folder, log, *arguments):
    os.chdir(folder)
    for stream, ending in ((1, ".out"), (2, ".err")):
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        os.dup2(os.open(log + ending, flags, 0o600), stream)
    status = main.main(arguments)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    # To take TensorFlow apart would take as long as many a command.
    os._exit(status)


gc.freeze()  # Or each child would copy what its collector looks at.
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        run(*json.loads(line))
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
