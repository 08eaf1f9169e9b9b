"""Counts and times of requests, in the text format of Prometheus."""

from __future__ import annotations

import bisect
import collections
import threading

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_TEXTS = (1, 2, 4, 8, 16, 32, 64, 128)


class Histogram:
    """A histogram with cumulative buckets.

    `bounds` are the upper bounds of the buckets; the last one, infinity, is
    added. `label` is the name of the label that tells series apart.
    """

    def __init__(
        self, name: str, help: str, bounds: tuple[float, ...], label: str
    ):
        self._head = f"# HELP {name} {help}\n# TYPE {name} histogram\n"
        self._name, self._label, self._bounds = name, label, bounds
        self._counts: dict[str, list[int]] = {}
        self._sums: dict[str, float] = collections.defaultdict(float)

    def observe(self, label: str, value: float) -> None:
        """Adds a value."""
        counts = self._counts.setdefault(label, [0] * (len(self._bounds) + 1))
        counts[bisect.bisect_left(self._bounds, value)] += 1
        self._sums[label] += value

    def text(self) -> str:
        """The series in the text format."""
        lines = []
        for label, counts in sorted(self._counts.items()):
            mark, total = f'{self._label}="{label}"', 0
            bounds = [*map(str, self._bounds), "+Inf"]
            for bound, count in zip(bounds, counts, strict=True):
                total += count
                lines.append(
                    f'{self._name}_bucket{{{mark},le="{bound}"}} {total}\n'
                )
            lines.append(
                f"{self._name}_sum{{{mark}}} {self._sums[label]:.6f}\n"
                f"{self._name}_count{{{mark}}} {total}\n"
            )
        return self._head + "".join(lines)


class Metrics:
    """The metrics of a server; may be used by several threads."""

    def __init__(self):
        self._lock = threading.Lock()
        self._requests: collections.Counter[tuple[str, int]]
        self._requests = collections.Counter()
        self._seconds = Histogram(
            "albert_request_seconds",
            "Time from a request to its response.",
            _SECONDS,
            "path",
        )
        self._texts = Histogram(
            "albert_batch_texts",
            "Texts that were computed together.",
            _TEXTS,
            "task",
        )

    def request(self, path: str, status: int, seconds: float) -> None:
        """Counts a request."""
        with self._lock:
            self._requests[path, status] += 1
            self._seconds.observe(path, seconds)

    def batch(self, task: str, size: int) -> None:
        """Counts a batch."""
        with self._lock:
            self._texts.observe(task, size)

    def text(self, waiting: int) -> str:
        """All metrics in Prometheus' text format; `waiting` counts texts."""
        with self._lock:
            requests = "".join(
                f'albert_requests_total{{path="{path}",status="{status}"}} '
                f"{count}\n"
                for (path, status), count in sorted(self._requests.items())
            )
            return (
                "# HELP albert_requests_total Requests by path and status.\n"
                "# TYPE albert_requests_total counter\n"
                f"{requests}{self._seconds.text()}{self._texts.text()}"
                "# HELP albert_waiting_texts Texts that wait.\n"
                "# TYPE albert_waiting_texts gauge\n"
                f"albert_waiting_texts {waiting}\n"
            )
