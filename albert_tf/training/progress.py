"""One line of live progress."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Mapping

from tqdm import tqdm

_NOT_SHOWN = ("learning_rate", "gradient_norm", "examples_per_second")
_ACCURACY = "_accuracy"
# The time left is told from so many of the newest reports.
_REPORTS = 20


class Progress:
    """A progress bar on a terminal, a line for each report elsewhere.

    Args:
      total_steps: steps of the whole run.
      step: the step that the run (re)starts from.
    """

    def __init__(self, total_steps: int, step: int = 0):
        self._total_steps = total_steps
        self._bar = tqdm(
            total=total_steps,
            initial=step,
            unit="step",
            dynamic_ncols=True,
            # The bar comes last, so that a narrow terminal cuts it first.
            bar_format="step {n_fmt}/{total_fmt}, {remaining} left{postfix} "
            "|{bar}|",
            # A file would fill up with redrawn bars.
            disable=not sys.stderr.isatty(),
        )
        self._clock = _Clock(step)

    def advance(self, steps: int) -> None:
        """Moves the bar and its estimate of the time left."""
        self._bar.update(steps)

    def report(
        self, step: int, split: str, values: Mapping[str, float]
    ) -> None:
        """Shows the newest metrics."""
        if self._bar.disable:
            parts = [_full(name, values[name]) for name in _shown(values)]
            if split == "train":
                left = self._clock.seconds_left(step, self._total_steps)
                parts.append(f"{tqdm.format_interval(left)} left")
            line = f"step {step}/{self._total_steps}, {split}: "
            self.note(line + ", ".join(parts))
        elif split == "train":
            # A line has no room for the parts that the loss is the sum of.
            parts = [
                _short(name, values[name])
                for name in _shown(values)
                if not name.endswith("_loss")
            ]
            self._bar.set_postfix_str(", ".join(parts))
        else:
            parts = [_full(name, values[name]) for name in _shown(values)]
            self.note(f"step {step}, {split}: " + ", ".join(parts))

    def note(self, text: str) -> None:
        """Writes a line that stays."""
        if self._bar.disable:
            print(text, file=sys.stderr, flush=True)
        else:
            self._bar.write(text, file=sys.stderr)

    def close(self) -> None:
        """Ends the line."""
        self._bar.close()


class _Clock:
    """The time that a run will still take, evaluations and saving included."""

    def __init__(self, step: int):
        self._start = (time.monotonic(), step)
        self._reports: deque[tuple[float, int]] = deque(maxlen=_REPORTS)

    def seconds_left(self, step: int, total_steps: int) -> float:
        """Returns the seconds from a report, made now at `step`, to the end."""
        self._reports.append((time.monotonic(), step))
        # The first report's time is mostly that of compiling the step.
        one = len(self._reports) == 1
        before, first = self._start if one else self._reports[0]
        now, last = self._reports[-1]
        return (now - before) / max(last - first, 1) * (total_steps - last)


def _shown(values: Mapping[str, float]) -> list[str]:
    return [name for name in values if name not in _NOT_SHOWN]


def _full(name: str, value: float) -> str:
    if name == "tokens_per_second":
        return f"{value:,.0f} tokens/s"
    if name == "matmul_share":
        return f"{value:.0%} of matmul peak"
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{name} {text}"


def _short(name: str, value: float) -> str:
    if name.endswith(_ACCURACY):
        return f"{name.removesuffix(_ACCURACY)} {value:.1%}"
    return _full(name, value).replace("matmul peak", "peak")
