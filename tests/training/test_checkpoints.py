import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.training.checkpoints import (
    Checkpoints,
    list_checkpoints,
    load_model_variables,
    read_checkpoint,
    training_variables,
)


def make(folder, seed=0, keep=5, **values):
    """Variables of the given initial values, and their checkpoints."""
    variables = {
        f"model/layer/{name}": tf.Variable(value)
        for name, value in values.items()
    }
    return variables, Checkpoints(folder, variables, seed=seed, keep=keep)


def read(variables):
    return [v.numpy().tolist() for v in variables.values()]


def test_restores_what_was_saved(tmp_path):
    _, checkpoints = make(tmp_path, a=[1.0, 2.0], b=3.0)
    assert checkpoints.restore_latest() is None
    checkpoints.save(7)
    variables, checkpoints = make(tmp_path, a=[0.0, 0.0], b=0.0)
    assert checkpoints.restore_latest() == 7
    assert read(variables) == [[1.0, 2.0], 3.0]


def test_names_in_the_file_are_the_public_ones(tmp_path, toy):
    model, optimizer, _ = toy.run(
        tf.distribute.get_strategy(), total_steps=2, run_dir=tmp_path
    )
    values = read_checkpoint(tmp_path / "checkpoints" / "step-00000002")
    assert set(values) == {"step", "seed"} | {
        name
        for v in model.weights
        for name in (
            f"model/{v.path}",
            f"optimizer/{v.path}/adam_m",
            f"optimizer/{v.path}/adam_v",
        )
    }
    assert values["step"] == 2
    assert values["seed"] == 3
    for v in model.weights:
        np.testing.assert_array_equal(values[f"model/{v.path}"], v)
    listed = dict(
        tf.train.list_variables(str(tmp_path / "checkpoints/step-00000002"))
    )
    assert "model/table/embeddings/.ATTRIBUTES/VARIABLE_VALUE" in listed


def test_keeps_the_newest(tmp_path):
    _, checkpoints = make(tmp_path, keep=2, a=1.0)
    for step in (1, 2, 3, 10):
        checkpoints.save(step)
    assert list(list_checkpoints(tmp_path)) == [3, 10]
    assert {path.name.split(".")[0] for path in tmp_path.iterdir()} == {
        "step-00000003",
        "step-00000010",
    }


def test_replicas_restore_what_one_device_saved(tmp_path, toy, two_replicas):
    _, checkpoints = make(tmp_path, a=[1.0, 2.0])
    checkpoints.save(1)
    with two_replicas.scope():
        variables, checkpoints = make(tmp_path, a=[0.0, 0.0])
    checkpoints.restore_latest()
    (variable,) = variables.values()
    for copy in variable.values:
        assert copy.numpy().tolist() == [1.0, 2.0]
    variable.assign([5.0, 6.0])
    checkpoints.save(2)
    assert read_checkpoint(tmp_path / "step-00000002")[
        "model/layer/a"
    ].tolist() == [5.0, 6.0]


def damage_by_truncation(prefix):
    data = prefix.with_suffix(".data-00000-of-00001")
    data.write_bytes(data.read_bytes()[:20])


def damage_by_a_flipped_bit(prefix):
    data = prefix.with_suffix(".data-00000-of-00001")
    content = bytearray(data.read_bytes())
    content[0] ^= 1
    data.write_bytes(content)


def damage_by_missing_data(prefix):
    prefix.with_suffix(".data-00000-of-00001").unlink()


def damage_of_the_index(prefix):
    index = prefix.with_suffix(".index")
    index.write_bytes(index.read_bytes()[:20])


def empty_index(prefix):
    prefix.with_suffix(".index").write_bytes(b"")


DAMAGES = [
    damage_by_truncation,
    damage_by_a_flipped_bit,
    damage_by_missing_data,
    damage_of_the_index,
    empty_index,
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_newest_falls_back_and_says_so(tmp_path, damage, caplog):
    variables, checkpoints = make(tmp_path, a=[1.0] * 9)
    checkpoints.save(1)
    variables["model/layer/a"].assign([2.0] * 9)
    checkpoints.save(2)
    damage(tmp_path / "step-00000002")
    variables, checkpoints = make(tmp_path, a=[0.0] * 9)
    with caplog.at_level("WARNING", "absl"):
        assert checkpoints.restore_latest() == 1
    assert read(variables) == [[1.0] * 9]
    assert "step-00000002 cannot be read" in caplog.text


def test_checkpoint_after_a_fallback_outlives_the_damaged_one(tmp_path):
    _, checkpoints = make(tmp_path, keep=1, a=1.0)
    checkpoints.save(5)
    _, checkpoints = make(tmp_path, keep=1, a=1.0)
    checkpoints.save(3)
    assert list(list_checkpoints(tmp_path)) == [3]


def test_no_readable_checkpoint_is_an_error(tmp_path):
    _, checkpoints = make(tmp_path, a=1.0)
    checkpoints.save(1)
    empty_index(tmp_path / "step-00000001")
    with pytest.raises(InputError, match="none of the 1 checkpoints"):
        checkpoints.restore_latest()


def test_what_a_killed_save_leaves_is_not_listed_but_removed(tmp_path):
    _, checkpoints = make(tmp_path, a=1.0)
    checkpoints.save(1)
    checkpoints.save(2)
    (tmp_path / "step-00000002.index").unlink()
    (tmp_path / "unfinished-3_temp").mkdir()
    (tmp_path / "unfinished-3_temp" / "part").write_bytes(b"x")
    (tmp_path / "unfinished-3.index").write_bytes(b"")
    assert list(list_checkpoints(tmp_path)) == [1]
    make(tmp_path, a=1.0)
    assert {path.stem for path in tmp_path.iterdir()} == {"step-00000001"}


def test_index_has_its_name_only_when_it_is_complete(tmp_path, monkeypatch):
    _, checkpoints = make(tmp_path, a=1.0)
    checkpoints.save(1)
    rename, allowed = tf.io.gfile.rename, 0

    def killed(*arguments, **options):
        nonlocal allowed
        if not allowed:
            raise KeyboardInterrupt
        allowed -= 1
        rename(*arguments, **options)

    for renames in range(2):
        allowed = renames
        monkeypatch.setattr(tf.io.gfile, "rename", killed)
        with pytest.raises(KeyboardInterrupt):
            checkpoints.save(2)
        monkeypatch.undo()
        assert list(list_checkpoints(tmp_path)) == [1]
    checkpoints.save(2)
    assert list(list_checkpoints(tmp_path)) == [1, 2]
    _, checkpoints = make(tmp_path, a=0.0)
    assert checkpoints.restore_latest() == 2


def test_step_that_is_saved_again_is_replaced(tmp_path):
    variables, checkpoints = make(tmp_path, a=1.0)
    checkpoints.save(1)
    variables["model/layer/a"].assign(2.0)
    checkpoints.save(1)
    values = read_checkpoint(tmp_path / "step-00000001")
    assert values["model/layer/a"] == 2.0


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"a": [1.0], "b": 1.0, "c": 1.0}, "has no model/layer/c"),
        ({"a": [1.0]}, "holds model/layer/b, which this run does not have"),
        ({"a": [1.0, 2.0], "b": 1.0}, r"a has shape \[1\], but \[2\]"),
        ({"a": [1.0], "b": 1.0, "seed": 4}, "seed=0, not 4"),
    ],
)
def test_checkpoint_of_another_run_is_named(tmp_path, other, message):
    _, checkpoints = make(tmp_path, a=[9.0], b=9.0)
    checkpoints.save(1)
    variables, checkpoints = make(tmp_path, **other)
    before = read(variables)
    with pytest.raises(InputError, match=message):
        checkpoints.restore_latest()
    assert read(variables) == before


def test_only_the_writer_writes(tmp_path):
    variables, _ = make(tmp_path, a=1.0)
    Checkpoints(tmp_path / "x", variables, writes=False).save(1)
    assert not (tmp_path / "x").exists()


def test_name_inside_a_name_is_refused(tmp_path):
    variables = {"a": tf.Variable(1.0), "a/b": tf.Variable(1.0)}
    with pytest.raises(ValueError, match="'a/b'"):
        Checkpoints(tmp_path, variables)


@pytest.fixture(scope="module")
def run(toy, tmp_path_factory):
    """Folder and final weights of a run."""
    folder = tmp_path_factory.mktemp("run")
    model, *_ = toy.run(
        tf.distribute.get_strategy(),
        total_steps=4,
        save_steps=2,
        run_dir=folder,
    )
    return folder, toy.weights(model)


class TestLoadModelVariables:
    @pytest.mark.parametrize(
        "part", ["", "checkpoints", "checkpoints/step-00000004"]
    )
    def test_weights_of_the_newest(self, toy, run, part):
        folder, weights = run
        model = toy.Toy(seed=9)
        assert load_model_variables(model, folder / part) == 4
        for name, value in toy.weights(model).items():
            np.testing.assert_array_equal(value, weights[name])

    def test_one_checkpoint_by_name(self, toy, run):
        model = toy.Toy(seed=9)
        path = run[0] / "checkpoints" / "step-00000002"
        assert load_model_variables(model, path) == 2

    def test_part_of_the_model_must_be_asked_for(self, toy, run):
        model = toy.Toy(seed=9)
        part = PartOf(model, "table")
        with pytest.raises(InputError, match="holds model/dense"):
            load_model_variables(part, run[0])
        load_model_variables(part, run[0], allow_unused=True)
        np.testing.assert_array_equal(
            model.table.embeddings, run[1]["table/embeddings"]
        )

    def test_folder_without_checkpoint_is_named(self, toy, tmp_path):
        with pytest.raises(InputError, match="no checkpoint there"):
            load_model_variables(toy.Toy(), tmp_path)


class PartOf:
    def __init__(self, model, name):
        self.weights = [v for v in model.weights if name in v.path]


def test_training_variables_cover_model_and_optimizer(toy):
    model, optimizer, _ = toy.run(tf.distribute.get_strategy(), total_steps=1)
    names = training_variables(model, optimizer)
    assert len(names) == 3 * len(model.weights)
