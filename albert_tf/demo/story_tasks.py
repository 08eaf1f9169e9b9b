"""Data sets about the synthetic stories, in the formats of GLUE and SQuAD."""

from __future__ import annotations

import csv
import json
import pathlib

import numpy as np

from albert_tf.demo.stories import TOPICS, draw_slots

_SENTENCES_PER_CONTEXT = 3

# Topic -> (question, index of the event, slot that holds the answer).
_QUESTIONS = {
    "cooking": (
        ("What did {name} want to eat?", 0, "dish"),
        ("Who ate with {name}?", 5, "friend"),
    ),
    "travel": (
        ("Which city did {name} want to see?", 0, "city"),
        ("Who looked at the pictures of {name}?", 6, "friend"),
        ("When did {name} travel?", 2, "day"),
    ),
    "animals": (
        ("Which animal did {name} find?", 0, "animal"),
        ("What did the {animal} eat?", 2, "food"),
        ("Where did the {animal} sleep?", 4, "place"),
    ),
    "sport": (("When was the match?", 0, "day"), ("Who scored?", 3, "friend")),
    "music": (
        ("What did {name} play?", 1, "instrument"),
        ("In which city was the concert?", 3, "city"),
    ),
    "health": (
        ("What did {name} suffer from?", 0, "illness"),
        ("When did {name} get ill?", 0, "day"),
    ),
    "school": (
        ("What was the exam of {name} about?", 0, "subject"),
        ("When was the exam?", 2, "day"),
    ),
    "cinema": (
        ("What did {name} watch?", 0, "genre"),
        ("Who sat beside {name}?", 2, "friend"),
    ),
}


def write_mrpc(
    folder: str | pathlib.Path, train: int, dev: int, seed: int = 0
) -> None:
    """Writes `train.tsv` and `dev.tsv` in the format of GLUE's MRPC.

    Half of the pairs are two wordings of one event; the others are two events
    of one story, with the same people and things.
    """
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    for name, count in (("train", train), ("dev", dev)):
        with open(folder / f"{name}.tsv", "w", encoding="utf-8") as file:
            rows = csv.writer(
                file,
                delimiter="\t",
                quoting=csv.QUOTE_NONE,
                lineterminator="\n",
            )
            rows.writerow(
                ["Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"]
            )
            for number in range(count):
                label = int(rng.integers(2))
                first, second = _pair(rng, label)
                rows.writerow(
                    [label, 2 * number, 2 * number + 1, first, second]
                )


def write_squad(path: str | pathlib.Path, count: int, seed: int = 0) -> None:
    """Writes questions about parts of stories in the format of SQuAD 1.1."""
    rng = np.random.default_rng(seed)
    paragraphs = []
    for number in range(count):
        topic = str(rng.choice(list(TOPICS)))
        slots = draw_slots(rng)
        questions = _QUESTIONS[topic]
        question, event, slot = questions[rng.integers(len(questions))]
        wordings = list(TOPICS[topic])
        wordings[event] = [x for x in wordings[event] if f"{{{slot}}}" in x]
        first = int(rng.integers(max(0, event - 2), event + 1))
        sentences = [
            str(rng.choice(texts)).format(**slots)
            for texts in wordings[first : first + _SENTENCES_PER_CONTEXT]
        ]
        before = "".join(f"{text} " for text in sentences[: event - first])
        start = len(before) + sentences[event - first].index(slots[slot])
        answer = {"text": slots[slot], "answer_start": start}
        paragraphs.append(
            {
                "context": " ".join(sentences),
                "qas": [
                    {
                        "id": str(number),
                        "question": question.format(**slots),
                        "answers": [answer],
                    }
                ],
            }
        )
    data = {"version": "1.1", "data": [{"paragraphs": paragraphs}]}
    pathlib.Path(path).write_text(json.dumps(data), "utf-8")


def _pair(rng: np.random.Generator, label: int) -> tuple[str, str]:
    """Returns two wordings of one event, or two events of one story."""
    events = TOPICS[str(rng.choice(list(TOPICS)))]
    slots = draw_slots(rng)
    event = int(rng.integers(len(events)))
    first, second = (str(text) for text in rng.permutation(events[event]))
    if not label:
        event = (event + int(rng.integers(1, len(events)))) % len(events)
        second = str(rng.choice(events[event]))
    return first.format(**slots), second.format(**slots)
