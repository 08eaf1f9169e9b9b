"""Starts `albert` commands that tests kill, without importing TensorFlow anew.

A server: each line of its input is JSON, `[devices, log, argument, ...]`. It
forks, before TensorFlow has started anything, a process that runs the command
and writes into the log. It answers with the process's id and, when that has
ended, with its status (minus the signal that ended it).
"""

import json
import os
import sys

import tensorflow as tf

import albert_tf.pretraining.train  # noqa: F401, what the command imports
from albert_tf.cli import main


def run(devices, log, *arguments):
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    # Two virtual devices stand in for two accelerators.
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * devices,
    )
    main.run(arguments)


for line in sys.stdin:
    child = os.fork()
    if child == 0:
        run(*json.loads(line))
    print(child, flush=True)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
