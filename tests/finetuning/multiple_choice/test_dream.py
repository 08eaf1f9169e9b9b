import json

import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.examples import BadExamples
from albert_tf.finetuning.multiple_choice.examples import (
    MultipleChoiceExample,
    read_dream,
)


def question(**more):
    return {
        "question": "What?",
        "choice": ["A job.", "A book.", "Rain."],
        "answer": "A book.",
        **more,
    }


def write(path, *dialogues):
    path.write_text(json.dumps(dialogues), "utf-8")
    return path


def read(path, policy="stop", **settings):
    bad = BadExamples(policy)
    return list(read_dream(path, bad=bad, **settings)), bad


def test_turns_are_joined(tmp_path):
    path = write(
        tmp_path / "dev.json",
        [["M: Hello.", "W: Hi."], [question(), question()], "4-1"],
    )
    examples, _ = read(path)
    assert examples[1] == MultipleChoiceExample(
        id="4-1-1",
        passage="M: Hello.\nW: Hi.",
        question="What?",
        options=("A job.", "A book.", "Rain."),
        label=1,
        location=f"{path}, question 4-1-1",
    )
    assert read(path, labelled=False)[0][0].label is None


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"choice": ["a", "b"]}, "not 3 options"),
        ({"choice": ["a", "b", ""]}, "the option 3 is empty"),
        ({"question": ""}, "the question is empty"),
        ({"answer": "Snow."}, "answer 'Snow.' is not exactly one of A job"),
        ({"choice": ["A book.", "A book.", "x"]}, "is not exactly one of"),
    ],
)
def test_bad_questions(tmp_path, more, problem):
    path = write(
        tmp_path / "dev.json", [["M: Hi."], [question(), question(**more)], "4"]
    )
    with pytest.raises(
        InputError, match=f"dev.json, question 4-1: .*{problem}"
    ):
        read(path)
    examples, bad = read(path, "skip")
    assert (len(examples), bad.counted) == (1, 1)


def test_duplicate_dialogues(tmp_path):
    dialogue = [["M: Hi."], [question()], "4"]
    path = write(tmp_path / "dev.json", dialogue, dialogue)
    with pytest.raises(InputError, match="question 4-0: another question has"):
        read(path)


@pytest.mark.parametrize("content", ["{}", "[[1]]", "3", "[[[1], [], 2]]"])
def test_other_layouts(tmp_path, content):
    path = tmp_path / "dev.json"
    path.write_text(content)
    with pytest.raises(InputError, match="in DREAM's layout|no questions"):
        read(path)


@pytest.mark.parametrize(
    ("split", "count"), [("train", 6116), ("dev", 2040), ("test", 2041)]
)
def test_real_dialogues(shared, split, count):
    examples, _ = read(shared("data", "dream", f"{split}.json"))
    assert len(examples) == count
    assert {each.label for each in examples} == {0, 1, 2}
