"""Writing files while the training goes on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class BackgroundWriter:
    """Runs one piece of work at a time in a thread of its own.

    A second one waits for the first, so no more than one copy of what is to
    be written is held. As a context manager it finishes its work at the end,
    whatever ended it.
    """

    def __init__(self):
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="writer")
        self._pending: Future | None = None

    def submit(self, work: Callable[[], None]) -> None:
        """Starts `work` once that before is done; raises what that raised."""
        self.wait()
        self._pending = self._executor.submit(work)

    def wait(self) -> None:
        """Waits until all work is done; raises what it raised, once."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def __enter__(self) -> BackgroundWriter:
        return self

    def __exit__(self, *exception) -> None:
        try:
            self.wait()
        finally:
            self._executor.shutdown()
