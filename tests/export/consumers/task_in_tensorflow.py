"""Uses exported tasks with TensorFlow and TensorFlow Text only.

Usage: task_in_tensorflow.py NEW_FOLDER [TASK EXPECTED.json]...

EXPECTED.json has "inputs", name -> strings; "outputs", name -> values, some of
those that the task has; and "labels", or null.
"""

import json
import pathlib
import shutil
import sys

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401


def same(outputs, expected):
    for name, values in expected.items():
        found = outputs[name].numpy()
        if found.dtype == object:
            found = np.char.decode(found.astype(bytes), "utf-8").tolist()
            assert found == values, name
        elif np.issubdtype(found.dtype, np.integer):
            np.testing.assert_array_equal(found, values, name)
        else:
            # Batches differ, and so the order of sums in float32.
            np.testing.assert_allclose(
                found, values, rtol=0, atol=1e-5, err_msg=name
            )


def check_forms(task, inputs, expected):
    same(task(inputs), expected["outputs"])
    same(task(inputs, training=False), expected["outputs"])
    in_order = list(inputs.values())
    same(
        task(in_order if len(inputs) > 1 else in_order[0]), expected["outputs"]
    )
    signature = task.signatures["serving_default"]
    named = signature.structured_input_signature[1]
    assert named.keys() == inputs.keys()
    outputs = signature(**inputs)
    same(outputs, expected["outputs"])
    batch = len(in_order[0])
    for name, values in outputs.items():
        assert values.shape[0] == batch, name
    nothing = signature(**{name: x[:0] for name, x in inputs.items()})
    assert nothing.keys() == outputs.keys()
    for name, values in nothing.items():
        assert values.shape[0] == 0, name


def check_training(task, inputs, floats):
    def spread(call):
        draws = [call()[floats] for _ in range(3)]
        return float(np.max(np.std(draws, axis=0)))

    assert spread(lambda: task(inputs)) < 1e-6
    assert spread(lambda: task(inputs, training=True)) > 1e-4
    assert spread(lambda: task.call_training(inputs)) > 1e-4
    assert len(task.variables) == len(task.trainable_variables) > 20
    assert list(task.regularization_losses) == []
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(task(inputs, training=True)[floats] ** 2)
    gradients = tape.gradient(loss, task.trainable_variables)
    for variable, gradient in zip(
        task.trainable_variables, gradients, strict=True
    ):
        assert gradient is not None, variable.name


def check_belongings(task, expected, path):
    if expected["labels"] is None:
        assert not hasattr(task, "labels")
    else:
        labels = [label.decode() for label in task.labels().numpy()]
        assert labels == expected["labels"]
    asset = pathlib.Path(task.sp_model_file.asset_path.numpy().decode())
    assert asset.is_relative_to(path)
    assert asset.read_bytes()
    assert task.do_lower_case.numpy() is np.True_


def check_saved_again(path, expected, inputs, new_folder):
    first, second = new_folder / "first", new_folder / "second"
    shutil.copytree(path, first)
    loaded = tf.saved_model.load(first)
    tf.saved_model.save(loaded, second, signatures=loaded.signatures)
    shutil.rmtree(first)
    task = tf.saved_model.load(second)
    check_forms(task, inputs, expected)
    check_belongings(task, expected, second)


def main(new_folder, *paths):
    for path, expected_path in zip(paths[::2], paths[1::2], strict=True):
        expected = json.loads(pathlib.Path(expected_path).read_text())
        inputs = {k: tf.constant(v) for k, v in expected["inputs"].items()}
        task = tf.saved_model.load(path)
        check_forms(task, inputs, expected)
        check_belongings(task, expected, path)
        if expected["trained"]:
            check_training(task, inputs, expected["trained"])
    check_saved_again(path, expected, inputs, pathlib.Path(new_folder))
    assert "albert_tf" not in sys.modules


if __name__ == "__main__":
    main(*sys.argv[1:])
