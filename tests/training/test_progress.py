import os
import signal
import subprocess
import sys
import threading

import pytest

from albert_tf.training import progress
from albert_tf.training.progress import graceful_stop, reported


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_first_signal_raises_the_flag(number, capfd):
    with graceful_stop() as stop:
        assert not stop.is_set()
        os.kill(os.getpid(), number)
        assert stop.wait(timeout=10)
    assert "Send it again to stop at once" in capfd.readouterr().err


def test_handlers_come_back():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with graceful_stop():
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert before == (
        signal.getsignal(signal.SIGINT),
        signal.getsignal(signal.SIGTERM),
    )


def test_thread_without_signals_goes_on():
    flags = []

    def work():
        with graceful_stop() as stop:
            flags.append(stop.is_set())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert flags == [False]


# Blocked in C, where Python's own handlers would not run: the lock of a
# C function that does not return, as TensorFlow in a long loop of steps.
STUCK = """
import ctypes, sys
from albert_tf.training import progress
from albert_tf.training.progress import graceful_stop, reported
with graceful_stop():
    print("ready", flush=True)
    libc = ctypes.CDLL(None)
    while True:
        libc.sleep(1000)
"""


def test_second_signal_ends_a_busy_process_at_once():
    process = subprocess.Popen(
        [sys.executable, "-c", STUCK],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert "Send it again" in process.stderr.readline()
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 128 + signal.SIGINT
    finally:
        process.kill()
        process.communicate()


def test_evaluations_print_a_line_every_few_seconds(monkeypatch, capfd):
    clock = iter(range(0, 1000, 2))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    batches = [[0] * 32] * 12
    assert list(reported(batches, len, 12 * 32)) == batches
    lines = capfd.readouterr().err.splitlines()
    assert lines[:2] == [
        "evaluated 64 of 384 examples, 00:30 left",
        "evaluated 160 of 384 examples, 00:16 left",
    ]
    assert len(lines) == 4
    assert list(reported(batches[:4], len)) == batches[:4]
    assert capfd.readouterr().err == "evaluated 64 examples\n"
