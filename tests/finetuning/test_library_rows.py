import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.examples import BadExamples
from albert_tf.finetuning.library_datasets import DatasetRows
from albert_tf.finetuning.registry import known_task, make_task_type
from albert_tf.finetuning.text_classification.glue import GLUE

# Task -> text fields, a class number or score, and our label for it.
ROWS = {
    "cola": (["sentence"], 1, "1"),
    "sst2": (["sentence"], 0, "0"),
    "mrpc": (["sentence1", "sentence2"], 1, "1"),
    "stsb": (["sentence1", "sentence2"], 3.5, 3.5),
    "qqp": (["question1", "question2"], 0, "0"),
    "mnli": (["premise", "hypothesis"], 2, "contradiction"),
    "qnli": (["question", "sentence"], 1, "not_entailment"),
    "rte": (["sentence1", "sentence2"], 0, "entailment"),
    "wnli": (["sentence1", "sentence2"], 1, "1"),
}
NLI = {"premise": "one", "hypothesis": "two", "idx": 0}
QUESTION = {
    "id": "5a",
    "title": "Bach",
    "context": "Bach was born in Eisenach.",
    "question": "Where?",
    "answers": {"text": ["Eisenach"], "answer_start": [17]},
}
RACE = {"article": "It rains.", "options": [*"abcd"], "question": "Why?"}


def examples(task, *data_sets, classes=None, policy="stop", **settings):
    parts = [
        DatasetRows(name=f"set {n}", rows=rows, classes=classes)
        for n, rows in enumerate(data_sets)
    ]
    settings = {
        "labelled": True,
        "training": True,
        "bad": BadExamples(policy),
    } | settings
    task_type = make_task_type(known_task(task))
    return list(task_type.read_examples(parts, **settings))


def as_numpy(value):
    """Returns a value as `tfds.as_numpy` gives it."""
    if isinstance(value, dict):
        return {key: as_numpy(each) for key, each in value.items()}
    if isinstance(value, list):
        return np.array([as_numpy(each) for each in value], object)
    return value.encode() if isinstance(value, str) else np.array(value)[()]


@pytest.fixture(params=[list, lambda rows: [as_numpy(x) for x in rows]])
def rows_like(request):
    return request.param


@pytest.mark.parametrize("task", ROWS)
def test_glue(task, rows_like):
    fields, number, label = ROWS[task]
    row = dict(zip(fields, ["one", "zwö"], strict=False))
    row |= {"idx": 7, "label": number}
    [example] = examples(task, rows_like([row]))
    assert example.id == "7"
    assert example.text == "one"
    assert example.pair == ("zwö" if len(fields) == 2 else None)
    assert example.label == label
    [example] = examples(task, rows_like([row]), labelled=False)
    assert example.label is None


def test_every_task_of_glue_has_its_fields():
    rows = {field: "a" for fields, *_ in ROWS.values() for field in fields}
    for task in GLUE:
        [example] = examples(task, [rows | NLI | {"label": -1}], labelled=False)
        assert (example.pair is None) == (GLUE[task].pair is None)


@pytest.mark.parametrize(
    ("classes", "label", "ours"),
    [
        (("entailment", "neutral", "contradiction"), 0, "entailment"),
        # Another order of the same classes, and classes of other names.
        (("contradiction", "entailment", "neutral"), 0, "contradiction"),
        (("yes", "maybe", "no"), 2, "contradiction"),
        (None, "neutral", "neutral"),
    ],
)
def test_classes_have_names(classes, label, ours):
    [example] = examples("mnli", [{**NLI, "label": label}], classes=classes)
    assert example.label == ours


@pytest.mark.parametrize("task", ["mnli", "stsb"])
def test_hidden_labels(task, rows_like):
    row = {**NLI, "sentence1": "one", "sentence2": "two", "label": -1}
    with pytest.raises(InputError, match="set 0: its labels are not pub"):
        examples(task, rows_like([row]))
    [example] = examples(task, rows_like([row]), labelled=False)
    assert example.label is None


def test_missing_fields():
    with pytest.raises(InputError, match="set 0: no field 'premise' among"):
        examples("mnli", [{"sentence": "one", "idx": 0, "label": 0}])
    with pytest.raises(InputError, match="set 0: no field 'answers'"):
        examples("squad1.1", [{"id": "5a"}])


def test_squad(rows_like):
    [example] = examples("squad1.1", rows_like([QUESTION]))
    assert example.id == "5a"
    assert example.answers[0].start == 17
    empty = {**QUESTION, "answers": {"text": [], "answer_start": []}}
    for more in ({}, {"is_impossible": True}):
        [example] = examples("squad2.0", rows_like([{**empty, **more}]))
        assert example.is_impossible
        assert example.answers == ()
    with pytest.raises(InputError, match="question 5a: no answer"):
        examples("squad1.1", rows_like([empty]))


def test_race_with_a_row_a_question(rows_like):
    middle = [
        {**RACE, "example_id": name, "answer": answer}
        for name, answer in (("middle1.txt", "A"), ("middle1.txt", "D"))
    ]
    high = [{**RACE, "example_id": "high1.txt", "answer": "B"}]
    found = examples("race", rows_like(middle), rows_like(high))
    assert [(each.id, each.group, each.label) for each in found] == [
        ("middle1.txt-0", "middle", 0),
        ("middle1.txt-1", "middle", 3),
        ("high1.txt-0", "high", 1),
    ]
