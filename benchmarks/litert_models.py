"""Measures size, speed, accuracy and error of LiteRT models.

Prints three Markdown tables with a row for each quantization:

- size and latency for one row of `--seq_length` tokens, with 1 and 2 threads,
  of an encoder with random weights (`--config`);
- accuracy of a fine-tuned model on a development set (`--model`, `--dev`);
- relative error of the hidden states after each block of that model, on
  `--examples` rows without padding, compared with float32.

`int8` is calibrated with the lines of `--calibration_input`.

Example:
  cut -f 1 SST-2/train.tsv | tail -n +2 > texts.txt
  python benchmarks/litert_models.py --model=run/model --dev=SST-2/dev.tsv \
      --calibration_input=texts.txt
"""

from __future__ import annotations

import argparse
import time
from importlib import metadata

import numpy as np
import report

from albert_tf.config import AlbertConfig
from albert_tf.data.documents import read_documents
from albert_tf.exporting.config import QUANTIZATIONS
from albert_tf.exporting.litert_conversion import (
    ConstantGraph,
    convert,
    signature_runner,
)
from albert_tf.exporting.runtimes import task_program
from albert_tf.finetuning.data import labelled_examples
from albert_tf.finetuning.example_texts import examples_from_lines
from albert_tf.finetuning.examples import BadExamples
from albert_tf.finetuning.model_folder import load_model
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.runtimes.ids_program import IdsProgram, encoder_program


def speed_table(config: str, length: int, turns: int) -> str:
    """Returns a table of sizes and latencies."""
    model = AlbertEncoder(AlbertConfig.from_official(config))
    rng = np.random.default_rng(0)
    shape = [1, length]

    def row():
        return {
            "input_word_ids": rng.integers(
                5, model.config.vocab_size, shape, "int32"
            ),
            "input_mask": np.ones(shape, "int32"),
            "input_type_ids": np.zeros(shape, "int32"),
        }

    graph = ConstantGraph(encoder_program(model, seq_length=length))
    rows = [row() for _ in range(8)]
    table = []
    for quantization in QUANTIZATIONS:
        calibration = rows if quantization == "int8" else None
        content = convert(graph, quantization, calibration)
        cells = [quantization, f"{len(content) / 1e6:.1f}"]
        for threads in (1, 2):
            run = signature_runner(content, num_threads=threads)
            seconds = [_seconds(run, rows[0]) for _ in range(turns + 1)][1:]
            wall, cpu = zip(*seconds, strict=True)
            cells.append(report.milliseconds(wall))
            if threads == 1:
                cells.append(report.milliseconds(cpu))
        table.append(cells)
    header = ["quantization", "MB", "ms, 1 thread", "of CPU", "ms, 2 threads"]
    return report.table(header, table)


def _seconds(run, row) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    run(**row)
    return time.perf_counter() - wall, time.process_time() - cpu


def accuracy_tables(flags: argparse.Namespace) -> str:
    """Returns tables of scores and of errors after each block."""
    changes = {"max_seq_length": flags.seq_length}
    loaded = load_model(flags.model, changes, packed=False)
    kind, length = loaded.task_type, flags.seq_length

    def rows_of(examples):
        features = kind.features(examples, labelled=False)
        return [
            features.pad([i], length=length)
            for i in range(features.num_examples)
        ]

    texts = [
        line
        for document in read_documents(flags.calibration_input)
        for line in document
    ][: flags.examples]
    bad = BadExamples("stop")
    lines = examples_from_lines(kind, texts, "calibration", bad)
    calibration = rows_of(list(lines))
    examples = labelled_examples(kind, [flags.dev])
    rows = rows_of(examples)
    labels = kind.task_config.labels
    assert labels is not None  # classification only
    graph = ConstantGraph(task_program(loaded))
    scores, exact = [], None
    for quantization in QUANTIZATIONS:
        calibrating = calibration if quantization == "int8" else None
        run = signature_runner(convert(graph, quantization, calibrating))
        found = np.array([run(**row)["probabilities"][0] for row in rows])
        exact = found if exact is None else exact
        right = [
            labels[index] == example.label
            for index, example in zip(found.argmax(1), examples, strict=True)
        ]
        other = np.sum(found.argmax(1) != exact.argmax(1))
        scores.append(
            [
                quantization,
                f"{100 * np.mean(right):.2f}",
                f"{other} of {len(rows)}",
                f"{np.abs(found - exact).max():.4f}",
                f"{np.abs(found - exact).mean():.4f}",
            ]
        )
    header = ["quantization", "accuracy, %", "other labels"]
    header += ["largest change of a probability", "mean change"]
    errors = _error_table(
        loaded.model.encoder, rows[: flags.examples], calibration
    )
    return f"{report.table(header, scores)}\n\n{errors}"


def _error_table(encoder, rows, calibration) -> str:
    """Returns a table of errors, which may add up over shared layers."""

    def forward(encoder, inputs):
        states = encoder(inputs)["encoder_outputs"]
        return {f"block_{i:04}": x for i, x in enumerate(states)}

    length = rows[0]["input_word_ids"].shape[1]
    graph = ConstantGraph(
        IdsProgram(model=encoder, forward=forward, seq_length=length)
    )

    def states_of(quantization):
        """Returns the states of tokens after each block, without padding."""
        calibrating = calibration if quantization == "int8" else None
        run = signature_runner(convert(graph, quantization, calibrating))
        outputs = [(row["input_mask"] == 1, run(**row)) for row in rows]
        return [
            np.concatenate([output[name][real] for real, output in outputs])
            for name in sorted(outputs[0][1])
        ]

    exact = states_of("none")
    table = []
    for quantization in QUANTIZATIONS[1:]:
        cells = [quantization]
        for ours, theirs in zip(states_of(quantization), exact, strict=True):
            error = np.linalg.norm(ours - theirs) / np.linalg.norm(theirs)
            lengths = [np.linalg.norm(x, axis=1) for x in (ours, theirs)]
            cosines = np.sum(ours * theirs, axis=1) / np.prod(lengths, axis=0)
            cells.append(f"{error:.4f} ({cosines.min():.4f})")
        table.append(cells)
    blocks = [f"block {i}" for i in range(1, len(table[0]))]
    return report.table(["quantization", *blocks], table)


def main() -> None:
    """Prints the tables that the flags ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", default="albert_base_v2")
    parser.add_argument("--seq_length", type=int, default=128)
    parser.add_argument("--turns", type=int, default=50)
    parser.add_argument("--no_speed", action="store_true")
    parser.add_argument("--model", help="folder of a fine-tuned model")
    parser.add_argument("--dev", help="development set of the model")
    parser.add_argument(
        "--calibration_input", help="texts to calibrate int8, one per line"
    )
    parser.add_argument("--examples", type=int, default=100)
    flags = parser.parse_args()
    if flags.model and not (flags.dev and flags.calibration_input):
        parser.error("--model requires --dev and --calibration_input")

    here = report.machine()
    versions = {x: metadata.version(x) for x in ("tensorflow", "keras")}
    print(report.description(here, versions, 2), "\n", flush=True)
    if not flags.no_speed:
        print(speed_table(flags.config, flags.seq_length, flags.turns), "\n")
    if flags.model:
        print(accuracy_tables(flags))


if __name__ == "__main__":
    main()
