"""The folder of a run, with its settings in `run.json`, and its lock."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import pathlib
import socket
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from importlib import metadata
from typing import Any

import keras
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import (
    PARTIAL,
    Path,
    creating,
    is_remote,
    output_folder,
    write_atomically,
)
from albert_tf.input_files import read_text
from albert_tf.interop.file_types import check_tf_path
from albert_tf.interop.run_folder import CHECKPOINTS, read_record
from albert_tf.interop.run_folder import RECORD as FILE
from albert_tf.locks import create_locked, holder_of
from albert_tf.schema import typed
from albert_tf.training.checkpoint_files import run_checkpoints
from albert_tf.training.logging import FILE as METRICS
from albert_tf.training.logging import TENSORBOARD_FOLDER as TENSORBOARD
from albert_tf.training.workers import is_chief, on_chief

LOCK = ".lock"

# Digests that are settings of fine-tuning -> what they are digests of.
_FILES = {
    "data.files": "training files",
    "data.dev_files": "development files",
}
_LONGEST = 300  # characters of two values that are shown

_logger = logging.getLogger(__name__)


@dataclasses.dataclass
class RunFolder:
    """The folder of a run; see `open_run_folder`.

    Attributes:
      settings: the settings of the run, as JSON values.
      files: files of a new run, those of the command included.
      resumes: whether the folder holds a run to resume. A run without
        checkpoints, metrics and model has nothing to lose, and is started
        again, possibly with other settings.
    """

    path: str
    settings: dict[str, Any]
    files: Mapping[str, str | bytes]
    command_files: Mapping[str, str]
    may_change: Collection[str]
    defaults: dict[str, Any]
    strategy: tf.distribute.Strategy
    resumes: bool = False
    _old: dict[str, Any] = dataclasses.field(default_factory=dict)

    def check(self) -> None:
        """Checks that the folder is free for the run, or holds it already."""
        check_tf_path(self.path)
        if not self._has_record():
            _check_empty(self.path, {*self.files, FILE})
            return
        self._old = _read_record(self.path)
        self.resumes = self._has_results()
        if self.resumes:
            self._check_settings(self._old["settings"])

    def claim(self) -> None:
        """Writes the files of the run, once everything else is checked.

        A new run gets its files and then `run.json`. In a resumed run, the
        files of the command and the changed settings are updated. All workers
        must call it; the chief writes, and their settings must be equal.
        """
        on_chief(self.strategy, self._write)
        if not is_chief(self.strategy) and self._has_record():
            self._check_settings(_read_record(self.path)["settings"])

    def _write(self) -> None:
        if self.resumes:
            for name, text in self.command_files.items():
                write_atomically(os.path.join(self.path, name), text)
            if self._old["settings"] != self.settings:
                self._write_record({**self._old, "settings": self.settings})
            return
        with contextlib.ExitStack() as stack:
            if not self._old:  # A new run that cannot be started leaves none.
                stack.callback(self._remove, self.files)
            self._start()
            stack.pop_all()

    def _remove(self, names: Iterable[str]) -> None:
        for name in names:
            path = os.path.join(self.path, name)
            if tf.io.gfile.exists(path):
                tf.io.gfile.remove(path)

    def _start(self) -> None:
        tf.io.gfile.makedirs(self.path)
        self._remove({*self._old.get("files", ())} - self.files.keys())
        for name, content in self.files.items():
            write_atomically(os.path.join(self.path, name), content)
        # Written last: where it exists, the folder is complete.
        self._write_record(
            {
                "settings": self.settings,
                "files": sorted(self.files),
                "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
                "versions": {
                    "albert_tf": metadata.version("albert-tf"),
                    "tensorflow": tf.__version__,
                    "keras": keras.__version__,
                },
            }
        )

    def _check_settings(self, old: dict[str, Any]) -> None:
        old, new = self.defaults | old, self.defaults | self.settings
        if ("data" in old) != ("data" in new):  # of a fine-tuning task
            kind = "fine-tuning" if "data" in old else "pretraining"
            raise InputError(
                f"{self.path} holds a {kind} run; choose another folder"
            )
        names = (old.keys() | new.keys()) - set(self.may_change)
        # Of two differences, other data is the one to know of.
        for name in sorted(names, key=lambda name: (name != "data", name)):
            if old.get(name) != new.get(name):
                problem = _difference(name, old.get(name), new.get(name))
                raise InputError(
                    f"{self.path} holds a run {problem} to resume it, or "
                    "another folder"
                )

    def _write_record(self, record: Mapping[str, Any]) -> None:
        text = json.dumps(record, indent=2) + "\n"
        write_atomically(os.path.join(self.path, FILE), text)

    def _has_record(self) -> bool:
        return tf.io.gfile.exists(os.path.join(self.path, FILE))

    def _has_results(self) -> bool:
        """Returns whether the run wrote anything after its first files."""
        if run_checkpoints(self.path):
            return True
        metrics = os.path.join(self.path, METRICS)
        if tf.io.gfile.exists(metrics) and tf.io.gfile.stat(metrics).length:
            return True
        first = {*self.files, *self._old.get("files", ()), FILE, LOCK}
        empty = {CHECKPOINTS, METRICS, TENSORBOARD}
        return bool(_names(self.path) - first - empty)


def _difference(name: str, old: Any, new: Any) -> str:
    """Returns how a setting differs, within dicts, and what to use."""
    while isinstance(old, dict) and isinstance(new, dict):
        keys = old.keys() | new.keys()
        key = min(key for key in keys if old.get(key) != new.get(key))
        name, old, new = f"{name}.{key}", old.get(key), new.get(key)
    if name in _FILES:
        return f"on other {_FILES[name]}; use the same"
    old, new = (json.dumps(value) for value in (old, new))
    if len(old) + len(new) > _LONGEST:
        return f"with another {name}; use the same"
    return f"with {name}={old}, not {new}; use that value"


@contextlib.contextmanager
def open_run_folder(
    path: str | os.PathLike[str],
    settings: Mapping[str, Any],
    *,
    may_change: Collection[str] = (),
    defaults: Mapping[str, Any] | None = None,
    files: Mapping[str, str | bytes] | None = None,
    command_files: Mapping[str, str] | None = None,
    strategy: tf.distribute.Strategy | None = None,
) -> Iterator[RunFolder]:
    """Opens and locks the folder of a run.

    Args:
      path: the folder; it need not exist.
      settings: all settings that affect the results, as JSON values.
      may_change: names of settings that may differ when the run is resumed.
      defaults: values of settings that older runs did not record.
      files: further files of a new run: name -> content.
      command_files: files that describe the command, such as its flags; updated
        when the run is resumed.
      strategy: the strategy of the run, whose chief locks and writes the
        folder; default: the current one.

    Yields:
      The folder. Before `RunFolder.claim`, only the lock is written to it.

    Raises:
      InputError: if the folder holds another run or something else, or another
        process is writing it.
    """
    path = os.fspath(path)
    strategy = strategy or tf.distribute.get_strategy()
    settings, defaults = json.loads(json.dumps([settings, defaults or {}]))
    command_files = command_files or {}
    folder = RunFolder(
        path,
        settings,
        {**(files or {}), **command_files},
        command_files,
        may_change,
        defaults,
        strategy,
    )
    with _locked(path, folder.check, strategy):
        yield folder


@contextlib.contextmanager
def _locked(
    path: str, check: Callable[[], None], strategy: tf.distribute.Strategy
) -> Iterator[None]:
    """Checks and locks a folder on the chief, for all workers."""
    with contextlib.ExitStack() as lock:

        def lock_and_check() -> None:
            check()  # Before a lock file is written to it.
            lock.enter_context(lock_output(path, os.path.join(path, LOCK)))
            check()

        on_chief(strategy, lock_and_check)
        yield


@contextlib.contextmanager
def open_runs_folder(
    path: str, names: Collection[str], strategy: tf.distribute.Strategy
) -> Iterator[None]:
    """Locks a folder whose subfolders are runs; see `open_run_folder`.

    `names` are those of the runs in order, and of other files that the folder
    may hold.
    """

    def check() -> None:
        first, *_ = names
        if not tf.io.gfile.exists(os.path.join(path, first, FILE)):
            _check_empty(path, names)

    with _locked(path, check, strategy):
        yield


def read_settings(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads the settings of the run in a folder."""
    path = os.fspath(path)
    if not tf.io.gfile.exists(os.path.join(path, FILE)):
        raise InputError(f"{path} is not the folder of a run: no {FILE} there")
    return _read_record(path)["settings"]


def load_run_config(path: str | os.PathLike[str]) -> AlbertConfig:
    """Reads the architecture of the run in a folder."""
    source = f"run {os.fspath(path)}"
    model = typed(read_settings(path), "model", dict, source=source)
    if model is None:
        raise InputError(f"{source}: {FILE} has no model")
    return AlbertConfig.from_dict(model, source=source)


def _read_record(path: str) -> dict[str, Any]:
    file = os.path.join(path, FILE)
    record = read_record(path)
    files = record.get("files", [])
    if files != list(map(os.path.basename, files)):
        raise InputError(
            f"{file} is not the record of a run; use another folder"
        )
    return record


def _check_empty(path: str, files: Collection[str]) -> None:
    if not tf.io.gfile.exists(path):
        return
    if not tf.io.gfile.isdir(path):
        raise InputError(f"{path} is not a folder; choose another")
    # A run that was killed as it started may have left some of these.
    if foreign := _names(path) - {*files, LOCK}:
        raise InputError(
            f"{path} is not the folder of a run: it contains {min(foreign)}; "
            "use a new or empty folder"
        )


def _names(path: str) -> set[str]:
    """Returns the names in a folder; partial files have their final names."""
    names = {name.rstrip("/") for name in tf.io.gfile.listdir(path)}
    return {
        name.removesuffix(PARTIAL).removeprefix(".")
        if name.endswith(PARTIAL)
        else name
        for name in names
    }


@contextlib.contextmanager
def lock_output(output: Path, file: Path) -> Iterator[None]:
    """Keeps other processes from writing the same output during the block.

    The system releases the lock when the process ends, even if it is killed.
    Over NFS it works across machines if the server supports locks. A file
    system without locks is a warning; buckets (`gs://...`) are not locked.

    Args:
      output: what is written, for error messages.
      file: the lock file, which names the process that holds the lock. Missing
        folders are created. On exit, the file is removed, and these folders if
        they are still empty.

    Raises:
      InputError: if another process holds the lock.
    """
    if is_remote(file):
        yield
        return
    file = pathlib.Path(file)
    with contextlib.ExitStack() as stack:
        stack.enter_context(output_folder(file.parent))
        with creating(file):
            try:
                descriptor, problem = create_locked(os.fspath(file))
            except BlockingIOError:
                raise InputError(
                    f"{output} is being written by {_lock_holder(file)}; wait "
                    "for it to end, stop it, or use another folder"
                ) from None
        if problem:
            _logger.warning(
                f"{file}: no lock ({problem}): a second process could write "
                f"{output}, too"
            )
        stack.callback(os.close, descriptor)
        stack.callback(file.unlink, missing_ok=True)
        since = time.strftime("%Y-%m-%d %H:%M:%S %z")
        holder = f"process {os.getpid()} on {socket.gethostname()}"
        with creating(file):
            os.write(descriptor, f"{holder} since {since}\n".encode())
        yield


def _lock_holder(file: pathlib.Path) -> str:
    for _ in range(20):
        with contextlib.suppress(InputError):
            holder = read_text(file)
            if holder.endswith("\n"):
                return holder.strip()
        time.sleep(0.05)  # The holder is about to write its name.
    return holder_of(os.fspath(file))
