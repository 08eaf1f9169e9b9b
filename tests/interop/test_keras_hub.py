import h5py
import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.interop.open_checkpoint import open_checkpoint


@pytest.fixture
def folder(copied):
    """A small text classifier of KerasHub."""
    return copied("keras_hub_classifier")


def test_backbone_of_a_task(folder):
    (folder / "task.json").unlink()
    (folder / "task.weights.h5").unlink()
    assert open_checkpoint(folder).heads == ()


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


def put_backbone_into_task(folder):
    """As KerasHub 0.25 does with Keras 3.12."""
    with (
        h5py.File(folder / "model.weights.h5") as backbone,
        h5py.File(folder / "task.weights.h5", "a") as task,
    ):
        task.copy(backbone["layers"], "layers/albert_backbone/layers")


def test_a_copy_of_the_backbone_in_the_task_is_skipped(folder):
    plain = open_checkpoint(folder)
    put_backbone_into_task(folder)
    opened = open_checkpoint(folder)
    assert opened.components == plain.components
    assert list(opened.arrays) == list(plain.arrays)
    copies = [r for r in opened.skipped.values() if r == "copy of the backbone"]
    of_head = [path for path in plain.arrays if path.startswith("classifier")]
    assert len(copies) >= len(plain.arrays) - len(of_head)


def test_another_backbone_in_the_task_is_an_error(folder):
    put_backbone_into_task(folder)
    with h5py.File(folder / "task.weights.h5", "a") as file:
        file["layers/albert_backbone/layers/dense_1/vars/1"][0] += 1
    with pytest.raises(InputError, match=r"dense_1/vars/1 differs between"):
        open_checkpoint(folder)
