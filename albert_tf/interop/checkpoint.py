"""Checkpoints under this library's names, whatever system wrote them."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.interop.names import ALWAYS_PROJECTS, HEADS, tensors_of
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.normalizer import CASE_SETTINGS
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.tokenizer_files import (
    MODEL_FILE,
    WORDPIECE_FILE,
    load_tokenizer,
)
from albert_tf.text.tokenizer_json import TOKENIZER_JSON


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """A checkpoint's tokenizer, or why it cannot be used.

    Attributes:
      tokenizer: the tokenizer, or None.
      problem: why the tokenizer files of the checkpoint are unusable, or "".
    """

    tokenizer: Tokenizer | None = None
    problem: str = ""

    def describe(self) -> str:
        """Returns a line for `Checkpoint.report`."""
        if self.tokenizer:
            return f"tokenizer: {self.tokenizer.vocab_size:,} pieces"
        return f"tokenizer: none{self.problem and f' ({self.problem})'}"

    def for_length(self, length: int) -> Vocabulary:
        """Returns it with a tokenizer for rows of a model's length."""
        if self.tokenizer is None:
            return self
        return dataclasses.replace(
            self, tokenizer=self.tokenizer.with_max_length(length)
        )


@dataclasses.dataclass(frozen=True)
class HeadSettings:
    """Settings of a task head.

    Attributes:
      num_labels: number of classes; 1 means regression.
      labels: names of the classes in order, or None.
      dropout: dropout rate before the head.
      multi_label: whether a text may have several classes, or none.
    """

    num_labels: int = 1
    labels: tuple[str, ...] | None = None
    dropout: float = 0.1
    multi_label: bool = False


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A model's architecture, weights and tokenizer.

    Attributes:
      config: the architecture.
      components: the subset of `interop.names.COMPONENTS` that it has.
      arrays: variable path -> float32 array, read on access.
      objective_arrays: the same, of the heads of a pretraining objective that
        no other system has, such as a generator.
      objective: the pretraining objective, `objective` and `objective_settings`
        as in `run.json`; empty if it is not known.
      head: settings of the task head.
      source: the path it was read from.
      folder: the folder whose other files say how the model is used, such as
        `task.json` or the pooling of sentence-transformers; None if its format
        has none. That of an archive exists as long as `arrays`.
      max_seq_length: maximum length of the texts of an exported text encoder or
        embedding task; None for other sources, whose `folder` may have it.
      format: name of the source's format.
      skipped: name of each tensor that was not loaded -> reason.
      missing_head: a head that the config declares but the weights lack.
      notes: additional lines for the report.
    """

    config: AlbertConfig
    components: frozenset[str]
    arrays: Mapping[str, np.ndarray]
    objective_arrays: Mapping[str, np.ndarray] = dataclasses.field(
        default_factory=dict
    )
    objective: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    head: HeadSettings = HeadSettings()
    vocabulary: Vocabulary = Vocabulary()
    source: str = ""
    folder: pathlib.Path | None = None
    max_seq_length: int | None = None
    format: str = ""
    skipped: Mapping[str, str] = dataclasses.field(default_factory=dict)
    missing_head: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer, or None if there is no usable one."""
        return self.vocabulary.tokenizer

    @property
    def heads(self) -> tuple[str, ...]:
        """The heads, in the order of `interop.names.HEADS`."""
        return tuple(head for head in HEADS if head in self.components)

    @property
    def objective_heads(self) -> tuple[str, ...]:
        """The names of the heads of a pretraining objective, sorted."""
        names = {path.split("/")[0] for path in self.objective_arrays}
        return tuple(sorted(names))

    def tensors_for(
        self, system: str, on_tensor: Callable[[], None] | None = None
    ) -> Iterator[tuple[str, np.ndarray]]:
        """Yields the tensors under another system's names and in its layouts.

        If the model has no embedding projection but the system requires one, an
        identity projection is added.

        Args:
          system: one of `interop.names.FORMATS`.
          on_tensor: called after each tensor of the checkpoint.
        """
        config, components = self.config, set(self.components)
        if system in ALWAYS_PROJECTS:
            components.add("projection")
            if config.embedding_size == config.hidden_size:
                config = config.replace(project_equal_sizes=True)
        for tensor in tensors_of(config, components, self.head.num_labels):
            theirs, shape = tensor.names[system], tensor.shape
            if is_ours := tensor.path in self.arrays:
                array = self.arrays[tensor.path]
            elif len(shape) == 2:
                array = np.eye(*shape, dtype=np.float32)
            else:
                array = np.zeros(shape, np.float32)
            yield theirs.name, theirs.transform.to_theirs(array)
            if on_tensor and is_ours:
                on_tensor()

    def report(self) -> str:
        """Returns a summary of loaded and skipped tensors, in lines."""
        components = [
            name for name in ("pooler", *HEADS) if name in self.components
        ]
        lines = [
            f"loaded {len(self.arrays)} tensors from {self.source} "
            f"({self.format})",
            f"components: {', '.join(['encoder', *components])}",
            self.vocabulary.describe(),
        ]
        if self.objective_heads:
            heads = ", ".join(self.objective_heads)
            lines.append(f"heads of the objective: {heads}")
        reasons: dict[str, list[str]] = {}
        for name, reason in self.skipped.items():
            reasons.setdefault(reason, []).append(name)
        for reason, names in reasons.items():
            shown = ", ".join(names[:3]) + (", ..." if names[3:] else "")
            lines.append(f"skipped {len(names)} ({reason}): {shown}")
        if self.missing_head:
            lines.append(
                f"missing: {self.missing_head}, declared in the config"
            )
        return "\n".join([*lines, *self.notes])


@dataclasses.dataclass(frozen=True)
class OpenOptions:
    """What `open_checkpoint` is told about a checkpoint, for every format.

    Attributes:
      head: the task head, if the names of its tensors are ambiguous.
      config: the architecture, for a checkpoint without a config.
      overrides: fields of the config to replace.
    """

    head: str | None = None
    config: AlbertConfig | None = None
    overrides: Mapping[str, Any] = dataclasses.field(default_factory=dict)


class LazyArrays(Mapping[str, np.ndarray]):
    """Variable path -> array, read anew on each access."""

    def __init__(self, paths: Iterable[str], read: Callable[[str], np.ndarray]):
        self._paths = dict.fromkeys(paths)
        self._read = read

    def __getitem__(self, path: str) -> np.ndarray:
        if path not in self._paths:
            raise KeyError(path)
        return self._read(path)

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


def check_vocabulary(tokenizer: Tokenizer, config: AlbertConfig) -> None:
    """Raises an `InputError` if a tokenizer has more ids than a model."""
    if tokenizer.vocab_size > config.vocab_size:
        raise InputError(
            f"the tokenizer has {tokenizer.vocab_size} pieces, but the model's "
            f"vocab_size is {config.vocab_size}; use the tokenizer that the "
            "model was trained with"
        )


def folder_vocabulary(
    folder: str | os.PathLike[str], system: str, do_lower_case: bool = True
) -> Vocabulary:
    """Loads the tokenizer in a checkpoint's folder.

    `system` is "huggingface", whose files include the tokenizer's settings, or
    "google", whose settings are those of the original code. Its files do not
    say whether text is lower-cased.
    """
    folder = pathlib.Path(folder)
    try:
        if system == "huggingface" and _has_tokenizer(folder):
            return Vocabulary(load_tokenizer(folder))
        models = (
            sorted([*folder.glob("*.model"), *folder.glob("*.spm")])
            or sorted(folder.glob(WORDPIECE_FILE))
            or sorted(folder.glob("vocab*.txt"))  # vocab_chinese.txt
        )
        if len(models) == 1:
            tokenizer = AlbertTokenizer.from_file(
                models[0], do_lower_case=do_lower_case
            )
            return Vocabulary(tokenizer)
    # The weights are usable without a tokenizer; the report has the problem.
    except InputError as error:
        return Vocabulary(problem=str(error))
    if models:
        names = ", ".join(path.name for path in models)
        return Vocabulary(problem=f"{folder} has several vocabularies: {names}")
    return Vocabulary()


def _has_tokenizer(folder: pathlib.Path) -> bool:
    """Returns whether the folder has files that `load_tokenizer` reads."""
    if any((folder / name).exists() for name in (MODEL_FILE, WORDPIECE_FILE)):
        return True
    # A vocab.txt makes the tokenizer.json beside it redundant.
    return (folder / TOKENIZER_JSON).exists() and not any(
        folder.glob("vocab*.txt")
    )


def check_tokenizer(
    name: str, checkpoint: Checkpoint, tokenizer: Tokenizer | None
) -> None:
    """Checks that records have the vocabulary of a checkpoint.

    The pieces and the treatment of case and accents must be the same;
    KerasHub's tokenizers do not record the latter. Without a tokenizer of
    checkpoint or records, `Records.check_model` compares only the sizes. `name`
    is the setting and the path of the checkpoint, for error messages.
    """
    ours = checkpoint.tokenizer
    if ours is None or tokenizer is None:
        return
    if ours.fingerprint != tokenizer.fingerprint:
        difference = _first_difference(ours, tokenizer)
        if difference:
            raise InputError(
                f"{name}: its vocabulary is not that of the records: "
                f"{difference}; make the records with the tokenizer of the "
                "checkpoint, or give the checkpoint their vocabulary "
                "with `albert convert --spm_model_file`"
            )
    if checkpoint.format == "KerasHub":
        return
    for setting in CASE_SETTINGS:
        before, after = ours.settings[setting], tokenizer.settings[setting]
        if before != after:
            raise InputError(
                f"{name}: its tokenizer has {setting}={before}, that of the "
                f"records {setting}={after}; make the records with the "
                "tokenizer of the checkpoint"
            )


def _first_difference(ours: Tokenizer, theirs: Tokenizer) -> str:
    """Returns where the pieces of two vocabularies differ; "" if nowhere."""
    if ours.vocab_size != theirs.vocab_size:
        return f"{ours.vocab_size} pieces, the records' {theirs.vocab_size}"
    for number in range(ours.vocab_size):
        pieces = ours.id_to_piece(number), theirs.id_to_piece(number)
        if pieces[0] != pieces[1]:
            return (
                f"piece {number} is {pieces[0]!r}, the records' {pieces[1]!r}"
            )
    return ""
