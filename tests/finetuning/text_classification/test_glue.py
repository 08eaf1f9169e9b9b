import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.examples import BadExamples
from albert_tf.finetuning.task_config import split_path
from albert_tf.finetuning.text_classification.examples import (
    read_texts,
    text_task_config,
)
from albert_tf.finetuning.text_classification.glue import GLUE

# A row of each file as distributed, with what has to come out of it.
HEADERS = {
    "cola": "gj04\t{label}\t*\t{text}\n",
    "sst2": "sentence\tlabel\n{text}\t{label}\n",
    "mrpc": "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    "{label}\t70\t71\t{text}\t{pair}\n",
    "stsb": "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\t"
    "sentence1\tsentence2\tscore\n"
    "0\tmain\tMSRvid\t2012\t0001\tnone\tnone\t{text}\t{pair}\t{label}\n",
    "qqp": "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
    "0\t5\t6\t{text}\t{pair}\t{label}\n",
    "mnli": "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\t"
    "sentence2_binary_parse\tsentence1_parse\tsentence2_parse\tsentence1\t"
    "sentence2\tlabel1\tgold_label\n"
    "0\t1\t1n\tx\t(\t(\t(\t(\t{text}\t{pair}\t{label}\t{label}\n",
    "qnli": "index\tquestion\tsentence\tlabel\n0\t{text}\t{pair}\t{label}\n",
    "rte": "index\tsentence1\tsentence2\tlabel\n0\t{text}\t{pair}\t{label}\n",
    "wnli": "index\tsentence1\tsentence2\tlabel\n0\t{text}\t{pair}\t{label}\n",
}
TEST_HEADERS = {
    "cola": "index\tsentence\n0\t{text}\n",
    "sst2": "index\tsentence\n0\t{text}\n",
    "mrpc": "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    "0\t70\t71\t{text}\t{pair}\n",
    "qqp": "id\tquestion1\tquestion2\n0\t{text}\t{pair}\n",
    "mnli": "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\t"
    "sentence2_binary_parse\tsentence1_parse\tsentence2_parse\tsentence1\t"
    "sentence2\n0\t1\t1n\tx\t(\t(\t(\t(\t{text}\t{pair}\n",
    "qnli": "index\tquestion\tsentence\n0\t{text}\t{pair}\n",
    "ax": "index\tsentence1\tsentence2\n0\t{text}\t{pair}\n",
}
TEXTS = {"text": "He said \"it's", "pair": "two"}
COUNTS = {
    "cola": (8551, 1043, None),
    "sst2": (67349, 872, 1821),
    "mrpc": (3668, 408, 1725),
    "stsb": (5749, 1500, 1379),
    "rte": (2490, 277, 3000),
}


def test_the_tasks():
    assert list(GLUE) == [
        "cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli",
        "ax",
    ]  # fmt: skip
    # The original's order, on which its checkpoints' outputs depend.
    three = ("contradiction", "entailment", "neutral")
    assert GLUE["mnli"].labels == GLUE["ax"].labels == three
    assert GLUE["rte"].labels == ("entailment", "not_entailment")
    assert GLUE["qnli"].labels == ("entailment", "not_entailment")
    assert GLUE["stsb"].labels is None
    assert GLUE["cola"].metrics == ("matthews",)
    assert GLUE["stsb"].metrics == ("pearson", "spearman")
    assert GLUE["qqp"].metrics == ("accuracy", "f1")
    submissions = [
        name for task in GLUE.values() for name in task.submissions.values()
    ]
    assert submissions == [
        "CoLA.tsv", "SST-2.tsv", "MRPC.tsv", "STS-B.tsv", "QQP.tsv",
        "MNLI-m.tsv", "MNLI-mm.tsv", "QNLI.tsv", "RTE.tsv", "WNLI.tsv",
        "AX.tsv",
    ]  # fmt: skip
    for task in GLUE.values():
        assert task.submissions.keys() <= task.files.keys()


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("name", HEADERS)
def test_columns_of_labelled_files(tmp_path, name, labelled):
    """They may also be predicted."""
    task = GLUE[name]
    label = task.labels[-1] if task.labels else "3.25"
    path = tmp_path / "train.tsv"
    path.write_text(HEADERS[name].format(label=label, **TEXTS), "utf-8")
    [example] = read_texts(task, path, bad=BadExamples(), labelled=labelled)
    assert example.id == "0"
    assert example.text == TEXTS["text"]
    assert example.pair == (None if task.pair is None else "two")
    if labelled:
        assert example.label == (label if task.labels else 3.25)


@pytest.mark.parametrize("name", TEST_HEADERS)
def test_columns_of_test_files(tmp_path, name):
    task = GLUE[name]
    path = tmp_path / "test.tsv"
    path.write_text(TEST_HEADERS[name].format(**TEXTS), "utf-8")
    [example] = read_texts(task, path, bad=BadExamples(), labelled=False)
    assert example.id == "0"
    assert example.text == TEXTS["text"]
    assert example.pair == (None if task.pair is None else "two")
    assert example.label is None


def test_ax_has_no_labels(tmp_path):
    with pytest.raises(InputError, match="ax has no files with labels"):
        list(read_texts(GLUE["ax"], tmp_path, bad=BadExamples(), labelled=True))


def test_splits_of_mnli(tmp_path):
    (tmp_path / "MNLI").mkdir()
    for name in ("dev_matched.tsv", "test_mismatched.tsv"):
        (tmp_path / "MNLI" / name).touch()
    found = split_path(text_task_config(GLUE["mnli"]), tmp_path, "dev")
    assert found.name == "dev_matched.tsv"
    found = split_path(
        text_task_config(GLUE["mnli"]), tmp_path, "test_mismatched"
    )
    assert found.name == "test_mismatched.tsv"


def test_mrpc_as_microsoft_distributes_it(tmp_path):
    path = tmp_path / "msr_paraphrase_test.txt"
    path.write_text(HEADERS["mrpc"].format(label=1, **TEXTS), "utf-8")
    assert split_path(text_task_config(GLUE["mrpc"]), tmp_path, "test") == path
    for labelled in (True, False):
        [example] = read_texts(
            GLUE["mrpc"], path, bad=BadExamples(), labelled=labelled
        )
        assert (example.text, example.pair) == (TEXTS["text"], "two")
    with pytest.raises(InputError, match="mrpc has no dev.tsv"):
        split_path(text_task_config(GLUE["mrpc"]), tmp_path, "dev")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.long] if name == "sst2" else [])
        for name in COUNTS
    ],
)
def test_real_files(shared, name):
    task = GLUE[name]
    for split, count in zip(task.files, COUNTS[name], strict=True):
        if count is None:
            continue
        path = split_path(text_task_config(task), shared("data", "glue"), split)
        bad = BadExamples("skip")
        examples = list(
            read_texts(task, path, bad=bad, labelled=split != "test")
        )
        assert len(examples) == count
        # The file of RTE lacks its header and has a duplicate row.
        assert bad.counted == (name == "rte" and split == "train")
        assert len({each.id for each in examples}) == count
        assert all(
            (each.pair is None) == (task.pair is None) for each in examples
        )
        if split == "test":
            # The index that submissions to GLUE need.
            assert [each.id for each in examples] == [*map(str, range(count))]
        elif task.labels:
            assert {each.label for each in examples} == set(task.labels)
        else:
            assert all(0 <= each.label <= 5 for each in examples)
