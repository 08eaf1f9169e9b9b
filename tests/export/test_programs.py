"""Exports in other programs: TensorFlow alone, TensorFlow Hub, Keras 3."""

import shutil

import pytest

from albert_tf.exporting.config import KINDS, ExportConfig
from albert_tf.exporting.encoder import export_encoder
from albert_tf.exporting.export import export
from albert_tf.models.pretrainer import AlbertPretrainer

pytestmark = pytest.mark.long

TF_KERAS = {"TF_USE_LEGACY_KERAS": "1"}
OTHERS = {
    "encoder": {"packed": True},
    "text_encoder": {"packed": False, "seq_length": 16},
}


@pytest.fixture(scope="module")
def encoder_path(config, perturb, tokenizer, tmp_path_factory):
    """An encoder with one layer, as each layer costs half a minute."""
    model = perturb(AlbertPretrainer(config.replace(num_hidden_layers=1)), 1)
    path = tmp_path_factory.mktemp("exports") / "encoder"
    export_encoder(model, path, tokenizer=tokenizer)
    return path


@pytest.fixture
def tensorflow_hub():
    for package in ("tensorflow_hub", "tf_keras"):
        pytest.importorskip(package)


def test_exports_in_tensorflow(
    exports, run_in_tensorflow, pretrained, tmp_path
):
    """All kinds, as exported and saved again, and under XLA.

    test_task_predictions.py and test_serving.py run further tasks.
    """
    pairs = [exports[x] for x in KINDS if x not in ("onnx", "openvino", "web")]
    for kind, settings in OTHERS.items():
        folder = tmp_path / f"other_{kind}"
        export(
            ExportConfig(model=pretrained, output=folder, kind=kind, **settings)
        )
        pairs.append((pretrained, folder))
    run_in_tensorflow(pairs)


@pytest.mark.slow
def test_tasks_in_tensorflow(task_exports, run_in_tensorflow):
    run_in_tensorflow([task_exports(name) for name in ("dream", "ner")])


def test_strings_in_keras_layer(run_program, exports):
    folders = [exports[kind][1] for kind in ("text_encoder", "task")]
    run_program("strings_in_keras_layer.py", *folders, **TF_KERAS)


# test_article.py trains `hub.KerasLayer` on movie reviews.
@pytest.mark.slow
@pytest.mark.usefixtures("tensorflow_hub")
def test_keras_layer_is_saved_and_reloaded(
    run_program, encoder_path, preprocessor_path, tmp_path
):
    exports = tmp_path / "exports"
    shutil.copytree(preprocessor_path, exports / "preprocessor")
    shutil.copytree(encoder_path, exports / "encoder")
    paths = (exports / "preprocessor", exports / "encoder")
    program = "keras_layer_saving.py"
    run_program(program, "save", *paths, tmp_path, **TF_KERAS)
    run_program(program, "load", tmp_path, **TF_KERAS)
    shutil.rmtree(exports)
    run_program(program, "load_saved_model", tmp_path, **TF_KERAS)


@pytest.mark.usefixtures("tensorflow_hub")
def test_keras_layer_in_keras_3(run_program, encoder_path):
    run_program("keras_layer_in_keras_3.py", encoder_path)


@pytest.mark.parametrize(
    "layer", [pytest.param("tfsm", marks=pytest.mark.slow), "hub"]
)
def test_layers_of_keras_3(
    run_program, encoder_path, preprocessor_path, layer, tmp_path
):
    program, paths = "layers_of_keras_3.py", (preprocessor_path, encoder_path)
    run_program(program, layer, "save", *paths, tmp_path)
    run_program(program, layer, "load", tmp_path)
