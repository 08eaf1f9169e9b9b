"""One line of live progress."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from tqdm import tqdm

_NOT_SHOWN = ("learning_rate", "gradient_norm", "examples_per_second")


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
            # A file would fill up with redrawn bars.
            disable=not sys.stderr.isatty(),
        )

    def advance(self, steps: int) -> None:
        """Moves the bar and its estimate of the time left."""
        self._bar.update(steps)

    def report(
        self, step: int, split: str, values: Mapping[str, float]
    ) -> None:
        """Shows the newest metrics."""
        names = [name for name in values if name not in _NOT_SHOWN]
        text = ", ".join(f"{name} {_short(values[name])}" for name in names)
        if self._bar.disable:
            line = f"step {step}/{self._total_steps}, {split}: {text}"
            print(line, file=sys.stderr, flush=True)
        elif split == "train":
            self._bar.set_postfix_str(text)
        else:
            self._bar.write(f"step {step}, {split}: {text}", file=sys.stderr)

    def close(self) -> None:
        """Ends the line."""
        self._bar.close()


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
