import json

import h5py
import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.interop.keras_hub import write_keras_hub
from albert_tf.interop.open_checkpoint import open_checkpoint


@pytest.fixture
def folder(copied):
    """A small text classifier of KerasHub."""
    return copied("keras_hub_classifier")


def datasets(path):
    found = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: (
                found.update({name: item[()]})
                if isinstance(item, h5py.Dataset)
                else None
            )
        )
    return found


def test_written_tensors_equal_those_of_keras_hub(folder, tmp_path):
    write_keras_hub(open_checkpoint(folder), tmp_path)
    for name in ("model.weights.h5", "task.weights.h5"):
        written, expected = datasets(tmp_path / name), datasets(folder / name)
        expected = {
            k: v for k, v in expected.items() if not k.startswith("optimizer")
        }
        assert set(written) == set(expected)
        for path, value in expected.items():
            assert written[path].dtype == value.dtype
            np.testing.assert_array_equal(written[path], value, path)


def test_written_json_files_equal_those_of_keras_hub(folder, tmp_path):
    write_keras_hub(open_checkpoint(folder), tmp_path)

    def described(folder, name):
        values = json.loads((folder / name).read_text())
        return values["class_name"], values["registered_name"], values["config"]

    for name in ("config.json", "task.json", "tokenizer.json"):
        written, expected = described(tmp_path, name), described(folder, name)
        assert written[:2] == expected[:2]
    written = described(tmp_path, "config.json")[2]
    expected = described(folder, "config.json")[2]
    assert {k: v for k, v in expected.items() if k in written} == {
        **written,
        # KerasHub appends a number.
        "name": expected["name"],
    }
    written = described(tmp_path, "task.json")[2]
    assert written["num_classes"] == 3
    assert written["dropout"] == 0.2
    metadata = json.loads((tmp_path / "metadata.json").read_text())
    expected = json.loads((folder / "metadata.json").read_text())
    assert metadata["parameter_count"] == expected["parameter_count"]
    vocabulary = "assets/tokenizer/vocabulary.spm"
    written = (tmp_path / vocabulary).read_bytes()
    assert written == (folder / vocabulary).read_bytes()


@pytest.mark.parametrize("name", ["model.weights.h5", "task.weights.h5"])
def test_opens_by_each_weights_file(folder, name):
    assert open_checkpoint(folder / name).heads == ("classifier_head",)


def test_backbone_of_a_task(folder):
    (folder / "task.json").unlink()
    (folder / "task.weights.h5").unlink()
    assert open_checkpoint(folder).heads == ()


def test_an_unexpected_dataset_is_an_error(folder):
    with h5py.File(folder / "model.weights.h5", "a") as file:
        file["layers/adapter/vars/0"] = np.zeros(3)
    with pytest.raises(
        InputError, match="unexpected tensor layers/adapter/vars/0"
    ):
        open_checkpoint(folder)


def test_bfloat16(folder):
    # As Keras writes it: two untyped bytes, and an attribute with the dtype.
    with h5py.File(folder / "model.weights.h5", "a") as file:
        values = file["layers/dense/vars/1"][()]
        upper = (values.view(np.uint32) >> 16).astype(np.uint16)
        del file["layers/dense/vars/1"]
        dataset = file.create_dataset(
            "layers/dense/vars/1", data=upper.view("V2")
        )
        dataset.attrs["dtype"] = "bfloat16"
    array = open_checkpoint(folder).arrays["encoder/embedding_projection/bias"]
    assert array.dtype == np.float32
    np.testing.assert_allclose(array, values, rtol=2**-7)
    assert (array != values).any()


def test_the_tokenizer_does_not_normalize(folder):
    settings = open_checkpoint(folder).tokenizer.settings
    assert not settings["do_lower_case"]
    assert not settings["strip_accents"]
    assert settings["digit_comma"] == "off"


def put_backbone_into_task(folder):
    """As KerasHub 0.25 does with Keras 3.12."""
    backbone = datasets(folder / "model.weights.h5")
    with h5py.File(folder / "task.weights.h5", "a") as file:
        for name, value in backbone.items():
            file[f"layers/albert_backbone/{name}"] = value


def test_a_copy_of_the_backbone_in_the_task_is_skipped(folder):
    plain = open_checkpoint(folder)
    put_backbone_into_task(folder)
    opened = open_checkpoint(folder)
    assert opened.components == plain.components
    assert list(opened.arrays) == list(plain.arrays)
    copies = [r for r in opened.skipped.values() if r == "copy of the backbone"]
    assert len(copies) == len(datasets(folder / "model.weights.h5"))


def test_another_backbone_in_the_task_is_an_error(folder):
    put_backbone_into_task(folder)
    with h5py.File(folder / "task.weights.h5", "a") as file:
        file["layers/albert_backbone/layers/dense_1/vars/1"][0] += 1
    with pytest.raises(InputError, match=r"dense_1/vars/1 differs between"):
        open_checkpoint(folder)
