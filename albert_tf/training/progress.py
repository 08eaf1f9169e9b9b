"""Progress of a run in the terminal, and graceful stop on signals."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from tqdm import tqdm

from albert_tf.training.config import TrainingConfig

_Batch = TypeVar("_Batch")

_NOT_SHOWN = ("learning_rate", "gradient_norm", "examples_per_second")
_ACCURACY = "_accuracy"
# Number of reports that the estimate of the remaining time is based on.
_REPORTS = 20
# Between two lines of an evaluation.
_SECONDS = 5
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Progress:
    """A progress bar on a terminal, a line for each report elsewhere."""

    def __init__(
        self, num_train_steps: int, step: int = 0, *, visible: bool = True
    ):
        self._visible = visible
        self._total_steps = num_train_steps
        self._bar = tqdm(
            total=num_train_steps,
            initial=step,
            unit="step",
            dynamic_ncols=True,
            # A narrow terminal cuts off the end, so the bar comes last.
            bar_format="step {n_fmt}/{total_fmt}, {remaining} left{postfix} "
            "|{bar}|",
            # In a file, every redrawn bar would be a line.
            disable=not (visible and sys.stderr.isatty()),
        )
        self._clock = _Clock(step)

    def advance(self, steps: int) -> None:
        """Advances the bar."""
        self._bar.update(steps)

    def end_at(self, step: int) -> None:
        """Changes the number of steps of the whole run."""
        self._total_steps = self._bar.total = step
        self._bar.refresh()

    def report(
        self, step: int, split: str, values: Mapping[str, float]
    ) -> None:
        """Shows the newest metrics."""
        if split == "train" and not self._bar.disable:
            # There is no room for the terms of the loss.
            parts = [
                _short(name, values[name])
                for name in _shown(values)
                if not name.endswith("_loss")
            ]
            self._bar.set_postfix_str(", ".join(parts))
            return
        parts = [_full(name, values[name]) for name in _shown(values)]
        total = f"/{self._total_steps}" if self._bar.disable else ""
        if split == "train":
            left = self._clock.seconds_left(step, self._total_steps)
            parts.append(f"{tqdm.format_interval(left)} left")
        self.note(f"step {step}{total}, {split}: {', '.join(parts)}")

    def note(self, text: str) -> None:
        """Writes a line above the bar."""
        if not self._visible:
            return
        if self._bar.disable:
            print(text, file=sys.stderr, flush=True)
        else:
            self._bar.write(text, file=sys.stderr)

    def close(self) -> None:
        """Closes the bar."""
        self._bar.close()


def reported(
    batches: Iterable[_Batch], size: Callable[[_Batch], int], total: int = 0
) -> Iterator[_Batch]:
    """Yields batches of an evaluation, and prints a line every few seconds.

    `size` returns the number of examples in a batch; `total` is that of all
    batches, 0 if it is unknown.
    """
    start = last = time.monotonic()
    done = 0
    for batch in batches:
        now = time.monotonic()
        if done and now - last >= _SECONDS:
            last = now
            text = f"evaluated {done:,}"
            if total:
                left = (now - start) / done * (total - done)
                text += f" of {total:,} examples, "
                text += f"{tqdm.format_interval(left)} left"
            else:
                text += " examples"
            tqdm.write(text, file=sys.stderr)
            sys.stderr.flush()
        yield batch
        done += size(batch)


class _Clock:
    """Estimate of the remaining time, including evaluations and saving."""

    def __init__(self, step: int):
        self._start = (time.monotonic(), step)
        self._reports: deque[tuple[float, int]] = deque(maxlen=_REPORTS)

    def seconds_left(self, step: int, num_train_steps: int) -> float:
        """Records a report at `step`; returns the estimated seconds left."""
        self._reports.append((time.monotonic(), step))
        # The time until the first report is mostly compilation.
        is_first = len(self._reports) == 1
        before, first = self._start if is_first else self._reports[0]
        now, last = self._reports[-1]
        return (now - before) / max(last - first, 1) * (num_train_steps - last)


def _shown(values: Mapping[str, float]) -> list[str]:
    shown = [name for name in values if name not in _NOT_SHOWN]
    # The least interesting one last, where a narrow terminal cuts it off.
    return sorted(shown, key="input_wait_share".__eq__)


def _full(name: str, value: float) -> str:
    if name == "tokens_per_second":
        return f"{value:,.0f} tokens/s"
    if name == "gflops_per_second":
        return f"{value:,.1f} GFLOP/s"
    if name == "input_wait_share":
        return f"{value:.0%} input wait"
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{name} {text}"


def _short(name: str, value: float) -> str:
    if name.endswith(_ACCURACY):
        return f"{name.removesuffix(_ACCURACY)} {value:.1%}"
    return _full(name, value).replace("input wait", "wait")


def print_stop(
    step: int,
    config: TrainingConfig,
    run_dir: str | os.PathLike[str] | None,
    *,
    early: bool,
    by_callback: bool,
) -> None:
    """Prints why a run ended before its last step.

    It was a signal unless the end is `early`, by early stopping or a callback.
    """
    if by_callback:
        text = f"Stopped after step {step}: a callback asked for it."
    elif early:
        text = (
            f"Stopped early after step {step} of {config.num_train_steps}: "
            f"{config.best_metric} was not better in the last "
            f"{config.early_stopping_patience} evaluations."
        )
    elif run_dir is None:
        text = (
            f"Stopped after step {step}, nothing saved, because the run has "
            "no folder."
        )
    else:
        text = (
            f"Stopped after step {step}, saved in {os.fspath(run_dir)}; the "
            "same command resumes."
        )
    print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def graceful_stop() -> Iterator[threading.Event]:
    """Turns the first SIGINT or SIGTERM into an event; the second exits.

    A Python signal handler would not run while TensorFlow executes a loop of
    steps, so a thread reads the signals from the interpreter's wakeup pipe.
    Outside the main thread, where Python receives no signals, the event is
    never set.
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
            # All files are written atomically, so there is no clean-up.
            os._exit(128 + number)
        stop.set()
        print(
            f"{signal.Signals(number).name}: finishing the current steps, then "
            "saving. Send it again to stop at once.",
            file=sys.stderr,
            flush=True,
        )
