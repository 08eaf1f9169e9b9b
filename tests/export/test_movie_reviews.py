import importlib.util

import pytest

pytestmark = pytest.mark.long


def test_tutorial_in_tf_keras_and_tensorflow_hub(
    run_program, encoder_path, preprocessor_path, tmp_path
):
    for package in ("tensorflow_hub", "tf_keras"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed: pip install .[hub]")
    run_program(
        "movie_reviews.py",
        preprocessor_path,
        encoder_path,
        tmp_path,
        TF_USE_LEGACY_KERAS="1",
    )
