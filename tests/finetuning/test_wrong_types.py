"""Files of examples with values of every wrong type: skipped, or bad input."""

import dataclasses
import json

import pytest
from json_variants import variants

from albert_tf.errors import InputError
from albert_tf.finetuning.data import read_examples
from albert_tf.finetuning.example_texts import examples_from_lines
from albert_tf.finetuning.examples import BadExamples
from albert_tf.finetuning.registry import known_task, make_task_type
from albert_tf.finetuning.text_classification.examples import (
    text_task_config,
    text_task_from_columns,
)

SQUAD = {
    "version": "v2.0",
    "data": [
        {
            "title": "t",
            "paragraphs": [
                {
                    "context": "A cat sat.",
                    "qas": [
                        {
                            "id": "1",
                            "question": "Who sat?",
                            "is_impossible": False,
                            "answers": [{"text": "cat", "answer_start": 2}],
                        }
                    ],
                }
            ],
        }
    ],
}
CMRC = [
    {
        "context_id": "1",
        "context_text": "A cat sat.",
        "qas": [
            {"query_id": "2", "query_text": "Who sat?", "answers": ["cat"]}
        ],
    }
]
PASSAGE = {
    "id": "high1.txt",
    "article": "A cat sat.",
    "questions": ["Who sat?"],
    "options": [["a cat", "a dog", "a cow", "none"]],
    "answers": ["A"],
}
QUESTION = {
    "example_id": "high1.txt",
    "article": "A cat sat.",
    "question": "Who sat?",
    "options": ["a cat", "a dog", "a cow", "none"],
    "answer": "A",
}
DREAM = [
    [
        ["A: Who sat?", "B: A cat."],
        [
            {
                "question": "Who?",
                "choice": ["a cat", "a dog", "no"],
                "answer": "a cat",
            }
        ],
        "4-1",
    ]
]
ROW = {"text": "a text", "label": "good", "id": "1"}
OTHER = {"label": "b", "id": "2"}

WRONG = (None, True, 5, -1, 1.5, 10**30, "", " ", "x", [], [5], {}, {"a": 5})
FORMATS = {
    "squad": ("squad2.0", "f.json", SQUAD, json.dumps),
    "cmrc": ("cmrc2018", "f.json", CMRC, json.dumps),
    "race": ("race", "f.jsonl", PASSAGE, json.dumps),
    "race_questions": ("race", "f.jsonl", QUESTION, json.dumps),
    "dream": ("dream", "f.json", DREAM, json.dumps),
    "jsonl": ("text", "f.jsonl", ROW, json.dumps),
}


def task_type_of(name, path):
    if name != "text":
        return make_task_type(known_task(name))
    path.write_text(json.dumps(ROW) + "\n" + json.dumps(ROW | OTHER))
    table = text_task_from_columns(
        [str(path)], {"text": "text", "label": "label", "id": "id"}
    )
    return make_task_type(text_task_config(table))


def error_of(examples):
    """Returns the message of the `InputError` of reading, "" without one."""
    try:
        list(examples)
    except InputError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", FORMATS)
def test_values_of_wrong_types(name, tmp_path):
    task, file, right, write = FORMATS[name]
    path = tmp_path / file
    task_type = task_type_of(task, path)
    path.write_text(write(right))
    read = [
        len([*read_examples(task_type, [path], bad=bad, labelled=labelled)])
        for bad in [BadExamples("stop")]
        for labelled in (True, False)
    ]
    assert read == [1, 1]
    for value in variants(right, WRONG):
        path.write_text(write(value))
        for on_bad in ("stop", "skip"):
            for labelled in (True, False):
                examples = read_examples(
                    task_type,
                    [path],
                    bad=BadExamples(on_bad),
                    labelled=labelled,
                    training=labelled,
                )
                assert "\n" not in error_of(examples), value
        for line in (json.dumps(value), str(value)):
            examples = examples_from_lines(
                task_type, [line], "standard input", BadExamples()
            )
            assert "\n" not in error_of(examples), value


def test_sources_are_checked_before_they_are_read():
    # `predict` reads when it has loaded the models.
    task = dataclasses.replace(known_task("race"), source={"reader": "absent"})
    task_type = make_task_type(task)
    with pytest.raises(InputError, match="reader='absent' must be one of"):
        read_examples(task_type, ["f"], bad=BadExamples(), labelled=False)
