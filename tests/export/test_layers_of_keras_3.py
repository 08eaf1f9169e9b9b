"""Layers around exports in Keras 3, in fresh processes."""

import pytest

pytestmark = pytest.mark.long


@pytest.mark.parametrize("layer", ["tfsm", "hub"])
def test_layers_of_keras_3(
    run_program, encoder_path, preprocessor_path, layer, tmp_path
):
    run_program(
        "layers_of_keras_3.py",
        layer,
        "save",
        preprocessor_path,
        encoder_path,
        tmp_path,
    )
    run_program("layers_of_keras_3.py", layer, "load", tmp_path)
