"""`hub.KerasLayer` around exports: saved, reloaded, and in Keras 3."""

import shutil

import pytest

pytestmark = pytest.mark.long


def test_keras_layer_of_tensorflow_hub_is_saved_and_reloaded(
    run_program, encoder_path, preprocessor_path, tmp_path
):
    for package in ("tensorflow_hub", "tf_keras"):
        pytest.importorskip(package)
    exports = tmp_path / "exports"
    shutil.copytree(preprocessor_path, exports / "preprocessor")
    shutil.copytree(encoder_path, exports / "encoder")
    paths = (exports / "preprocessor", exports / "encoder")

    def run(*arguments):
        run_program(
            "keras_layer_saving.py", *arguments, TF_USE_LEGACY_KERAS="1"
        )

    run("save", *paths, tmp_path)
    run("load", tmp_path)
    shutil.rmtree(exports)
    run("load_saved_model", tmp_path)


def test_keras_layer_of_tensorflow_hub_in_keras_3(run_program, encoder_path):
    pytest.importorskip("tensorflow_hub")
    run_program("keras_layer_in_keras_3.py", encoder_path)
