"""Answers questions by exported models, with nothing but TensorFlow.

Usage: answers.py [EXPORT EXPECTED.json]...
"""

import json
import pathlib
import sys

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  Registers what the graph is made of.


def check(outputs, expected):
    contexts = expected["context"]
    names = set(expected["outputs"][0])
    assert set(outputs) == {*names, "start_byte", "end_byte"}, set(outputs)
    outputs = {name: x.numpy() for name, x in outputs.items()}
    for n, record in enumerate(expected["outputs"]):
        answer = outputs["answer"][n].decode()
        assert answer == record["answer"], (answer, record)
        start, end = outputs["start"][n], outputs["end"][n]
        assert (start, end) == (record["start"], record["end"])
        if start >= 0:
            assert contexts[n][start:end] == answer
            first, last = outputs["start_byte"][n], outputs["end_byte"][n]
            assert contexts[n].encode()[first:last].decode() == answer
    for name in names & {"score", "probability", "null_odds"}:
        wanted = [record[name] for record in expected["outputs"]]
        np.testing.assert_allclose(outputs[name], wanted, rtol=1e-5, atol=1e-4)


def check_export(path, expected_path):
    expected = json.loads(pathlib.Path(expected_path).read_text())
    question = tf.constant(expected["question"])
    context = tf.constant(expected["context"])
    task = tf.saved_model.load(path)
    check(task({"question": question, "context": context}), expected)
    check(task([question, context], training=False), expected)
    serve = task.signatures["serving_default"]
    check(serve(question=question, context=context), expected)
    # Servers read the shapes of outputs.
    assert {x.shape.rank for x in serve.structured_outputs.values()} == {1}
    assert (
        serve(question=question[:0], context=context[:0])["answer"].shape == 0
    )

    drawn = [
        task({"question": question, "context": context}, training=True)["score"]
        for _ in range(2)
    ]
    assert np.abs(drawn[0] - drawn[1]).max() > 1e-3
    assert len(task.trainable_variables) > 10


if __name__ == "__main__":
    for paths in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        check_export(*paths)
    assert "albert_tf" not in sys.modules
