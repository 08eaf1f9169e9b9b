"""Converts a checkpoint of any system into a format that others read."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Collection, Mapping
from typing import Any

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.interop.checkpoint import Checkpoint, LazyArrays
from albert_tf.interop.formats import google, huggingface, keras_hub
from albert_tf.interop.names import HEADS, part_of
from albert_tf.interop.opening import open_checkpoint
from albert_tf.interop.vocabularies import Vocabulary
from albert_tf.new_folder import new_folder

# Format -> what writes it, and the file by which its folders are known: the
# weights, since a training run has a config.json too.
WRITERS: dict[str, tuple[Callable, str]] = {
    "huggingface": (huggingface.write_huggingface, huggingface.WEIGHTS_FILE),
    "google": (google.write_google, f"{google.CHECKPOINT}.index"),
    "keras_hub": (keras_hub.write_keras_hub, keras_hub.BACKBONE_FILE),
}

_POOLED = ("sop_head", "classifier_head", "choice_head")

_DROPPABLE = ("tokenizer", "pooler", *HEADS)


def convert(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    to: str = "huggingface",
    head: str | None = None,
    drop: Collection[str] = (),
    config: AlbertConfig | None = None,
    config_overrides: Mapping[str, Any] | None = None,
    revision: str | None = None,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Checkpoint:
    """Writes what a checkpoint holds in another format.

    All of it: a part that the format has no place for is an error, unless it is
    dropped by name. Tensors are read, transformed and written one after
    another, so that memory holds a few of them.

    Args:
      source: see `open_checkpoint`.
      output: the folder to make; it appears when it is complete.
      to: one of `WRITERS`. "huggingface" is also our own format.
      head: see `open_checkpoint`.
      drop: parts to leave out, such as "sop_head", or "tokenizer".
      config: see `open_checkpoint`.
      config_overrides: see `open_checkpoint`.
      revision: see `open_checkpoint`.
      overwrite: replace an earlier result in `output`.
      progress: called with the number of tensors done and of all.

    Returns:
      The checkpoint that was read; its `report()` says what was found.

    Raises:
      InputError: the source cannot be opened, `output` is taken, or the format
        cannot express what the source holds.
    """
    if to not in WRITERS:
        raise InputError(f"to={to!r} must be one of {', '.join(WRITERS)}")
    checkpoint = open_checkpoint(
        source,
        head=head,
        config=config,
        config_overrides=config_overrides,
        revision=revision,
    )
    if head is not None and head not in checkpoint.parts:
        raise InputError(
            f"head: {checkpoint.source} has no {head}; it has "
            f"{', '.join(checkpoint.heads) or 'no head'}"
        )
    kept = _without(checkpoint, drop)
    write, marker = WRITERS[to]
    done = 0

    def tick():
        nonlocal done
        done += 1
        if progress:
            progress(done, len(kept.arrays))

    with new_folder(output, overwrite, marker) as folder:
        write(kept, folder, tick)
    return checkpoint


def _without(checkpoint: Checkpoint, drop: Collection[str]) -> Checkpoint:
    """Returns the checkpoint without some of its parts."""
    vocabulary = checkpoint.vocabulary
    if "tokenizer" in drop:
        vocabulary = Vocabulary()
    elif vocabulary.problem:
        raise InputError(
            f"{vocabulary.problem}; drop it with --drop=tokenizer, or mend it"
        )
    missing = checkpoint.missing_head
    if missing and missing not in drop:
        raise InputError(
            f"the config of {checkpoint.source} says that there is a "
            f"{missing}, but there is no tensor of it; --drop={missing} "
            "writes the rest"
        )
    for part in drop:
        if part not in _DROPPABLE:
            raise InputError(
                f"drop: {part!r} must be one of {', '.join(_DROPPABLE)}"
            )
        if part not in {"tokenizer", missing, *checkpoint.parts}:
            raise InputError(
                f"drop: {checkpoint.source} has no {part}; it has "
                f"{', '.join(checkpoint.heads) or 'no head'}"
            )
    if not drop:
        return checkpoint
    readers = set(checkpoint.parts) & set(_POOLED) - set(drop)
    if "pooler" in drop and readers:
        raise InputError(
            f"drop: the {sorted(readers)[0]} reads the pooler's output; drop "
            "both or neither"
        )
    arrays = checkpoint.arrays
    return dataclasses.replace(
        checkpoint,
        parts=checkpoint.parts - set(drop),
        vocabulary=vocabulary,
        arrays=LazyArrays(
            {
                path: (lambda path=path: arrays[path])
                for path in arrays
                if part_of(path) not in drop
            }
        ),
    )
