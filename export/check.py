"""Verification of a finished export: `albert export --check`."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from albert_tf.errors import InputError
from albert_tf.export.config import KINDS
from albert_tf.export.export import checkpoint_tokenizer, pretrained_model
from albert_tf.export.litert import task_program
from albert_tf.export.litert_conversion import LiteRtProgram, encoder_program
from albert_tf.export.manifest import MANIFEST
from albert_tf.export.model_card import CARD
from albert_tf.files import check_not_web_address
from albert_tf.finetuning.model_folder import load_model, open_model_folder
from albert_tf.finetuning.predictor import Predictor
from albert_tf.finetuning.task_config import TaskConfig
from albert_tf.interop.checkpoint import Checkpoint
from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.models.base import ENCODER_INPUTS, MASKED_LM_POSITIONS
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.text.base_tokenizer import Tokenizer

Arrays = Mapping[str, np.ndarray]

_PROGRAM = pathlib.Path(__file__).with_name("check_program.py")
_START = """\
import runpy, sys
sys.modules["albert_tf"] = None
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
_TEXTS = (
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


@dataclasses.dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
      name: of the check.
      result: "pass", "FAIL", or "skip" where there is nothing to judge.
      figure: what was measured, or what is wrong.
    """

    name: str
    result: str
    figure: str = ""


def read_export(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Returns the values of an export's `export.json`.

    Raises:
      InputError: there is no export, or its `export.json` cannot be read.
    """
    check_not_web_address(folder, "the folder of a finished `albert export`")
    path = pathlib.Path(folder) / MANIFEST
    if not path.is_file():
        raise InputError(
            f"check={os.fspath(folder)}: no {MANIFEST}; expected the folder of "
            "a finished `albert export`"
        )
    try:
        values = json.loads(path.read_text("utf-8"))
        kind = values["kind"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} cannot be read ({error!r})") from None
    if kind not in KINDS:
        raise InputError(
            f"{path}: kind {kind!r} must be one of {', '.join(KINDS)}"
        )
    return values


def check_export(
    folder: str | os.PathLike[str],
    model: str | os.PathLike[str] | None = None,
) -> list[Finding]:
    """Verifies an export in a fresh process that cannot import albert_tf.

    Args:
      folder: the export.
      model: the checkpoint it was made from, to compare outputs with; None
        leaves the comparison out.

    Returns:
      A finding per check, in order. Where the process crashed, the last one
      says so.

    Raises:
      InputError: there is no export, or `model` cannot be opened or has another
        architecture or task.
    """
    manifest = read_export(folder)
    cases = [] if model is None else source_cases(model, manifest)
    findings = [_check_files(pathlib.Path(folder), manifest)]
    if model is None:
        findings.append(Finding("source model", "skip", "no --model"))
    with tempfile.TemporaryDirectory() as scratch:
        report = pathlib.Path(scratch, "findings")
        report.touch()
        write_cases(pathlib.Path(scratch, "cases.npz"), cases)
        files = [os.path.abspath(folder), "findings", "cases.npz"]
        ended = subprocess.run(
            [sys.executable, "-c", _START, os.fspath(_PROGRAM), *files],
            cwd=scratch,
            env={"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ},
            capture_output=True,
            text=True,
            check=False,
        )
        lines = [json.loads(x) for x in report.read_text("utf-8").splitlines()]
    findings += [Finding(**line) for line in lines if line]
    if not lines or lines[-1]:
        last = (ended.stderr.strip().splitlines() or [""])[-1]
        figure = f"status {ended.returncode}: {last}"
        findings.append(Finding("finished", "FAIL", figure))
    return findings


def _check_files(folder: pathlib.Path, manifest: Mapping[str, Any]) -> Finding:
    """Checks that all files are there, and none is empty."""
    saved_model = ("saved_model.pb", "variables/variables.index")
    names = (manifest["file"],) if "file" in manifest else saved_model
    for name in (MANIFEST, CARD, *names):
        path = folder / name
        if not path.is_file() or not path.stat().st_size:
            return Finding("files", "FAIL", f"{name} is missing or empty")
    return Finding("files", "pass")


def findings_table(findings: Sequence[Finding]) -> str:
    """Returns a line per finding: check, result, figure."""
    rows = [("check", "result", "figure")]
    rows += [(x.name, x.result, x.figure) for x in findings]
    width = max(len(name) for name, _, _ in rows)
    return "\n".join(
        f"{name:{width}}  {result:6}  {figure}".rstrip()
        for name, result, figure in rows
    )


def source_cases(
    model: str | os.PathLike[str], manifest: Mapping[str, Any]
) -> list[Case]:
    """Returns what an export's source model returns for some inputs.

    Args:
      model: the checkpoint that the export was made from.
      manifest: the values of `export.json`.

    Raises:
      InputError: see `check_export`.
    """
    checkpoint = open_checkpoint(model, head="classifier_head")
    tokenizer = checkpoint_tokenizer(checkpoint, model)
    config = checkpoint.config.to_dict()
    _check_same(model, config, manifest.get("config", {}))
    if "task" in manifest:
        config = TaskConfig.from_dict(manifest["task"]).to_dict()
        expected = {name: config[name] for name in ("task_type", "labels")}
        found = open_model_folder(model).task_config.to_dict()
        _check_same(model, found, expected)
    match manifest["kind"]:
        case "encoder":
            cases = _encoder_cases(checkpoint)
        case "preprocessor":
            cases = _preprocessor_cases(tokenizer, manifest["seq_length"])
        case "text_encoder":
            cases = _text_encoder_cases(
                checkpoint, tokenizer, manifest["seq_length"]
            )
        case "task":
            cases = _task_cases(model, manifest["task"]["settings"])
        case "litert" if "task" in manifest:
            settings = manifest["task"]["settings"]
            loaded = load_model(model, settings, packed=False)
            cases = _litert_cases(task_program(loaded), checkpoint)
        case _:  # The LiteRT file of an encoder.
            encoder = AlbertEncoder.from_checkpoint(checkpoint)
            program = encoder_program(
                encoder, seq_length=manifest["seq_length"]
            )
            cases = _litert_cases(program, checkpoint)
    return list(cases)


def _check_same(
    model: str | os.PathLike[str],
    found: Mapping[str, Any],
    expected: Mapping[str, Any],
) -> None:
    for name, value in expected.items():
        if found[name] != value:
            raise InputError(
                f"model={os.fspath(model)} has {name}={found[name]}, but the "
                f"export {value}; name the checkpoint it was made from"
            )


def _encoder_cases(checkpoint: Checkpoint) -> Iterator[Case]:
    model = pretrained_model(checkpoint)
    has_heads = isinstance(model, AlbertPretrainer)
    encoder = model.encoder if has_heads else model
    longest = checkpoint.config.max_position_embeddings
    rows = _random_rows(checkpoint, [longest, longest // 2, 1])
    outputs = _some(encoder(rows), "sequence_output", "pooled_output")
    yield Case("random ids", "", rows, outputs)
    if not has_heads:
        return
    # The first and the last real token, and one in the middle.
    last = np.sum(rows["input_mask"], axis=1) - 1
    positions = np.stack([0 * last, last, last // 2], 1).astype("int32")
    inputs = {**rows, MASKED_LM_POSITIONS: positions}
    outputs = model(inputs)
    yield Case("random ids", "mlm", inputs, _some(outputs, "mlm_logits"))
    if "sop_logits" in outputs:
        yield Case("random ids", "sop", rows, _some(outputs, "sop_logits"))


def _preprocessor_cases(
    tokenizer: Tokenizer, seq_length: int
) -> Iterator[Case]:
    ids = tokenizer.encode(list(_TEXTS))
    tokens = {
        "values": np.array([x for row in ids for x in row], "int32"),
        "row_splits": np.cumsum([0, *map(len, ids)]),
    }
    rows = _rows(tokenizer, seq_length, "max_length")
    yield Case("text", "tokenize", _strings(text=_TEXTS), tokens)
    yield Case("text", "serving_default", _strings(text=_TEXTS), rows)


def _text_encoder_cases(
    checkpoint: Checkpoint, tokenizer: Tokenizer, seq_length: int
) -> Iterator[Case]:
    rows = _rows(tokenizer, seq_length, "longest")
    outputs = _some(
        AlbertEncoder.from_checkpoint(checkpoint)(rows),
        "pooled_output",
        "sequence_output",
    )
    states, mask = outputs.pop("sequence_output"), rows["input_mask"]
    mean = np.einsum("bsh,bs->bh", states, mask) / mask.sum(1)[:, None]
    strings, outputs["mean_output"] = _strings(text=_TEXTS), mean
    yield Case("text", "serving_default", strings, outputs)
    yield Case("text", "sequence", strings, {"sequence_output": states, **rows})


def _task_cases(
    model: str | os.PathLike[str], settings: Mapping[str, Any]
) -> Iterator[Case]:
    predictor = Predictor(model, settings)
    examples = predictor.task_type.sample_examples(_TEXTS)
    strings, outputs = predictor.task_type.serving_arrays(
        examples, predictor(examples).predictions
    )
    yield Case("text", "serving_default", _strings(**strings), outputs)


def _litert_cases(
    program: LiteRtProgram, checkpoint: Checkpoint
) -> Iterator[Case]:
    length = program.seq_length
    rows = _random_rows(checkpoint, [length, length // 2, 1])
    # Nothing is masked: scores of masked positions are arbitrary.
    zeros = np.zeros_like(rows["input_mask"])
    inputs = dict.fromkeys(program.inputs, zeros) | dict(rows)
    outputs = program.forward(program.model, inputs)
    # Positions depend on rounding where scores are alike.
    floats = [name for name, x in outputs.items() if x.dtype.is_floating]
    outputs = _some(outputs, *floats)
    yield Case("random ids", "serving_default", inputs, outputs)


def _rows(
    tokenizer: Tokenizer,
    length: int,
    padding: Literal["longest", "max_length"],
) -> Arrays:
    """Returns the texts as inputs of the model."""
    texts = list(_TEXTS)
    return tokenizer(texts, max_length=length, padding=padding)


def _random_rows(checkpoint: Checkpoint, lengths: list[int]) -> Arrays:
    """Returns rows of random ids with some lengths, padded to the longest."""
    rng = np.random.default_rng(0)
    mask = np.arange(max(lengths)) < np.array(lengths)[:, None]
    ids = rng.integers(0, checkpoint.config.vocab_size, mask.shape)
    types = rng.integers(0, checkpoint.config.type_vocab_size, mask.shape)
    rows = (ids * mask, mask, types * mask)
    return {
        name: row.astype("int32")
        for name, row in zip(ENCODER_INPUTS, rows, strict=True)
    }


def _strings(**texts: Sequence[Any]) -> Arrays:
    """Returns lists of texts as arrays of UTF-8."""
    return {
        name: np.char.encode(np.array(values, str), "utf-8")
        for name, values in texts.items()
    }


def _some(outputs: Mapping[str, Any], *names: str) -> dict[str, np.ndarray]:
    """Returns some outputs as arrays."""
    return {name: np.asarray(outputs[name]) for name in names}


def write_cases(path: pathlib.Path, cases: Sequence[Case]) -> None:
    """Writes cases for `check_program.read_cases`."""
    arrays = {
        f"{number}/{part}/{name}": array
        for number, case in enumerate(cases)
        for part in ("inputs", "outputs")
        for name, array in getattr(case, part).items()
    }
    names = [
        dataclasses.asdict(case)
        | {"inputs": list(case.inputs), "outputs": list(case.outputs)}
        for case in cases
    ]
    np.savez(path, cases=json.dumps(names), **arrays)
