"""Inputs of exports, and what their source models return for them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from albert_tf.interop.checkpoint import Checkpoint
from albert_tf.models.base import ENCODER_INPUTS
from albert_tf.text.base_tokenizer import Tokenizer

Arrays = Mapping[str, np.ndarray]

TEXTS = (
    "The quick brown fox jumps over the lazy dog.",
    "A good film: 12, 1,000 and 99,999, seen 7 times, twice.",
    "Étude naïve, ﬁlm, İstanbul, Straße, ΟΔΟΣ ΣΑΣ",
    "``good'' “bad” 'film' (1985) - what's-his-name?!",
    "[CLS] [MASK] <pad> [SEP] <unk> ▁the",
    "😀 中文 हिन्दी 한국 \u200b\u00a0 tab\tend",
    "",
    "It was the best of times, it was the worst of times. " * 9,
)


@dataclasses.dataclass(frozen=True)
class Case:
    """Inputs of an export, and the outputs of its source model.

    Attributes:
      name: of the inputs, such as "random ids".
      endpoint: a signature, the loaded object (""), or a part of it ("mlm").
      inputs: name -> array; strings are UTF-8 bytes.
      outputs: name -> array, for some of the outputs.
    """

    name: str
    endpoint: str
    inputs: Arrays
    outputs: Arrays


def random_ids(checkpoint: Checkpoint, longest: int) -> dict[str, np.ndarray]:
    """Returns rows of random ids: a full one, half a one, and one token."""
    rng = np.random.default_rng(0)
    lengths = np.array([longest, longest // 2, 1])
    mask = np.arange(longest) < lengths[:, None]
    ids = rng.integers(0, checkpoint.config.vocab_size, mask.shape)
    types = rng.integers(0, checkpoint.config.type_vocab_size, mask.shape)
    rows = (ids * mask, mask, types * mask)
    return {
        name: row.astype("int32")
        for name, row in zip(ENCODER_INPUTS, rows, strict=True)
    }


def text_ids(
    tokenizer: Tokenizer,
    length: int,
    padding: Literal["longest", "max_length"],
) -> dict[str, np.ndarray]:
    """Returns the texts as inputs of a model."""
    return tokenizer(list(TEXTS), max_length=length, padding=padding)


def strings(**texts: Sequence[Any]) -> dict[str, np.ndarray]:
    """Returns lists of texts as arrays of UTF-8."""
    return {
        name: np.char.encode(np.array(values, str), "utf-8")
        for name, values in texts.items()
    }


def as_arrays(outputs: Mapping[str, Any], *names: str) -> dict[str, np.ndarray]:
    """Returns some outputs as arrays."""
    return {name: np.asarray(outputs[name]) for name in names}


def write_cases(path: str | os.PathLike[str], cases: Iterable[Case]) -> None:
    """Writes cases for `check_program.read_cases`."""
    arrays = {
        f"{number}/{case.name}/{case.endpoint}/{part}/{name}": array
        for number, case in enumerate(cases)
        for part in ("inputs", "outputs")
        for name, array in getattr(case, part).items()
    }
    np.savez(path, **arrays)
