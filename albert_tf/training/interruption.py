"""Graceful stop of a run on SIGINT and SIGTERM, within a grace period."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

# Clouds give a preempted machine 30 seconds; the rest is for the checkpoint.
_LAUNCH_SECONDS = 10.0


class LaunchLength:
    """Number of steps to launch at a time, so that a launch ends soon.

    A launch cannot be interrupted: on a signal its steps are finished first.

    Args:
      most: the largest number.

    Attributes:
      steps: the number of steps of the next launch.
    """

    def __init__(self, most: int):
        self._most = most
        self._compiled = False
        self.steps = 1

    def measure(self, steps: int, seconds: float) -> None:
        """Adjusts `steps` to the duration of a launch."""
        if self._compiled:  # The first launch includes compilation.
            longest = _LAUNCH_SECONDS * steps / max(seconds, 1e-9)
            self.steps = max(1, min(self._most, int(min(longest, 1e9))))
        self._compiled = True


@contextlib.contextmanager
def graceful_stop() -> Iterator[threading.Event]:
    """Turns the first SIGINT or SIGTERM into an event; the second exits.

    A Python signal handler is delayed while TensorFlow runs a loop of steps, so
    a separate thread reads the signals, from the pipe that the interpreter
    writes to. Outside the main thread, where Python receives no signals, the
    event is never set.

    Yields:
      An event that is set when a stop is requested.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    handlers = {
        number: signal.signal(number, lambda *_: None) for number in _SIGNALS
    }
    previous_fd = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    watcher = threading.Thread(
        target=_watch, args=(read_end, stop), daemon=True
    )
    watcher.start()
    try:
        yield stop
    finally:
        signal.set_wakeup_fd(previous_fd)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        os.close(write_end)
        watcher.join()
        os.close(read_end)


def _watch(read_end: int, stop: threading.Event) -> None:
    while received := os.read(read_end, 1):
        number = received[0]
        if number not in _SIGNALS:
            continue
        if stop.is_set():
            # Nothing needs to be cleaned up: all files are written atomically.
            os._exit(128 + number)
        stop.set()
        print(
            f"{signal.Signals(number).name}: finishing the steps under way, "
            "then saving. Once more to stop at once.",
            file=sys.stderr,
            flush=True,
        )
