import collections
import gzip
import json

import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.examples import BadExamples
from albert_tf.finetuning.question_answering.examples import (
    Answer,
    QuestionAnsweringExample,
    read_squad,
)
from albert_tf.finetuning.registry import known_task, make_task_type

CONTEXT = "Bach was born in Eisenach. Bach died in Leipzig."


def question(name="q", answers=(("Bach", 0),), **more):
    return {
        "id": name,
        "question": "Who?",
        "answers": [{"text": t, "answer_start": s} for t, s in answers],
        **more,
    }


def write(path, *questions, context=CONTEXT):
    paragraph = {"context": context, "qas": list(questions)}
    data = {"version": "1", "data": [{"paragraphs": [paragraph]}]}
    path.write_text(json.dumps(data), "utf-8")
    return path


def read(path, policy="stop", **settings):
    bad = BadExamples(policy)
    return list(read_squad(path, bad=bad, **settings)), bad


def test_examples(tmp_path):
    path = write(
        tmp_path / "a.json",
        question("a", [("Bach", 27), ("Leipzig", 40)]),
        question("b", [], is_impossible=True, plausible_answers=[{}]),
    )
    examples, _ = read(path)
    assert examples == [
        QuestionAnsweringExample(
            id="a",
            question="Who?",
            context=CONTEXT,
            answers=(
                Answer(text="Bach", start=27),
                Answer(text="Leipzig", start=40),
            ),
            location=f"{path}, question a",
        ),
        QuestionAnsweringExample(
            id="b",
            question="Who?",
            context=CONTEXT,
            is_impossible=True,
            location=f"{path}, question b",
        ),
    ]
    packed = tmp_path / "a.json.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert len(read(packed)[0]) == 2


def test_unlabelled(tmp_path):
    path = write(
        tmp_path / "a.json",
        {"id": "a", "question": "Who?"},
        question("b", [("wrong", 3)], is_impossible=True),
    )
    examples, _ = read(path, labelled=False)
    assert [each.answers for each in examples] == [(), ()]
    assert not examples[1].is_impossible


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (question("a"), "duplicate id"),
        (question("b", []), "no answer; give one, or mark .* is_impossible"),
        (question("b", [("", 0)]), "an answer is empty"),
        (
            question("b", answers=[]) | {"answers": [None]},
            "an answer is not a string",
        ),
        (question("b", is_impossible=True), "is_impossible but has an answer"),
        (question("b", question=" "), "question is empty"),
        (
            question("b", question="Who \ud83d?"),
            "question has a lone surrogate at character 4",
        ),
        (question("b", [("Bach", 1)]), "at character 1; it occurs elsewhere"),
        (question("b", [("Haydn", 0)]), "at character 0; it does not occur"),
        (
            question("b", [("Bach", "0")]),
            "answer_start='0' is not an integer",
        ),
    ],
)
def test_bad_questions(tmp_path, given, problem):
    path = write(tmp_path / "a.json", question("a"), given)
    name = given["id"]
    with pytest.raises(
        InputError, match=f"a.json, question {name}: .*{problem}"
    ):
        read(path)
    examples, bad = read(path, "skip")
    assert len(examples) == 1
    assert bad.counted == 1


def test_questions_without_an_id_are_named_by_number(tmp_path):
    path = write(tmp_path / "a.json", question("a"), question(7))
    with pytest.raises(InputError, match="question 7: id is not a string"):
        read(path)
    path = write(tmp_path / "a.json", question("a"), question(["x" * 5000]))
    with pytest.raises(InputError, match="id is not a string") as raised:
        read(path)
    assert len(str(raised.value)) < 500
    path = write(tmp_path / "a.json", question("a"), question(None))
    with pytest.raises(
        InputError, match="question number 2: id is not a string"
    ):
        read(path)


@pytest.mark.parametrize(
    ("said", "nearest"),
    [(0, 0), (1, 0), (13, 0), (14, 27), (26, 27), (99, 27), (-1, 0)],
)
def test_offsets_are_repaired_on_request(tmp_path, said, nearest):
    path = write(tmp_path / "a.json", question("a", [("Bach", said)]))
    [example], _ = read(path, repair_offsets=True)
    assert example.answers == (Answer(text="Bach", start=nearest),)


def test_answers_outside_the_context_are_for_scoring_only(tmp_path):
    path = write(
        tmp_path / "a.json", question("a", [("Haydn", 0), ("Bach", 1)])
    )
    [example], _ = read(path, need_positions=False)
    assert [a.start for a in example.answers] == [-1, -1]
    [example], _ = read(path, need_positions=False, repair_offsets=True)
    assert [a.start for a in example.answers] == [-1, 0]
    with pytest.raises(InputError, match="'Haydn' is not in .* at character 0"):
        read(path, repair_offsets=True)


def test_cmrc_in_its_own_layout(tmp_path):
    path = tmp_path / "cmrc2018_dev.json"
    value = {
        "context_id": "DEV_0",
        "context_text": "光荣和ω-force开发的",
        "title": "战国",
        "qas": [
            {
                "query_text": "谁？",
                "query_id": "DEV_0_QUERY_0",
                "answers": ["ω-force", "光荣"],
            }
        ],
    }
    path.write_text(json.dumps([value]), "utf-8")
    [example], _ = read(path)
    assert example.id == "DEV_0_QUERY_0"
    assert [(a.text, a.start) for a in example.answers] == [
        ("ω-force", 3),
        ("光荣", 0),
    ]
    value["qas"][0]["answers"] = ["任天堂"]
    path.write_text(json.dumps([value]), "utf-8")
    with pytest.raises(
        InputError, match="answer '任天堂' is not in the context;"
    ):
        read(path)


@pytest.mark.parametrize(
    "content", ["{}", "[1]", '{"data": [{}]}', '{"data": 3}', '"text"', "null"]
)
def test_other_layouts(tmp_path, content):
    path = tmp_path / "a.json"
    path.write_text(content)
    with pytest.raises(InputError, match="a.json: neither in SQuAD's nor"):
        read(path, "skip")


def test_no_questions(tmp_path):
    with pytest.raises(InputError, match="a.json: no questions"):
        read(write(tmp_path / "a.json"))


@pytest.mark.parametrize(
    ("name", "questions", "impossible", "answers"),
    [
        pytest.param(
            *("train-v1.1.reconstructed.json.gz", 87_599, 0, 87_599),
            marks=pytest.mark.long,
        ),
        ("dev-v1.1.json.gz", 10_570, 0, 34_726),
        ("dev-v2.0.reconstructed.json.gz", 11_873, 5_945, 20_302),
    ],
)
def test_squad(shared, name, questions, impossible, answers):
    examples, _ = read(shared("data", "squad", name))
    assert len(examples) == questions
    assert sum(each.is_impossible for each in examples) == impossible
    assert sum(len(each.answers) for each in examples) == answers
    for each in examples[::100]:
        for answer in each.answers:
            assert each.context[answer.start :].startswith(answer.text)


def test_xquad(shared):
    examples, _ = read(shared("data", "xquad", "xquad.zh.json"))
    assert len(examples) == 1190


def test_cmrc_dev(shared):
    path = shared("data", "cmrc2018", "cmrc2018_dev.json")
    examples, bad = read(path, "skip")
    assert (len(examples), bad.counted) == (3043, 176)
    examples, bad = read(path, "skip", repair_offsets=True)
    assert (len(examples), bad.counted) == (3045, 174)
    # For scoring no question is left out.
    examples, _ = read(path, repair_offsets=True, need_positions=False)
    starts = [answer.start for each in examples for answer in each.answers]
    assert (len(examples), len(starts), starts.count(-1)) == (3219, 9657, 193)
    example = next(x for x in examples if x.answers[0].text == "灭司马家族")
    assert [answer.start for answer in example.answers] == [174, 174, 173]


def test_cmrc_trial(shared):
    path = shared("data", "cmrc2018", "cmrc2018_trial.json")
    examples, bad = read(path, "skip", repair_offsets=True)
    assert len(examples) == 1000
    # Of its 1002 questions two have no text.
    problems = collections.Counter(x.split(": ", 1)[1] for x in bad.lines)
    assert problems == {"question is empty": 2}


def test_offsets_may_be_whole_numbers_with_a_point(tmp_path):
    path = write(tmp_path / "a.json", question("a", [("Bach", 0.0)]))
    [example], _ = read(path)
    assert example.answers == (Answer(text="Bach", start=0),)


def test_questions_without_an_answer_need_a_task_that_has_them(tmp_path):
    path = write(
        tmp_path / "a.json",
        question("a", [("Bach", 0)]),
        question("b", [], is_impossible=True),
    )

    def ids(task, policy="stop"):
        task_type = make_task_type(known_task(task))
        examples = task_type.read_examples(
            path, bad=BadExamples(policy), labelled=True, training=True
        )
        return [example.id for example in examples]

    assert ids("squad2.0") == ["a", "b"]
    assert ids("squad1.1", "skip") == ["a"]
    with pytest.raises(InputError, match="b: is_impossible, but .* squad2.0"):
        ids("squad1.1")
