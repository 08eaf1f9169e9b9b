"""A checkpoint in this library's names, whatever system wrote it."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.interop.names import ALWAYS_PROJECTS, HEADS, tensors_of
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.tokenizer_files import (
    MODEL_FILE,
    WORDPIECE_FILE,
    load_tokenizer,
    tokenizer_files,
)
from albert_tf.text.tokenizer_json import TOKENIZER_JSON, tokenizer_json


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """The tokenizer of a checkpoint, if it has a usable one.

    Attributes:
      tokenizer: the tokenizer, or None.
      problem: why the tokenizer that is there cannot be used, or "".
    """

    tokenizer: Tokenizer | None = None
    problem: str = ""

    def describe(self) -> str:
        """Returns one line for a report."""
        if self.tokenizer:
            return f"tokenizer: {self.tokenizer.vocab_size:,} pieces"
        return f"tokenizer: none{self.problem and f' ({self.problem})'}"

    def huggingface_files(self, max_length: int) -> dict[str, bytes]:
        """Returns name -> content in Hugging Face's layout.

        Args:
          max_length: the longest row that the model takes.
        """
        if self.tokenizer is None:
            return {}
        files = tokenizer_files(self.tokenizer, max_length=max_length)
        # From a vocab.txt, transformers 5 makes the right one itself.
        if isinstance(self.tokenizer, AlbertTokenizer):
            files[TOKENIZER_JSON] = tokenizer_json(self.tokenizer)
        return files


@dataclasses.dataclass(frozen=True)
class HeadSettings:
    """Settings of a task head.

    Attributes:
      num_labels: classes of a classifier or token classifier; 1: regression.
      labels: their names, in order, if they are known.
      dropout: rate before the head.
    """

    num_labels: int = 1
    labels: tuple[str, ...] | None = None
    dropout: float = 0.1


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A model's architecture, weights and tokenizer.

    Attributes:
      config: the architecture.
      components: which of `interop.names.COMPONENTS` it has.
      arrays: our path -> float32 array, read on access.
      head: settings of the task head.
      vocabulary: its tokenizer.
      source: path it was read from.
      format: name of the source's format.
      skipped: tensors of the source that are not weights -> reason.
      missing_head: a head that its config names, without any tensor.
      notes: further lines of the report.
    """

    config: AlbertConfig
    components: frozenset[str]
    arrays: Mapping[str, np.ndarray]
    head: HeadSettings = HeadSettings()
    vocabulary: Vocabulary = Vocabulary()
    source: str = ""
    format: str = ""
    skipped: Mapping[str, str] = dataclasses.field(default_factory=dict)
    missing_head: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def tokenizer(self) -> Tokenizer | None:
        """Its tokenizer, if it has one that can be used."""
        return self.vocabulary.tokenizer

    @property
    def heads(self) -> tuple[str, ...]:
        """Its heads, in the order of the table."""
        return tuple(head for head in HEADS if head in self.components)

    def tensors_for(
        self, system: str, tick: Callable[[], None] | None = None
    ) -> Iterator[tuple[str, np.ndarray]]:
        """Yields the names and arrays of its tensors in another system.

        A system that always projects the embeddings gets an identity where the
        model has no projection.

        Args:
          system: one of `interop.names.FORMATS`.
          tick: called after every tensor of the checkpoint, if given.
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
            if tick and is_ours:
                tick()

    def report(self) -> str:
        """Returns lines on the loaded and skipped tensors and the tokenizer."""
        components = [
            name for name in ("pooler", *HEADS) if name in self.components
        ]
        lines = [
            f"loaded {len(self.arrays)} tensors from {self.source} "
            f"({self.format})",
            f"components: {', '.join(['encoder', *components])}",
            self.vocabulary.describe(),
        ]
        reasons: dict[str, list[str]] = {}
        for name, reason in self.skipped.items():
            reasons.setdefault(reason, []).append(name)
        for reason, names in reasons.items():
            shown = ", ".join(names[:3]) + (", ..." if names[3:] else "")
            lines.append(f"skipped {len(names)} ({reason}): {shown}")
        if self.missing_head:
            lines.append(
                f"missing: {self.missing_head}, which the config names"
            )
        return "\n".join([*lines, *self.notes])


class LazyArrays(Mapping[str, np.ndarray]):
    """Path -> array, read on access and not kept."""

    def __init__(self, readers: Mapping[str, Callable[[], np.ndarray]]):
        self._readers = dict(readers)

    def __getitem__(self, path: str) -> np.ndarray:
        return self._readers[path]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)


def folder_vocabulary(
    folder: str | os.PathLike[str], system: str, do_lower_case: bool = True
) -> Vocabulary:
    """Finds the tokenizer in a folder.

    Args:
      folder: of the checkpoint.
      system: "huggingface" (the settings are in its files) or "google" (the
        settings of the original code).
      do_lower_case: whether Google's lower-cases, which none of its files
        says.
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
    # The weights can be used without it; the report names the problem.
    except InputError as error:
        return Vocabulary(problem=str(error))
    if models:
        names = ", ".join(path.name for path in models)
        return Vocabulary(
            problem=f"{folder} holds several vocabularies: {names}"
        )
    return Vocabulary()


def _has_tokenizer(folder: pathlib.Path) -> bool:
    """Returns whether `load_tokenizer` is for this folder's vocabulary."""
    if any((folder / name).exists() for name in (MODEL_FILE, WORDPIECE_FILE)):
        return True
    # A vocab.txt already says what the tokenizer.json beside it does.
    return (folder / TOKENIZER_JSON).exists() and not any(
        folder.glob("vocab*.txt")
    )
