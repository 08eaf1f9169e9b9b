import importlib.util

import numpy as np
import pytest

from albert_tf.data.examples.bad_examples import BadExamples
from albert_tf.data.examples.glue import GLUE
from albert_tf.data.examples.named_sources import (
    SOURCES,
    examples_of_rows,
    read_named,
)
from albert_tf.errors import InputError

PACKAGES = {"tfds": "tensorflow_datasets", "huggingface": "datasets"}
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
    "ax": (["premise", "hypothesis"], -1, None),
}
QUESTION = {
    "id": "5a",
    "title": "Bach",
    "context": "Bach was born in Eisenach.",
    "question": "Where?",
    "answers": {"text": ["Eisenach"], "answer_start": [17]},
}
RACE = {"article": "It rains.", "options": [*"abcd"], "question": "Why?"}


def examples(task, *data_sets, policy="stop", **settings):
    named = [(f"set {n}", rows) for n, rows in enumerate(data_sets)]
    settings = {"labelled": True, "bad": BadExamples(policy)} | settings
    return list(examples_of_rows(task, named, **settings))


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
    [example] = examples(
        task, rows_like([row]), labelled=GLUE[task].label is not None
    )
    assert example.id == "7"
    assert example.text == "one"
    assert example.pair == ("zwö" if len(fields) == 2 else None)
    assert example.label == label
    [example] = examples(task, rows_like([row]), labelled=False)
    assert example.label is None


def test_glue_labels_that_are_hidden(rows_like):
    row = {"premise": "one", "hypothesis": "two", "idx": 0, "label": -1}
    with pytest.raises(InputError, match="set 0, row 0: label '-1' is not one"):
        examples("mnli", rows_like([row]))


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


def test_race_with_a_row_a_passage(rows_like):
    row = {
        "example_id": "high1.txt",
        "article": "It rains.",
        "questions": ["Why?", "When?"],
        "options": [[*"abcd"], [*"efgh"]],
        "answers": ["A", "C"],
    }
    found = examples("race", [], rows_like([row]))
    assert [(each.id, each.label) for each in found] == [
        ("high1.txt-0", 0),
        ("high1.txt-1", 2),
    ]
    assert found[1].options == ("e", "f", "g", "h")


def test_rows_of_hugging_faces_library():
    datasets = pytest.importorskip("datasets")
    names = ["entailment", "neutral", "contradiction"]
    data = datasets.Dataset.from_dict(
        {
            "premise": ["one", "two"],
            "hypothesis": ["three", "four"],
            "label": [1, 2],
            "idx": [0, 1],
        },
    ).cast_column("label", datasets.ClassLabel(names=names))
    found = examples("mnli", data)
    assert [each.label for each in found] == ["neutral", "contradiction"]
    [example] = examples("squad1.1", datasets.Dataset.from_list([QUESTION]))
    assert example.answers[0].text == "Eisenach"
    empty = datasets.Dataset.from_list([])
    rows = [{**RACE, "example_id": "high1.txt", "answer": "B"}] * 2
    found = examples("race", empty, datasets.Dataset.from_list(rows))
    assert [each.id for each in found] == ["high1.txt-0", "high1.txt-1"]


@pytest.mark.parametrize("source", SOURCES)
def test_packages_that_are_not_installed(source):
    if importlib.util.find_spec(PACKAGES[source]):
        pytest.skip(f"{PACKAGES[source]} is installed")
    with pytest.raises(InputError, match=f"from='{source}' needs .* pip insta"):
        read_named(
            "rte", "train", source=source, bad=BadExamples(), labelled=True
        )


def test_other_names():
    settings = {"bad": BadExamples(), "labelled": True}
    with pytest.raises(InputError, match="from='web' must be one of tfds, hug"):
        read_named("rte", "train", source="web", **settings)
    with pytest.raises(InputError, match="task='dream' cannot be had by"):
        read_named("dream", "train", source="tfds", **settings)
