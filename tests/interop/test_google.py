import shutil

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from albert_tf.errors import InputError
from albert_tf.interop.google import find_checkpoint, write_google
from albert_tf.interop.open_checkpoint import open_checkpoint


@pytest.fixture
def golden(shared):
    return lambda case: shared("golden", "google", "model", case)


def test_a_graph_of_the_original_restores_it(golden, tmp_path):
    # With `init_from_checkpoint`, as in the original's scripts.
    folder = golden("a_base")
    write_google(open_checkpoint(folder / "model.ckpt-best"), tmp_path)
    name = "bert/encoder/transformer/group_0/inner_group_0/LayerNorm_1/gamma"
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        v1 = tf.compat.v1
        gamma = v1.get_variable(name, [32])
        step = v1.train.get_or_create_global_step()
        v1.train.Saver().restore(session, str(tmp_path / "model.ckpt-best"))
        values = session.run([gamma, step])
    expected = tf.train.load_variable(str(folder / "model.ckpt-best"), name)
    np.testing.assert_array_equal(values[0], expected)
    assert values[1] == 0


def test_optimizer_slots_are_skipped(golden):
    folder = golden("a_base")
    checkpoint = open_checkpoint(folder / "model.ckpt-lamb-6")
    trained = np.load(folder / "training.npz")
    np.testing.assert_array_equal(
        checkpoint.arrays["sop_head/kernel"],
        trained["lamb/step6/cls/seq_relationship/output_weights"].T,
    )
    slots = [name for name in checkpoint.skipped if name != "global_step"]
    assert len(slots) == 2 * len(checkpoint.arrays)
    assert all(name.endswith(("/adam_m", "/adam_v")) for name in slots)
    assert "skipped 64 (optimizer state): " in checkpoint.report()


@pytest.fixture
def folder(copied):
    """A small checkpoint with its config."""
    return copied("google_tf1")


def test_config_of_another_name(folder):
    # As in the Chinese archives.
    (folder / "albert_config.json").rename(folder / "albert_config_tiny.json")
    assert open_checkpoint(folder).config.vocab_size == 40
    (folder / "my_config.json").write_text("{}")
    message = "but albert_config_tiny.json, my_config.json; keep one"
    with pytest.raises(InputError, match=message):
        open_checkpoint(folder)


def test_a_folder_that_tensorflow_takes_for_a_pattern(folder):
    """The files are not damaged."""
    moved = folder.rename(folder.with_name("a[1]"))
    with pytest.raises(InputError, match=r"whose name has \[; choose another"):
        open_checkpoint(moved)


def copy_checkpoint(folder, name):
    for path in folder.glob("model.ckpt-best.*"):
        suffix = path.name.removeprefix("model.ckpt-best")
        shutil.copy(path, folder / f"{name}{suffix}")


def test_several_checkpoints(folder):
    for step in (5, 20):
        copy_checkpoint(folder, f"model.ckpt-{step}")
    assert find_checkpoint(folder).name == "model.ckpt-best"
    for path in folder.glob("model.ckpt-best.*"):
        path.unlink()
    message = "several checkpoints: model.ckpt-20, model.ckpt-5; give one of"
    with pytest.raises(InputError, match=message):
        open_checkpoint(folder)
    state = 'model_checkpoint_path: "/elsewhere/model.ckpt-5"\n'
    (folder / "checkpoint").write_text(state)
    assert find_checkpoint(folder).name == "model.ckpt-5"


def write_meta(folder, nodes):
    meta = meta_graph_pb2.MetaGraphDef()
    for name, value in nodes.items():
        node = meta.graph_def.node.add(name=name, op="Const")
        value = tf.make_tensor_proto(np.int32(value))
        node.attr["value"].tensor.CopyFrom(value)
    (folder / "model.ckpt-best.meta").write_bytes(meta.SerializeToString())


QUERY = (
    "bert/encoder/transformer/group_0/layer_{}/inner_group_0/attention_1/self/"
    "query/Reshape_1/shape"
)


@pytest.mark.parametrize(
    ("field", "heads", "layers"),
    [
        # The xlarge configs say 16 and 32 (google-research/albert#180).
        ("num_attention_heads", 4, 2),
        ("num_hidden_layers", 2, 4),
    ],
)
def test_the_graph_corrects_the_config(folder, field, heads, layers):
    shape = [3, 10, heads, 4]
    write_meta(folder, {QUERY.format(layer): shape for layer in range(layers)})
    checkpoint = open_checkpoint(folder)
    assert checkpoint.config.num_attention_heads == heads
    assert checkpoint.config.num_hidden_layers == layers
    assert checkpoint.notes == (
        f"{field}=4 according to the graph in model.ckpt-best.meta; "
        "the config file says 2",
    )
    assert checkpoint.notes[0] in checkpoint.report()
    overridden = open_checkpoint(folder, config_overrides={field: 8})
    assert getattr(overridden.config, field) == 8


def test_a_matching_graph_adds_no_note(stored):
    # The archive has a .meta file written by the original.
    assert not open_checkpoint(stored / "google_tf1.tar.gz").notes
