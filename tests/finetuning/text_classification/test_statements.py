"""examples/statements.py: statements from questions and answers."""

import json
import pathlib
import runpy

import pytest

from albert_tf.errors import InputError

EXAMPLE = pathlib.Path(__file__).parents[3] / "examples" / "statements.py"
CONTEXT = (
    "William Shakespeare wrote Hamlet in 1600, after Thomas Kyd had told it. "
    "It is the tragedy of a prince of Denmark. "
    "Queen Elizabeth died in 1603, and James became king."
)
QUESTIONS = {
    "Who wrote Hamlet?": "William Shakespeare",
    "In what year did Shakespeare write Hamlet?": "1600",
    "When did Queen Elizabeth die?": "1603",
    "Who became king in 1603?": "James",
    "Why did he become king?": "James",
}


@pytest.fixture(scope="module")
def program():
    return runpy.run_path(str(EXAMPLE))


@pytest.fixture
def make(program, tmp_path):
    """Returns `make(*flags)`: the rows that the program writes."""
    questions = [
        {
            "id": question,
            "question": question,
            "answers": [{"text": text, "answer_start": CONTEXT.index(text)}],
        }
        for question, text in QUESTIONS.items()
    ]
    passage = {"context": CONTEXT, "qas": questions}
    squad = {"version": "1.1", "data": [{"paragraphs": [passage] * 40}]}
    for number, copy in enumerate(squad["data"][0]["paragraphs"]):
        qas = [x | {"id": f"{number}{x['id']}"} for x in copy["qas"]]
        squad["data"][0]["paragraphs"][number] = copy | {"qas": qas}
    (tmp_path / "squad.json").write_text(json.dumps(squad))

    def make(*flags):
        output = tmp_path / "statements.tsv"
        program["main"](
            [f"--input={tmp_path}/squad.json", f"--output={output}", *flags]
        )
        header, *rows = output.read_text().splitlines()
        assert header == "sentence1\tsentence2\tlabel"
        return [tuple(row.split("\t")) for row in rows]

    return make


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        ("Who wrote Hamlet first?", "Kyd", "Kyd wrote Hamlet first."),
        ("In what year did Rome fall?", "476", "Rome fall in 476."),
        ("When did Rome fall?", "476", "Rome fall in 476."),
        ("When did Rome fall?", "in 476", "Rome fall in 476."),
        ("What city is it in now?", "Paris", "Paris is it in now."),
        (
            "What is the capital of France?",
            "Paris",
            "The capital of France is Paris.",
        ),
        ("What year was it built?", "1889", "It built was 1889."),
        ("How many people live there?", "60", "60 people live there."),
        ("Who can see it here?", "a man", "A man can see it here."),
        ("The tower is in what city?", "Paris", "The tower is in Paris city."),
        ("Whose tower is it?", "Eiffel's", "Eiffel's tower is it."),
        ("Where is it from?", "Rome", None),  # Three words do not say much.
        ("Why did Rome fall?", "greed", None),
        ("Name the capital of France.", "Paris", None),
    ],
)
def test_statements_have_the_answer(program, question, answer, expected):
    assert program["statement"](question, answer) == expected


def test_what_is_entailed_and_what_is_not(make):
    rows = make()
    first, second, third = (
        CONTEXT.replace("it. It", "it.\nIt")
        .replace("Denmark. ", "Denmark.\n")
        .splitlines()
    )
    entailed = {(x, y) for x, y, label in rows if label == "entailment"}
    assert (first, "Shakespeare write Hamlet in 1600.") in entailed
    assert (f"{second} {third}", "James became king in 1603.") in entailed
    assert not any("Why" in statement for _, statement, _ in rows)
    others = {(x, y) for x, y, label in rows if label == "not_entailment"}
    # Another answer of the same kind, or another sentence.
    assert (first, "Thomas Kyd wrote Hamlet.") in others
    assert (first, "Queen Elizabeth die in 1603.") in others
    assert not entailed & others


def test_equal_seeds_give_equal_rows(make):
    assert make("--seed=3") == make("--seed=3") != make("--seed=4")


def test_bad_flags(make, tmp_path):
    for flags, message in (
        (["--output=a.csv"], "must end in .tsv"),
        ([f"--input={tmp_path}/absent"], "absent"),
    ):
        with pytest.raises(InputError, match=message):
            make(*flags)
