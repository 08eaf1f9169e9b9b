"""Batches of the texts of concurrent requests."""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import threading
from collections.abc import Callable, Sequence
from typing import Any

Compute = Callable[[list[Any]], Sequence[Any]]


class Overloaded(Exception):
    """A request cannot be taken now; the message says why."""


@dataclasses.dataclass(frozen=True, eq=False)
class _Request:
    items: list[Any]
    future: concurrent.futures.Future[list[Any]]


class Batcher:
    """Computes the items of concurrent requests together, in one thread.

    A batch is what waits when the last one is done: an item that comes alone is
    computed at once, and batches grow with the load, without a waiting time to
    tune. TensorFlow uses all cores for each batch.

    Args:
      compute: maps items to as many results.
      max_batch_size: number of items to compute together. A request is never
        divided, so one with more items is a batch of its own.
      max_waiting: number of items that may wait.
      observe: called with the size of each batch.
    """

    def __init__(
        self,
        compute: Compute,
        *,
        max_batch_size: int,
        max_waiting: int,
        observe: Callable[[int], None] = lambda size: None,
    ):
        self._compute = compute
        self._max_batch_size = max_batch_size
        self._max_waiting = max_waiting
        self._observe = observe
        self._waiting: collections.deque[_Request] = collections.deque()
        self._num_waiting = 0
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def num_waiting(self) -> int:
        """Number of items that wait."""
        return self._num_waiting

    def submit(
        self, items: Sequence[Any]
    ) -> concurrent.futures.Future[list[Any]]:
        """Returns the future results of a request's items, in their order.

        What waits is not computed if its future is canceled.

        Raises:
          Overloaded: if more than `max_waiting` items would wait, or the
            batcher is closed.
        """
        future: concurrent.futures.Future[list[Any]]
        future = concurrent.futures.Future()
        with self._changed:
            if self._closed:
                raise Overloaded("the server is shutting down")
            # A request larger than the limit is served when nothing waits.
            full = self._num_waiting + len(items) > self._max_waiting
            if full and self._num_waiting:
                raise Overloaded(
                    f"the server is busy: {self._num_waiting} waiting and "
                    f"{len(items)} new texts exceed the limit of "
                    f"{self._max_waiting}; retry later"
                )
            request = _Request(list(items), future)
            self._waiting.append(request)
            self._num_waiting += len(items)
            self._changed.notify()
        future.add_done_callback(lambda _: self._forget(request))
        return future

    def _forget(self, request: _Request) -> None:
        """Removes a request that still waits, if it was canceled."""
        if not request.future.cancelled():
            return
        with self._changed:
            if request in self._waiting:
                self._waiting.remove(request)
                self._num_waiting -= len(request.items)

    def close(self, seconds: float | None = None) -> None:
        """Computes what waits, and ends the thread.

        Args:
          seconds: how long to wait for it; None for no limit. What takes longer
            ends with the process.
        """
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(seconds)

    def _run(self) -> None:
        while requests := self._next_batch():
            # Some may have been canceled since.
            requests = [
                x for x in requests if x.future.set_running_or_notify_cancel()
            ]
            if requests:
                self._answer(requests)

    def _next_batch(self) -> list[_Request]:
        """Waits for requests; returns none after `close`."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            batch: list[_Request] = []
            size = 0
            while self._waiting:
                size += len(self._waiting[0].items)
                if batch and size > self._max_batch_size:
                    break
                batch.append(self._waiting.popleft())
                self._num_waiting -= len(batch[-1].items)
            return batch

    def _answer(self, requests: list[_Request]) -> None:
        items = [item for request in requests for item in request.items]
        self._observe(len(items))
        try:
            results = list(self._compute(items))
        except Exception as error:
            if len(requests) == 1:
                requests[0].future.set_exception(error)
                return
            # One request must not fail because of another.
            for request in requests:
                self._answer([request])
            return
        start = 0
        for request in requests:
            end = start + len(request.items)
            request.future.set_result(results[start:end])
            start = end
