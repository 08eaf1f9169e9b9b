import types

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.examples import BadExamples
from albert_tf.finetuning.predictor import Predictions
from albert_tf.finetuning.registry import known_task
from albert_tf.finetuning.text_classification.glue_submission import (
    write_submissions,
)


def submit(folder, task, rows, predictions):
    """Writes predictions for rows of a test file; returns the bytes."""
    (folder / "test.tsv").write_text("".join(f"{x}\n" for x in rows))

    def chunks(examples):
        # Two at a time, as if there were many.
        examples = list(examples)
        for i in range(0, len(examples), 2):
            yield Predictions(
                examples=examples[i : i + 2],
                predictions=predictions[i : i + 2],
                members={},
            )

    (folder / "site").mkdir()
    [path] = write_submissions(
        types.SimpleNamespace(chunks=chunks),
        known_task(task),
        folder / "site",
        BadExamples(),
        data=folder,
    )
    return path.name, path.read_bytes()


def test_classes_by_name(tmp_path):
    rows = ["index\tsentence1\tsentence2", "0\ta\tb", "1\ta\tb", "2\ta\tb"]
    predictions = np.eye(2)[[1, 0, 1]]
    assert submit(tmp_path, "rte", rows, predictions) == (
        "RTE.tsv",
        b"index\tprediction\n"
        b"0\tnot_entailment\n1\tentailment\n2\tnot_entailment\n",
    )


def test_numbers(tmp_path):
    rows = ["index\tsentence1\tsentence2", "0\ta\tb", "1\ta\tb"]
    assert submit(tmp_path, "stsb", rows, [4.2, 0.12345678]) == (
        "STS-B.tsv",
        b"index\tprediction\n0\t4.200000\n1\t0.123457\n",
    )


def test_its_input_is_not_overwritten(tmp_path):
    test = tmp_path / "test.tsv"
    test.write_text("index\tsentence1\tsentence2\n0\ta\tb\n")
    test.rename(tmp_path / "RTE.tsv")
    test.symlink_to("RTE.tsv")
    before = test.read_bytes()
    with pytest.raises(InputError, match="would destroy the input"):
        list(
            write_submissions(
                types.SimpleNamespace(chunks=lambda _: pytest.fail("predicts")),
                known_task("rte"),
                tmp_path,
                BadExamples(),
                data=tmp_path,
            )
        )
    assert test.read_bytes() == before


def test_errors_leave_no_file(tmp_path):
    rows = ["index\tsentence1\tsentence2", "0\ta\tb", "0\ta\tb"]
    with pytest.raises(
        InputError, match="test.tsv:3: id '0' is also used by anot"
    ):
        submit(tmp_path, "rte", rows, np.eye(2))
    assert not list((tmp_path / "site").iterdir())
