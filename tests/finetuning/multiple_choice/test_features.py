import itertools
import json

import pytest

from albert_tf.finetuning.multiple_choice.examples import MultipleChoiceExample
from albert_tf.finetuning.multiple_choice.features import choice_features
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer


def example(passage, question, options):
    return MultipleChoiceExample(
        id="0",
        passage=passage,
        question=question,
        options=tuple(options),
        location="x.txt:1",
    )


def rows_of(examples, tokenizer, **lengths):
    """Returns the ids and types of each option, for each example."""
    features = choice_features(iter(examples), tokenizer, **lengths)
    rows = (
        (features.ids[a:b].tolist(), features.types[a:b].tolist())
        for a, b in itertools.pairwise(features.starts)
    )
    return [[next(rows) for _ in x.options] for x in examples]


@pytest.mark.parametrize(
    ("question", "option", "wanted"),
    [
        ("ba _ ro _.", " mur ", "ba mur ro mur."),
        (" ba?\n", "\tmur", "ba? mur"),
        ("ba__", "mur", "bamurmur"),
        ("ba ＿ ﹍ ro", "mur", "ba mur mur ro"),
        ("ba", "mur_ro", "ba mur_ro"),
        # Half of a surrogate pair is an unknown character, as elsewhere.
        ("ba \ud800 _", "mur\udc00", "ba \ufffd mur\ufffd"),
    ],
)
def test_blanks_are_filled(tokenizer, question, option, wanted):
    rows = rows_of([example("lo", question, [option])], tokenizer)
    [[(ids, types)]] = rows
    assert ids[types.index(1) : -1] == tokenizer.encode(wanted)


def test_passages_lose_their_end_and_questions_their_beginning(tokenizer):
    passage, question = "ba ro " * 30, "sel ka " * 30
    long = example(passage, question, ["mur", "pin"])
    short = example(passage, "ka", ["mur"])
    rows, [(ids, _)] = rows_of(
        [long, short], tokenizer, max_seq_length=32, max_qa_length=10
    )
    first, second = tokenizer.encode(passage), tokenizer.encode("ka mur")
    assert ids[1 : 30 - len(second)] == first[: 29 - len(second)]
    for option, (ids, _) in zip(["mur", "pin"], rows, strict=True):
        second = tokenizer.encode(f"{question} {option}")[-10:]
        assert ids[1:20] == first[:19]
        assert ids[21:31] == second
        assert len(ids) == 32


# The rule as race_utils.py of the original has it, on texts that were cleaned
# up when they were read and are segmented without being cleaned up again.


def original_sequences(
    tokenizer, segmenter, item, max_seq_length, max_qa_length
):
    clean = tokenizer.normalizer
    context_tokens = segmenter.encode(clean(item.passage))
    question = clean(item.question)
    rows = []
    for raw_option in item.options:
        option = clean(raw_option)
        if "_" in question:
            qa_cat = question.replace("_", option)
        else:
            qa_cat = " ".join([question, option])
        context_tokens_choice = context_tokens[:]
        ending_tokens = segmenter.encode(qa_cat)
        ending_tokens = ending_tokens[-max_qa_length:]
        if len(context_tokens_choice) + len(ending_tokens) > max_seq_length - 3:
            context_tokens_choice = context_tokens_choice[
                : max_seq_length - 3 - len(ending_tokens)
            ]
        ids = [
            tokenizer.cls_id,
            *context_tokens_choice,
            tokenizer.sep_id,
            *ending_tokens,
            tokenizer.sep_id,
        ]
        segments = [0] * (len(context_tokens_choice) + 2)
        segments += [1] * (len(ending_tokens) + 1)
        rows.append((ids, segments))
    return rows


def race(shared):
    path = shared("data", "race-sample", "race.jsonl")
    for line in path.read_text("utf-8").splitlines()[::2]:
        item = json.loads(line)
        yield example(item["article"], item["question"], item["options"])


def dream(shared):
    path = shared("data", "dream", "dev.json")
    for turns, questions, _ in json.loads(path.read_text("utf-8"))[:300]:
        for item in questions:
            yield example("\n".join(turns), item["question"], item["choice"])


@pytest.mark.parametrize("source", [race, dream])
@pytest.mark.parametrize("lengths", [(512, 128), (96, 16)])
def test_sequences_equal_the_originals(
    google_tokenizer, shared, source, lengths
):
    segmenter = AlbertTokenizer(
        google_tokenizer.model_bytes, do_lower_case=False, strip_accents=False
    )
    examples = list(source(shared))
    features = rows_of(
        examples,
        google_tokenizer,
        max_seq_length=lengths[0],
        max_qa_length=lengths[1],
    )
    cut = 0
    for item, made in zip(examples, features, strict=True):
        wanted = original_sequences(google_tokenizer, segmenter, item, *lengths)
        assert made == wanted
        cut += any(len(ids) == lengths[0] for ids, _ in made)
    assert len(examples) > 400
    assert cut  # the truncation is among what is compared
