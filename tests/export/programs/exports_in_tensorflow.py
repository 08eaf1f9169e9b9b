"""Checks exports with TensorFlow and TensorFlow Text only; saves them again.

Usage: exports_in_tensorflow.py CHECK_PROGRAM NEW_FOLDER [EXPORT CASES]...

CHECK_PROGRAM is export/check_program.py, and `write_cases` writes the cases.
"""

import importlib.util
import pathlib
import pickle
import shutil
import sys

import numpy as np
import tensorflow as tf


def load_module(path):
    spec = importlib.util.spec_from_file_location("check_program", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check_all(program, folder, cases):
    model = program.load_export(folder)
    for check in model.checks:
        try:
            getattr(model, check)()
        except program.Skipped:
            assert model.manifest["tokenizer"] is None
    for _, endpoint, inputs, outputs in cases:
        try:
            program.same_as_source(model, endpoint, inputs, outputs)
        except program.Skipped:
            # test_mediapipe.py compares them where it is installed.
            assert endpoint == "mediapipe"
            continue
        if model.manifest.get("quantization", "none") != "none":
            found = model.call(endpoint, inputs)
            for name, expected in outputs.items():
                error = program.relative_error(found[name], expected)
                assert error < 0.1, (name, error)
    return model


def check_xla(program, model, inputs, outputs):
    """A compiled encoder gives the same numbers, and can be trained."""

    @tf.function(jit_compile=True, autograph=False)
    def infer(inputs):
        return model.root(inputs)["sequence_output"]

    @tf.function(jit_compile=True, autograph=False)
    def step(inputs):
        with tf.GradientTape() as tape:
            outputs = model.root(inputs, training=True)
            loss = tf.reduce_sum(outputs["pooled_output"] ** 2)
        return tape.gradient(loss, model.root.trainable_variables[5])

    inputs = {name: tf.constant(x) for name, x in inputs.items()}
    expected, mask = outputs["sequence_output"], inputs["input_mask"]
    program.difference(infer(inputs), expected, "sequence_output", mask)
    assert np.any(step(inputs) != 0)


def saved_again(folder, new_folder):
    """Saves a loaded export, and removes the first one."""
    first, second = new_folder / "first", new_folder / "second"
    shutil.copytree(folder, first)
    loaded = tf.saved_model.load(first)
    tf.saved_model.save(loaded, second, signatures=loaded.signatures)
    shutil.rmtree(first)
    return second


def main(program_path, new_folder, *paths):
    program = load_module(program_path)
    for folder, cases_path in zip(paths[::2], paths[1::2], strict=True):
        folder = pathlib.Path(folder)
        cases = pickle.loads(pathlib.Path(cases_path).read_bytes())
        assert cases, folder
        model = check_all(program, folder, cases)
        manifest = model.manifest
        if manifest["kind"] == "encoder" and not manifest["packed"]:
            check_xla(program, model, *cases[0][2:])
        if (folder / "saved_model.pb").exists():
            again = saved_again(folder, pathlib.Path(new_folder, folder.name))
            shutil.copy(folder / "export.json", again)
            check_all(program, again, cases)
    assert "albert_tf" not in sys.modules


if __name__ == "__main__":
    main(*sys.argv[1:])
