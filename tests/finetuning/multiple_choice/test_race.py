import collections
import json

import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.examples import BadExamples
from albert_tf.finetuning.multiple_choice.examples import (
    MultipleChoiceExample,
    read_race,
)

OPTIONS = ["one", "two", "three", "four"]


def passage(name, answers="BD", **more):
    return {
        "id": name,
        "article": "It rains.",
        "questions": [f"Why {n} _ ?" for n in range(len(answers))],
        "options": [OPTIONS for _ in answers],
        "answers": list(answers),
        **more,
    }


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), "utf-8")


def read(path, policy="stop", **settings):
    bad = BadExamples(policy)
    return list(read_race(path, bad=bad, **settings)), bad


@pytest.fixture
def folder(tmp_path):
    """The layout as distributed."""
    for number in (2, 10, 1):
        name = f"high{number}.txt"
        write(tmp_path / "high" / f"{number}.txt", passage(name))
    write(tmp_path / "middle" / "7.txt", passage("middle7.txt", "A"))
    return tmp_path


def test_files_as_distributed(folder):
    examples, _ = read(folder)
    assert [each.id for each in examples] == [
        "middle7.txt-0",
        "high1.txt-0",
        "high1.txt-1",
        "high2.txt-0",
        "high2.txt-1",
        "high10.txt-0",
        "high10.txt-1",
    ]
    assert examples[2] == MultipleChoiceExample(
        id="high1.txt-1",
        passage="It rains.",
        question="Why 1 _ ?",
        options=tuple(OPTIONS),
        label=3,
        group="high",
        location=f"{folder / 'high' / '1.txt'}, question high1.txt-1",
    )
    examples, _ = read(folder, labelled=False)
    assert {each.label for each in examples} == {None}


def test_one_file_a_group(tmp_path):
    for group in ("middle", "high"):
        lines = [json.dumps(passage(f"{group}{n}.txt")) for n in (3, 1)]
        (tmp_path / group).mkdir()
        (tmp_path / group / "all.txt").write_text("\n".join(lines) + "\n")
    examples, _ = read(tmp_path)
    assert len(examples) == 8
    assert examples[-1].id == "high1.txt-1"
    assert examples[-1].location.endswith("all.txt:2, question high1.txt-1")


def test_json_lines_of_questions(tmp_path):
    path = tmp_path / "race.jsonl"
    lines = [
        {
            "example_id": name,
            "question_id": number,
            "article": "It rains.",
            "question": "Why?",
            "options": OPTIONS,
            "answer": "C",
        }
        for name, number in (("high5.txt", 2), ("middle6.txt", 0))
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    examples, _ = read(path)
    assert [(x.id, x.group, x.label) for x in examples] == [
        ("high5.txt-2", "high", 2),
        ("middle6.txt-0", "middle", 2),
    ]
    # Without numbers, as in Hugging Face's dataset.
    lines = [{**lines[n], "question": "When?"} for n in (0, 1, 0, 0)]
    for line in lines:
        del line["question_id"]
    path.write_text("\n".join(map(json.dumps, lines)))
    examples, _ = read(path)
    ids = [f"high5.txt-{n}" for n in range(3)]
    assert [x.id for x in examples] == [ids[0], "middle6.txt-0", *ids[1:]]


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"answers": ["E", "A"]}, "high3.txt-0: answer 'E' is not exactly"),
        ({"answers": ["AB", "A"]}, "high3.txt-0: answer 'AB' is not exactly"),
        (
            {"questions": ["Why?", "When?"], "options": [OPTIONS] * 2}
            | {"answers": ["A"]},
            "high3.txt-1: answer None is not exactly",
        ),
        ({"options": [OPTIONS, ["a"]]}, "high3.txt-1: not 4 options"),
        ({"options": [OPTIONS, [*"abc", " "]]}, "the option 4 is empty"),
        ({"questions": ["", "Why?"]}, "high3.txt-0: the question is empty"),
    ],
)
def test_bad_questions(folder, more, problem):
    write(folder / "high" / "3.txt", passage("high3.txt", **more))
    with pytest.raises(InputError, match=f"3.txt, question .*{problem}"):
        read(folder)
    examples, bad = read(folder, "skip")
    assert len(examples) == 8
    assert bad.counted == 1


def test_bad_files(folder):
    write(folder / "high" / "3.txt", passage("high1.txt", "A"))
    with pytest.raises(InputError, match="high1.txt-0: another question has"):
        read(folder)
    (folder / "high" / "3.txt").write_text("{")
    with pytest.raises(InputError, match="3.txt:1: not JSON"):
        read(folder)
    write(folder / "high" / "3.txt", [])
    with pytest.raises(InputError, match="3.txt: not a JSON object"):
        read(folder)
    assert len(read(folder, "skip")[0]) == 7
    (folder / "all.jsonl").write_text('{"id": \n[]\n')
    examples_and_bad = BadExamples("skip")
    with pytest.raises(InputError, match="all.jsonl: no questions"):
        list(read_race(folder / "all.jsonl", bad=examples_and_bad))
    assert examples_and_bad.counted == 2


def test_other_folders(tmp_path):
    with pytest.raises(InputError, match="none of the folders middle, high"):
        read(tmp_path)
    (tmp_path / "high").mkdir()
    with pytest.raises(InputError, match="no questions; give another"):
        read(tmp_path)


@pytest.mark.parametrize("name", ["race.jsonl", "official-format"])
def test_real_questions(shared, name):
    examples, _ = read(shared("data", "race-sample", name))
    groups = collections.Counter(each.group for each in examples)
    assert groups == {"middle": 500, "high": 500}
    labels = collections.Counter(each.label for each in examples)
    assert labels == {0: 191, 1: 298, 2: 277, 3: 234}
    assert len({each.passage for each in examples}) == 994
    assert sum("_" in each.question for each in examples) == 292
