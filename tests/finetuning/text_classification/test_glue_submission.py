import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.text_classification.glue_submission import (
    write_submission,
)


def test_classes_by_name(tmp_path):
    path = tmp_path / "RTE.tsv"
    labels = ("entailment", "not_entailment")
    assert write_submission(path, ["0", "1", "2"], [1, 0, 1], labels) == 3
    assert path.read_bytes() == (
        b"index\tprediction\n"
        b"0\tnot_entailment\n1\tentailment\n2\tnot_entailment\n"
    )
    assert list(tmp_path.iterdir()) == [path]


def test_numbers(tmp_path):
    path = tmp_path / "STS-B.tsv"
    write_submission(path, iter(["0", "1"]), iter([4.2, 0.12345678]))
    assert path.read_text() == "index\tprediction\n0\t4.200000\n1\t0.123457\n"


@pytest.mark.parametrize(
    ("ids", "predictions", "message"),
    [
        (["0", "1"], [1], "1 predictions for 2 examples"),
        (["0", "0"], [1, 1], "two predictions for index '0'"),
        (["0"], [2], "class 2 has no label; there are 2: no, yes"),
        (["0"], [-1], "class -1 has no label"),
    ],
)
def test_what_is_refused_leaves_no_file(tmp_path, ids, predictions, message):
    with pytest.raises(InputError, match=message):
        write_submission(tmp_path / "x.tsv", ids, predictions, ["no", "yes"])
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there(tmp_path):
    path = tmp_path / "none" / "RTE.tsv"
    with pytest.raises(InputError, match="cannot be written: No such file"):
        write_submission(path, ["0"], [0], ["no"])
