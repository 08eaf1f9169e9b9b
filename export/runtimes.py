"""Exports from token ids to outputs, for LiteRT, ONNX Runtime and OpenVINO."""

from __future__ import annotations

import itertools
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from albert_tf.data.documents import read_documents
from albert_tf.data.text_files import find_text_files, read_lines
from albert_tf.errors import InputError
from albert_tf.exporting.config import ExportConfig, check_calibration
from albert_tf.exporting.huggingface_layout import (
    INPUT_NAMES,
    MODEL_FILE,
    huggingface_layout_files,
    write_huggingface_models,
)
from albert_tf.exporting.litert_conversion import (
    ConstantGraph,
    Example,
    convert,
)
from albert_tf.exporting.litert_metadata import (
    mediapipe_task,
    metadata_files,
    with_metadata,
)
from albert_tf.exporting.manifest import (
    MANIFEST,
    UNKNOWN,
    Origin,
    describe_file,
    describe_files,
    describe_tokenizer,
    describe_weights,
)
from albert_tf.exporting.model_card import describe_export
from albert_tf.exporting.runtime_formats import FORMATS
from albert_tf.files import PathPatterns
from albert_tf.finetuning.data import read_examples
from albert_tf.finetuning.example_texts import (
    examples_from_lines,
    reads_lines,
    text_ranks,
)
from albert_tf.finetuning.examples import BadExamples
from albert_tf.finetuning.model_folder import FinetunedModel
from albert_tf.finetuning.task_type import TaskType
from albert_tf.folders import new_folder
from albert_tf.models.pretrained import merged_weights
from albert_tf.runtimes.ids_program import IdsProgram
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.tokenizer_files import tokenizer_files

# The oldest date of the ZIP format, so that equal exports have equal bytes.
_DATE = (1980, 1, 1, 0, 0, 0)


def export_for_runtime(
    program: IdsProgram,
    config: ExportConfig,
    *,
    tokenizer: Tokenizer,
    calibration: Sequence[Example] | None = None,
    task: Mapping[str, Any] | None = None,
    origin: Origin = UNKNOWN,
) -> None:
    """Writes a model with its tokenizer, `export.json` and a model card.

    The model takes the program's inputs by name, int32 `[batch, seq]`, and
    returns its outputs by name. The tokenizer's files and, for a task with
    labels, `labels.txt` (a label per line, in the order of the outputs) are
    written beside an ONNX or OpenVINO model, whose inputs may have any shape. A
    LiteRT model, which has the signature `serving_default`, contains them as a
    ZIP archive at its end, as TensorFlow Lite's metadata does, and the metadata
    if MediaPipe can run it (`mediapipe_task`). In the layout "huggingface",
    names are those of `huggingface_layout`.

    Args:
      program: the program to export.
      config: the folder, which appears when it is complete, the kind, "litert"
        for `model.tflite`, "onnx" for `model.onnx`, "openvino" for `model.xml`
        and `model.bin`, and the settings.
      tokenizer: tokenizer of the model.
      calibration: rows to calibrate a LiteRT model in "int8" with.
      task: the task for `export.json`, as JSON values; its `labels`, if any,
        are stored with the model.
      origin: origin of the weights, for the model card.

    Raises:
      InputError: if the folder exists or cannot be created; see also
        `check_calibration` and `onnx_model`.
    """
    kind, quantization = config.kind, config.quantization
    check_calibration(quantization, calibration)
    longest = program.model.config.max_position_embeddings
    length = longest if program.resizable else program.seq_length
    labels, inputs = (task or {}).get("labels"), program.inputs
    huggingface = config.layout == "huggingface"
    if huggingface:
        files = huggingface_layout_files(program.model, tokenizer, length)
        inputs = tuple(INPUT_NAMES.values())
    else:
        files = tokenizer_files(tokenizer, max_length=length)
        if labels:
            # A label that has lines itself would move those after it.
            lines = [" ".join(label.splitlines()) + "\n" for label in labels]
            files["labels.txt"] = "".join(lines).encode()
    with new_folder(config.output, config.overwrite, MANIFEST) as folder:
        described: dict[str, Any]
        if kind == "litert":
            file = folder / "model.tflite"
            graph = ConstantGraph(program)
            outputs = graph.output_ranks
            model = convert(graph, quantization, calibration)
            runs_in = mediapipe_task(program, tokenizer, outputs, bool(labels))
            if runs_in:
                files |= metadata_files(tokenizer)
                model = with_metadata(
                    model, tokenizer, "labels.txt" if labels else None
                )
            file.write_bytes(model)
            # Uncompressed, so that the files can be mapped into memory.
            with zipfile.ZipFile(file, "a", zipfile.ZIP_STORED) as archive:
                for name, content in files.items():
                    archive.writestr(zipfile.ZipInfo(name, _DATE), content)
            described = {
                **describe_file(file),
                "calibration_examples": len(calibration or ()),
                "resizable": program.resizable,
                "associated_files": list(files),
                "mediapipe_task": runs_in,
            }
        else:
            packed = config.is_packed(task=task is not None)
            if huggingface:
                file = folder / MODEL_FILE
                outputs = write_huggingface_models(program, folder, packed)
            else:
                file = folder / FORMATS[kind].file
                write = FORMATS[kind].write
                outputs = write(program, file, quantization, packed)
            for name, content in files.items():
                (folder / name).write_bytes(content)
            described = {
                "files": describe_files(folder),
                "packed": packed,
                "layout": config.layout,
            }
        describe_export(
            folder,
            {
                "kind": kind,
                "file": file.relative_to(folder).as_posix(),
                **described,
                "quantization": quantization,
                "seq_length": program.seq_length,
                "signatures": {
                    "serving_default": {
                        "inputs": list(inputs),
                        "outputs": sorted(outputs),
                    }
                },
                **({"task": dict(task)} if task is not None else {}),
                "config": program.model.config.to_dict(),
                **describe_weights(dict(merged_weights(program.model))),
                "tokenizer": describe_tokenizer(tokenizer),
            },
            origin,
        )


def task_program(
    loaded: FinetunedModel, *, resizable: bool = False
) -> IdsProgram:
    """Returns the program of a fine-tuned model.

    It computes `probabilities` `[batch, labels]` for a text classifier, `value`
    `[batch]` for a regression, and otherwise the scores that predictions are
    decoded from, see `TaskType.forward`.

    Args:
      loaded: the model; a row has the task's `max_seq_length`.
      resizable: see `IdsProgram`.
    """
    task_type = loaded.task_type

    def forward(model, inputs):
        outputs = task_type.forward(model, inputs)
        return {n: outputs[n] for n in task_type.runtime_outputs or outputs}

    return IdsProgram(
        model=loaded.model,
        forward=forward,
        inputs=task_type.model_inputs,
        seq_length=task_type.max_seq_length,
        resizable=resizable,
        has_pairs=len(text_ranks(task_type)) > 1,
    )


def text_calibration(
    config: ExportConfig, tokenizer: Tokenizer, seq_length: int
) -> list[Example] | None:
    """Tokenizes the first lines of the calibration files.

    Args:
      config: settings with the files; if there are none, None is returned.
      tokenizer: tokenizer of the model.
      seq_length: number of tokens in a row.

    Raises:
      InputError: if a file cannot be read.
    """
    if config.calibration_input is None:
        return None
    lines = _text_lines(config.calibration_input)
    return [
        tokenizer(line, max_length=seq_length, padding="max_length")
        for line in itertools.islice(lines, config.calibration_examples)
    ]


def task_calibration(
    config: ExportConfig, task_type: TaskType
) -> list[Example] | None:
    """Returns the features of the first examples of the calibration files.

    Args:
      config: settings with the files; if there are none, None is returned.
      task_type: the task.

    Raises:
      InputError: if a file cannot be read, or is not in the task's format.
    """
    if config.calibration_input is None:
        return None
    examples = _calibration_examples(task_type, config.calibration_input)
    features = task_type.features(
        itertools.islice(examples, config.calibration_examples), labelled=False
    )
    count = min(features.num_examples, config.calibration_examples)
    batch = features.pad(range(count), length=task_type.max_seq_length)
    return [
        {name: values[number : number + 1] for name, values in batch.items()}
        for number in range(count)
    ]


def _calibration_examples(
    task_type: TaskType, patterns: PathPatterns
) -> Iterator[Any]:
    """Reads unlabelled examples from text files or files of the task."""
    bad = BadExamples("stop", can_skip=False)
    files = find_text_files(patterns)
    if reads_lines(task_type):
        return _examples_of_lines(task_type, files, bad)
    return read_examples(task_type, files, bad=bad, labelled=False)


def _examples_of_lines(
    task_type: TaskType, files: Iterable[Any], bad: BadExamples
) -> Iterator[Any]:
    """Yields the examples of non-blank lines, named by file and line."""
    for path in files:
        lines = (
            line.strip() or None for _, _, line in read_lines(path, whole=True)
        )
        example = None
        for example in examples_from_lines(task_type, lines, path, bad):
            yield example
        if example is None:
            raise InputError(f"{path}: the file contains no text; remove it")


def _text_lines(patterns: PathPatterns) -> Iterator[str]:
    """Yields the non-blank lines of text files."""
    for path in find_text_files(patterns):
        for document in read_documents(path):
            yield from document
