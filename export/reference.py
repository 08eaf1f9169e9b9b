"""Expected outputs of exports, computed by their source models."""

from __future__ import annotations

import os
import pathlib
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.exporting.encoder import load_with_heads
from albert_tf.exporting.huggingface_layout import (
    INPUT_NAMES,
    huggingface_program,
)
from albert_tf.exporting.runtimes import task_program
from albert_tf.finetuning.example_texts import (
    make_example,
    sample_texts,
    served_arrays,
    serving_inputs,
)
from albert_tf.finetuning.model_folder import load_model, open_model_folder
from albert_tf.finetuning.predictor import Predictor
from albert_tf.finetuning.task_config import TaskConfig
from albert_tf.interop.names import ANY_HEAD
from albert_tf.interop.open_checkpoint import open_checkpoint, open_fine_tuned
from albert_tf.models.base import MASKED_LM_POSITIONS
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrained import tokenizer_of
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.runtimes.ids_program import IdsProgram, encoder_program
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.packing import ENCODER_INPUTS

Path = str | os.PathLike[str]
Arrays = Mapping[str, np.ndarray]

_TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "A good film: 12, 1,000 and 99,999, seen 7 times, twice.",
    "Étude naïve, ﬁlm, İstanbul, Straße, ΟΔΟΣ ΣΑΣ",
    "``good'' “bad” 'film' (1985) - what's-his-name?!",
    "[CLS] [MASK] <pad> [SEP] <unk> ▁the",
    "😀 中文 हिन्दी 한국 \u200b\u00a0 tab\tend",
    "",
    "It was the best of times, it was the worst of times. " * 9,
]


class Case(NamedTuple):
    """Inputs of an export, and what its source model returns for them.

    Attributes:
      name: describes the inputs, such as "random ids".
      endpoint: a signature, "" for the loaded object, or one of its attributes,
        such as "mlm".
      inputs: name -> array; strings are UTF-8 bytes.
      outputs: name -> array, for some or all of the outputs.
    """

    name: str
    endpoint: str
    inputs: Arrays
    outputs: Arrays


def write_cases(path: Path, cases: Iterable[Case]) -> None:
    """Writes cases for `check_program`, which does not know the class."""
    pathlib.Path(path).write_bytes(pickle.dumps([tuple(x) for x in cases]))


def source_cases(model: Path, manifest: Mapping[str, Any]) -> list[Case]:
    """Computes the outputs that an export must return for some inputs.

    Args:
      model: the checkpoint that the export was made from.
      manifest: the contents of `export.json`.

    Raises:
      InputError: if `model` cannot be opened, or has another architecture,
        vocabulary or task than the export.
    """
    # An archive is unpacked as long as it is open.
    tuned, opened = open_fine_tuned(model)
    model = tuned or model
    checkpoint = opened or open_checkpoint(model, head=ANY_HEAD)
    tokenizer = tokenizer_of(checkpoint, model)
    if "config" in manifest:
        _check_same(model, checkpoint.config.to_dict(), manifest["config"])
    if manifest.get("tokenizer"):
        fingerprint = manifest["tokenizer"]["fingerprint"]
        _check_same(
            model,
            {"vocabulary_sha256": tokenizer.fingerprint},
            {"vocabulary_sha256": fingerprint},
        )
    settings: Mapping[str, Any] = {}
    if "task" in manifest:
        settings = manifest["task"].get("settings", {})
        config = TaskConfig.from_dict(manifest["task"]).to_dict()
        expected = {name: config[name] for name in ("task_type", "labels")}
        task = open_model_folder(model).task_config.to_dict()
        found = {name: task[name] for name in expected}
        _check_same(model, found, expected)
    length = manifest.get("seq_length", 0)
    packed = bool(manifest.get("packed"))
    match manifest["kind"]:
        case "encoder":
            cases = _encoder_cases(load_with_heads(checkpoint))
        case "preprocessor":
            cases = _preprocessor_cases(tokenizer, length)
        case "text_encoder":
            encoder = AlbertEncoder.from_checkpoint(checkpoint)
            cases = _text_encoder_cases(encoder, tokenizer, length)
        case "task":
            cases = _task_cases(model, settings)
        case _ if manifest.get("layout") == "huggingface":
            page = manifest["kind"] == "web"
            cases = _huggingface_cases(
                huggingface_program(checkpoint, length, page=page)
            )
        case _:
            if "task" in manifest:
                loaded = load_model(model, settings, packed=packed)
                program = task_program(loaded)
            else:
                encoder = AlbertEncoder.from_checkpoint(
                    checkpoint, packed=packed
                )
                program = encoder_program(encoder, seq_length=length)
            cases = _runtime_cases(program)
            if manifest.get("mediapipe_task"):
                cases = [*cases, _mediapipe_case(program, tokenizer)]
    return list(cases)


def _check_same(
    model: Path, found: Mapping[str, Any], expected: Mapping[str, Any]
) -> None:
    for name in dict.fromkeys((*expected, *found)):
        ours, value = found.get(name), expected.get(name)
        if ours != value:
            raise InputError(
                f"model={os.fspath(model)} has {name}={ours}, but the "
                f"export has {value}; give the checkpoint that it was made from"
            )


def _encoder_cases(model: AlbertPretrainer | AlbertEncoder) -> Iterator[Case]:
    encoder = model.encoder if isinstance(model, AlbertPretrainer) else model
    ids = _random_ids(model.config, model.config.max_position_embeddings)
    outputs = _arrays(encoder(ids), "sequence_output", "pooled_output")
    yield Case("random ids", "", ids, outputs)
    if model is encoder:
        return
    # The first and the last token of each row, and one in the middle.
    last = np.sum(ids["input_mask"], axis=1) - 1
    positions = np.stack([0 * last, last, last // 2], 1).astype("int32")
    inputs = {**ids, MASKED_LM_POSITIONS: positions}
    outputs = model(inputs)
    yield Case("random ids", "mlm", inputs, _arrays(outputs, "mlm_logits"))
    if "sop_logits" in outputs:
        yield Case("random ids", "sop", ids, _arrays(outputs, "sop_logits"))


def _preprocessor_cases(tokenizer: Tokenizer, length: int) -> Iterator[Case]:
    ids = tokenizer.encode(_TEXTS)
    tokens = {
        "values": np.array([x for row in ids for x in row], "int32"),
        "row_splits": np.cumsum([0, *map(len, ids)]),
    }
    rows = tokenizer(_TEXTS, max_length=length, padding="max_length")
    yield Case("text", "tokenize", _strings(text=_TEXTS), tokens)
    yield Case("text", "serving_default", _strings(text=_TEXTS), rows)


def _text_encoder_cases(
    encoder: AlbertEncoder, tokenizer: Tokenizer, length: int
) -> Iterator[Case]:
    rows = tokenizer(_TEXTS, max_length=length, padding="longest")
    outputs = _arrays(encoder(rows), "pooled_output", "sequence_output")
    states, mask = outputs.pop("sequence_output"), rows["input_mask"]
    sums = np.einsum("bsh,bs->bh", states, mask)
    outputs["mean_output"] = sums / mask.sum(1)[:, None]
    texts = _strings(text=_TEXTS)
    yield Case("text", "serving_default", texts, outputs)
    yield Case("text", "sequence", texts, {"sequence_output": states, **rows})


def _task_cases(model: Path, settings: Mapping[str, Any]) -> Iterator[Case]:
    predictor = Predictor(model, settings)
    task_type = predictor.task_type
    samples = sample_texts(task_type, _TEXTS)
    examples = [make_example(task_type, x, "") for x in samples]
    outputs = served_arrays(
        task_type, predictor.predict_examples(examples).predictions
    )
    inputs = serving_inputs(task_type, samples)
    yield Case("text", "serving_default", _strings(**inputs), outputs)


def _runtime_cases(program: IdsProgram) -> Iterator[Case]:
    ids = _random_ids(program.model.config, program.seq_length)
    # Other masks are zero, as the scores of masked positions are arbitrary.
    zeros = np.zeros_like(ids["input_mask"])
    inputs = dict.fromkeys(program.inputs, zeros) | ids
    outputs = program.forward(program.model, inputs)
    # Which of two similar scores is higher depends on rounding.
    floats = [name for name, x in outputs.items() if x.dtype.is_floating]
    outputs = _arrays(outputs, *floats)
    yield Case("random ids", "serving_default", inputs, outputs)


def _mediapipe_case(program: IdsProgram, tokenizer: Tokenizer) -> Case:
    # Texts of which MediaPipe makes the same ids.
    texts = [*_TEXTS[:2], _TEXTS[-1]]
    rows = tokenizer(texts, max_length=program.seq_length, padding="max_length")
    outputs = program.forward(program.model, rows)
    outputs = _arrays(outputs, min(outputs))
    return Case("text in MediaPipe", "mediapipe", _strings(text=texts), outputs)


def _huggingface_cases(program: IdsProgram) -> Iterator[Case]:
    for case in _runtime_cases(program):
        inputs = {INPUT_NAMES[x]: y for x, y in case.inputs.items()}
        yield case._replace(inputs=inputs)


def _random_ids(config: AlbertConfig, longest: int) -> dict[str, np.ndarray]:
    """Returns a full row, one half as long, and one of a single token."""
    rng = np.random.default_rng(0)
    lengths = np.array([longest, longest // 2, 1])
    mask = np.arange(longest) < lengths[:, None]
    ids = rng.integers(0, config.vocab_size, mask.shape)
    types = rng.integers(0, config.type_vocab_size, mask.shape)
    rows = (ids * mask, mask, types * mask)
    return {
        name: row.astype("int32")
        for name, row in zip(ENCODER_INPUTS, rows, strict=True)
    }


def _strings(**texts: Sequence[Any]) -> dict[str, np.ndarray]:
    return {
        name: np.char.encode(np.array(values, str), "utf-8")
        for name, values in texts.items()
    }


def _arrays(outputs: Mapping[str, Any], *names: str) -> dict[str, np.ndarray]:
    return {name: np.asarray(outputs[name]) for name in names}
