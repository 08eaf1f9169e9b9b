"""Times one row of ids through the exports of an encoder, runtime by runtime.

Prints a Markdown table: TensorFlow with the SavedModel, ONNX Runtime with what
tf2onnx makes of it, and LiteRT in float32 and with `--quantization=dynamic`;
each in a process of its own, with 1 and with 2 threads. Weights are random.

Example:
  python benchmarks/serving_latency.py --config=albert_base_v2
"""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import metadata

import numpy as np
import report

_OUTPUT = "sequence_output"


def tensorflow_runner(folder: pathlib.Path, threads: int) -> Callable:
    """Returns what runs the SavedModel's signature."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    loaded = tf.saved_model.load(folder / "encoder")

    def run(row):
        serve = loaded.signatures["serving_default"]
        inputs = {name: tf.constant(x) for name, x in row.items()}
        return serve(**inputs)[_OUTPUT].numpy()

    return run


def onnx_runner(folder: pathlib.Path, threads: int) -> Callable:
    """Returns what runs the ONNX file."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(folder / "encoder.onnx", options)
    return lambda row: session.run([_OUTPUT], row)[0]


def litert_runner(quantization: str) -> Callable:
    """Returns what makes a runner of a LiteRT model."""

    def make(folder: pathlib.Path, threads: int) -> Callable:
        from albert_tf.export.litert_conversion import signature_runner

        model = (folder / quantization / "model.tflite").read_bytes()
        run = signature_runner(model, num_threads=threads)
        return lambda row: run(**row)[_OUTPUT]

    return make


RUNTIMES = {
    "TensorFlow, SavedModel": tensorflow_runner,
    "ONNX Runtime": onnx_runner,
    "LiteRT, float32": litert_runner("none"),
    "LiteRT, dynamic": litert_runner("dynamic"),
}


def export(folder: pathlib.Path, config: str, length: int) -> None:
    """Writes all that is timed, and a row."""
    import keras

    from albert_tf.config import AlbertConfig
    from albert_tf.export.encoder import export_encoder
    from albert_tf.export.litert_conversion import (
        ConstantGraph,
        convert,
        encoder_program,
    )
    from albert_tf.models.encoder import AlbertEncoder

    keras.utils.set_random_seed(0)
    model = AlbertEncoder(AlbertConfig.from_official(config))
    export_encoder(model, folder / "encoder", tokenizer_model=None)
    graph = ConstantGraph(encoder_program(model, seq_length=length))
    for quantization in ("none", "dynamic"):
        (folder / quantization).mkdir()
        file = folder / quantization / "model.tflite"
        file.write_bytes(convert(graph, quantization))
    command = [sys.executable, "-m", "tf2onnx.convert", "--opset", "17"]
    command += ["--saved-model", folder / "encoder"]
    command += ["--signature_def", "serving_default"]
    command += ["--output", folder / "encoder.onnx"]
    subprocess.run(command, check=True, capture_output=True)
    ids = np.random.default_rng(0).integers(5, 30000, [1, length], "int32")
    np.savez(
        folder / "row.npz",
        input_word_ids=ids,
        input_mask=np.ones_like(ids),
        input_type_ids=np.zeros_like(ids),
    )


def measure(
    folder: pathlib.Path, runtime: str, threads: int, turns: int
) -> None:
    """Writes the seconds of each turn and the output to `folder`."""
    row = dict(np.load(folder / "row.npz"))
    run = RUNTIMES[runtime](folder, threads)
    for _ in range(3):
        output = run(row)
    seconds = []
    for _ in range(turns):
        begin = time.perf_counter()
        run(row)
        seconds.append(time.perf_counter() - begin)
    np.savez(folder / "result.npz", seconds=seconds, output=output)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", default="albert_base_v2")
    parser.add_argument("--seq_length", type=int, default=128)
    parser.add_argument("--turns", type=int, default=50)
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.measure:
        folder, runtime, threads = flags.measure
        measure(pathlib.Path(folder), runtime, int(threads), flags.turns)
        return
    names = ("tensorflow", "keras", "onnxruntime", "tf2onnx")
    versions = {name: metadata.version(name) for name in names}
    print(report.description(report.machine(), versions, 2), "\n", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        export(folder, flags.config, flags.seq_length)
        table, exact = [], None
        for runtime in RUNTIMES:
            cells = [runtime]
            for threads in ("1", "2"):
                command = [sys.executable, __file__, "--turns"]
                command += [str(flags.turns)]
                command += ["--measure", scratch, runtime, threads]
                subprocess.run(command, check=True, capture_output=True)
                result = np.load(folder / "result.npz")
                cells.append(report.milliseconds(result["seconds"].tolist()))
                output = result["output"]
                exact = output if exact is None else exact
            error = np.linalg.norm(output - exact) / np.linalg.norm(exact)
            table.append([*cells, f"{error:.1e}"])
    header = ["runtime", "ms, 1 thread", "ms, 2 threads", "relative error"]
    print(report.table(header, table))


if __name__ == "__main__":
    main()
