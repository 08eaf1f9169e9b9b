"""What a source model makes of some inputs, for the check of an export."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.export.litert.program import LiteRtProgram, encoder_program
from albert_tf.interop.checkpoint import Checkpoint
from albert_tf.interop.opening import open_checkpoint
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.inputs import ENCODER_INPUTS, MASKED_LM_POSITIONS
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.tasks.exporting.encoder import pretraining_model
from albert_tf.tasks.exporting.litert import task_program
from albert_tf.tasks.exporting.opened import tokenizer_of
from albert_tf.tasks.exporting.task_answers import answers_of, as_strings
from albert_tf.tasks.finetuning.model_folder import (
    find_model,
    load_model,
    read_description,
)
from albert_tf.text.base_tokenizer import Tokenizer

Sets = dict[str, dict[str, np.ndarray]]

TEXTS = (
    "The quick brown fox jumps over the lazy dog.",
    "A good film: 12, 1,000 and 99,999, seen 7 times, twice.",
    "It was the best of times, it was the worst of times.",
    "Étude naïve, ﬁlm, İstanbul, Straße, ΟΔΟΣ ΣΑΣ",
    "``good'' “bad” 'film' (1985) - what's-his-name?!",
    "[CLS] [MASK] <pad> [SEP] <unk> ▁the",
    "😀 中文 हिन्दी 한국 \u200b\u00a0 tab\tend",
    "",
    "Whereas recognition of the inherent dignity and of the equal and "
    "inalienable rights of all members of the human family is the foundation "
    "of freedom, justice and peace in the world. " * 4,
)

_LONGEST_TEXT = 128
_RANDOM_LENGTH = 48
# Latin, Greek, Cyrillic, more Latin, Japanese, Chinese.
_CHARACTERS = [
    chr(code)
    for first, last in (
        (0x20, 0x24F),
        (0x370, 0x52F),
        (0x1E00, 0x1EFF),
        (0x3040, 0x30FF),
        (0x4E00, 0x4EFF),
    )
    for code in range(first, last + 1)
]


def expected_of(
    source: str | os.PathLike[str], manifest: Mapping[str, Any]
) -> Sets:
    """Returns what `check_export` compares an export with.

    Args:
      source: what the export was made of: a run's folder, or whatever
        `open_checkpoint` takes.
      manifest: what `export.json` says.

    Raises:
      InputError: the source cannot be opened, has no tokenizer, or has
        another architecture.
    """
    # Whose head it is does not matter.
    checkpoint = open_checkpoint(source, head="classifier_head")
    tokenizer = tokenizer_of(checkpoint, source)
    config = manifest.get("config", {})
    _check_same(source, "", checkpoint.config.to_dict(), config)
    if "task" in manifest:
        task = json.loads(read_description(find_model(source)).to_json())
        decisive = {name: manifest["task"][name] for name in ("kind", "labels")}
        _check_same(source, "its task ", task, decisive)
    match manifest["kind"]:
        case "encoder":
            return _of_encoder(checkpoint, tokenizer)
        case "preprocessor":
            return _of_preprocessor(tokenizer)
        case "text_encoder":
            length = manifest["seq_length"]
            return _of_text_encoder(checkpoint, tokenizer, length)
        case "task":
            settings = manifest["task"]["settings"]
            return {"text": answers_of(source, TEXTS, settings)}
        case "litert":
            return _of_litert(_program(source, checkpoint, manifest), tokenizer)


def _check_same(
    source: str | os.PathLike[str],
    what: str,
    found: Mapping[str, Any],
    wanted: Mapping[str, Any],
) -> None:
    for name, value in wanted.items():
        if found[name] != value:
            raise InputError(
                f"model={os.fspath(source)}: {what}has {name}={found[name]}, "
                f"but the export {value}; give what it was made of"
            )


def _of_encoder(checkpoint: Checkpoint, tokenizer: Tokenizer) -> Sets:
    model = pretraining_model(checkpoint)
    longest = checkpoint.config.max_position_embeddings
    length = min(_RANDOM_LENGTH, longest)
    inputs = {
        "random": _random_rows(checkpoint.config, [length, length // 2, 1]),
        "longest": _random_rows(checkpoint.config, [longest]),
        "text": dict(
            tokenizer(list(TEXTS), max_length=min(_LONGEST_TEXT, longest))
        ),
    }
    return {
        name: {**rows, **_outputs(model, rows)} for name, rows in inputs.items()
    }


def _of_text_encoder(
    checkpoint: Checkpoint, tokenizer: Tokenizer, seq_length: int
) -> Sets:
    model = AlbertEncoder.from_checkpoint(checkpoint)
    rows = tokenizer(list(TEXTS), max_length=seq_length)
    outputs = _outputs(model, rows)
    real = rows["input_mask"][:, :, None]
    mean = (outputs["sequence_output"] * real).sum(1) / real.sum(1)
    return {
        "text": {
            "texts": as_strings(TEXTS),
            **rows,
            "pooled_output": outputs["pooled_output"],
            "mean_output": mean,
        }
    }


def _program(
    source: str | os.PathLike[str],
    checkpoint: Checkpoint,
    manifest: Mapping[str, Any],
) -> LiteRtProgram:
    """Returns what a LiteRT model was converted from."""
    if "task" in manifest:
        settings = manifest["task"]["settings"]
        return task_program(load_model(source, settings, packed=False))
    return encoder_program(
        AlbertEncoder.from_checkpoint(checkpoint),
        seq_length=manifest["seq_length"],
    )


def _of_litert(program: LiteRtProgram, tokenizer: Tokenizer) -> Sets:
    """All rows have the length of the model."""
    length = program.seq_length
    text = tokenizer(list(TEXTS), max_length=length, padding="max_length")
    lengths = [length, length // 2, 1]
    sets = {}
    for name, rows in {
        "random": _random_rows(program.model.config, lengths),
        "text": dict(text),
    }.items():
        # Nothing is masked: of places that are, scores say nothing.
        extra = set(program.inputs) - set(rows)
        rows |= {x: np.zeros_like(rows["input_mask"]) for x in extra}
        outputs = program.forward(program.model, rows)
        # Places in the row follow the scores, but for ties.
        sets[name] = rows | {
            output: np.asarray(value)
            for output, value in outputs.items()
            if value.dtype.is_floating
        }
    return sets


def _random_rows(
    config: AlbertConfig, lengths: list[int]
) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    mask = np.arange(max(lengths)) < np.array(lengths)[:, None]
    ids = rng.integers(0, config.vocab_size, mask.shape)
    types = rng.integers(0, config.type_vocab_size, mask.shape)
    rows = (ids * mask, mask, types * mask)
    return {
        name: row.astype("int32")
        for name, row in zip(ENCODER_INPUTS, rows, strict=True)
    }


def _outputs(model, rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    if not isinstance(model, AlbertPretrainer):
        encoded, heads = model(rows), {}
    else:
        encoded = model.encoder(rows)
        # The first and the last real token, and one in the middle.
        last = np.sum(rows["input_mask"], axis=1) - 1
        positions = np.stack([0 * last, last, last // 2], 1).astype("int32")
        heads = model({**rows, MASKED_LM_POSITIONS: positions})
        heads = {name: heads[name] for name in heads if "logits" in name}
        heads[MASKED_LM_POSITIONS] = positions
    outputs = {
        name: encoded[name] for name in ("sequence_output", "pooled_output")
    }
    return {name: np.asarray(x) for name, x in {**outputs, **heads}.items()}


def _of_preprocessor(tokenizer: Tokenizer) -> Sets:
    rng = np.random.default_rng(0)
    random = [
        "".join(rng.choice(_CHARACTERS, rng.integers(1, 40)))
        for _ in range(200)
    ]
    return {
        "random": _ids(tokenizer, random),
        "text": _ids(tokenizer, list(TEXTS)),
    }


def _ids(tokenizer: Tokenizer, texts: list[str]) -> dict[str, np.ndarray]:
    ids = tokenizer.encode(texts)
    return {
        "texts": as_strings(texts),
        "values": np.array([i for row in ids for i in row], "int32"),
        "row_splits": np.cumsum([0, *map(len, ids)]),
    }
