"""Small files of each kind of task, and fixtures for serving graphs."""

import dataclasses
import json
import keyword
import random

import numpy as np
import pytest

from albert_tf.finetuning.embedding.examples import EmbeddingExample
from albert_tf.finetuning.features import FeaturesBuilder
from albert_tf.finetuning.registry import known_task, with_settings
from albert_tf.finetuning.text_classification.examples import (
    TextTask,
    text_task_config,
)

# Empty, blank, accents, other scripts, digits with commas, special tokens, and
# more than any row takes.
TEXTS = [
    "the good movie",
    "",
    " \u3000\t ",
    "a b\u00e0d f\u0131lm, 12,345 and 7,000. I've seen it",
    "\u65e5\u672c\u8a9e \ufb01lm STRA\u00dfE \u039f\u0394\u039f\u03a3",
    "[CLS] not [SEP] a <pad> movie [MASK]",
    "I have really seen the bad, bad movie 1,000 times. " * 6,
    "x",
]

# Words that differ in their pieces, so that texts are told apart easily.
WORDS = [*keyword.kwlist, *(name for name in dir(str) if name.isalpha())]


def _texts(rng, count, least=3, most=9):
    """Returns different texts of some words."""
    texts = set()
    while len(texts) < count:
        texts.add(" ".join(rng.choices(WORDS, k=rng.randint(least, most))))
    return sorted(texts)


def _write_texts(folder, rng):
    rows = [
        f"{text}\t{pair}\t{rng.choice(('no', 'yes', 'maybe'))}"
        for text, pair in zip(*[iter(_texts(rng, 64))] * 2, strict=True)
    ]
    path = folder / "texts.tsv"
    path.write_text("\n".join(["text\tpair\tlabel", *rows]) + "\n")
    return path


def _write_numbers(folder, rng):
    rows = [f'"{text}",{rng.uniform(0, 5):.2f}' for text in _texts(rng, 32)]
    path = folder / "numbers.csv"
    path.write_text("\n".join(["text,label", *rows]) + "\n")
    return path


def _write_choices(folder, rng):
    path = folder / "dream.json"
    dialogues = []
    for number, passage in enumerate(_texts(rng, 32)):
        options = _texts(rng, 3, 1, 3)
        question = {
            "question": rng.choice(("What is the name?", "Which value?")),
            "choice": options,
            "answer": rng.choice(options),
        }
        dialogues.append([[passage], [question], f"d{number}"])
    path.write_text(json.dumps(dialogues))
    return path


def _write_spans(folder, rng, impossible):
    paragraphs = []
    for number, context in enumerate(_texts(rng, 32, 6, 9)):
        words = context.split()
        first = rng.randrange(len(words) - 1)
        text = " ".join(words[first : first + 2])
        start = len(" ".join(words[:first])) + bool(first)
        none = impossible and number % 4 == 0
        question = {
            "id": f"q{number}",
            "question": f"where is {rng.choice(WORDS)}?",
            "answers": [] if none else [{"text": text, "answer_start": start}],
            "is_impossible": none,
        }
        paragraphs.append({"context": context, "qas": [question]})
    path = folder / f"squad{impossible:d}.json"
    path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    return path


def _write_words(folder, rng):
    lines = []
    for text in _texts(rng, 32):
        lines += [
            f"{word} {rng.choice(('O', 'B-X', 'B-Y'))}" for word in text.split()
        ]
        lines.append("")
    path = folder / "words.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def _write_pairs(folder, rng):
    path = folder / "pairs.tsv"
    rows = zip(*[iter(_texts(rng, 64))] * 2, strict=True)
    lines = [("anchor", "positive"), *rows]
    path.write_text("".join(f"{a}\t{b}\n" for a, b in lines))
    return path


@pytest.fixture(scope="session")
def features_of():
    """Returns a function that makes `Features` of rows of ids."""

    def make(
        rows,
        types=None,
        token_columns=None,
        padding=0,
        pad_id=0,
        sequences_per_example=1,
        **columns,
    ):
        builder = FeaturesBuilder(
            pad_id=pad_id,
            token_padding=dict.fromkeys(token_columns or (), padding),
        )
        for number, row in enumerate(rows):
            batch = {
                "input_word_ids": row,
                "input_mask": [1] * len(row),
                "input_type_ids": types[number] if types else [0] * len(row),
                **{n: x[number] for n, x in (token_columns or {}).items()},
            }
            builder.extend({n: np.array(x)[None] for n, x in batch.items()})
        return dataclasses.replace(
            builder.build(),
            sequences_per_example=sequences_per_example,
            columns={n: np.array(x) for n, x in columns.items()},
        )

    return make


@pytest.fixture(scope="session")
def task_files(tmp_path_factory):
    """Name -> a file of 32 examples whose labels follow no rule."""
    folder = tmp_path_factory.mktemp("tasks")
    rng = random.Random(5)
    return {
        "classes": _write_texts(folder, rng),
        "number": _write_numbers(folder, rng),
        "choices": _write_choices(folder, rng),
        "spans": _write_spans(folder, rng, False),
        "joint spans": _write_spans(folder, rng, True),
        "words": _write_words(folder, rng),
        "pairs": _write_pairs(folder, rng),
    }


@pytest.fixture(scope="session")
def serving_config(config, tokenizer):
    """A small architecture for up to 40 tokens."""
    return config.replace(
        vocab_size=tokenizer.vocab_size,
        num_hidden_layers=1,
        max_position_embeddings=40,
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
        initializer_range=0.2,
    )


@pytest.fixture(scope="session")
def noisy():
    """Returns `noisy(model)`, which makes all weights affect the outputs."""

    def make(model):
        rng = np.random.default_rng(1)
        for weight in model.weights:
            weight.assign(weight + rng.normal(0, 0.3, weight.shape))
        return model

    return make


@pytest.fixture(scope="session")
def texts():
    return TEXTS


@pytest.fixture(scope="session")
def task_of():
    """Returns `task_of(kind, **settings)`: the task of one of `task_files`.

    Settings that it does not have are left out.
    """
    texts = TextTask(
        name="texts",
        labels=("maybe", "no", "yes"),
        metrics=("accuracy",),
        text="text",
        pair="pair",
        label="label",
    )
    numbers = TextTask(
        name="numbers",
        labels=None,
        metrics=("pearson", "spearman"),
        text="text",
        label="label",
    )
    tasks = {
        "classes": text_task_config(texts),
        "number": text_task_config(numbers),
        "choices": known_task("dream"),
        "spans": known_task("squad1.1"),
        "joint spans": known_task("squad2.0"),
        "words": dataclasses.replace(
            known_task("ner"), labels=("B-X", "B-Y", "O")
        ),
    }

    def task_of(kind, **settings):
        known = tasks[kind].settings
        return with_settings(
            tasks[kind], {n: x for n, x in settings.items() if n in known}
        )

    return task_of


@pytest.fixture(scope="session")
def examples_of():
    """Returns `examples_of(*texts, labels=None)`: an example of each tuple."""

    def make(*texts, labels=None):
        labels = labels or [None] * len(texts)
        return [
            EmbeddingExample(
                id=str(i), texts=tuple(x), label=label, location=f"a:{i}"
            )
            for i, (x, label) in enumerate(zip(texts, labels, strict=True))
        ]

    return make
