import dataclasses
import json

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.question_answering.examples import Answer
from albert_tf.finetuning.question_answering.features import (
    TokenizedContext,
    window_batches,
)
from albert_tf.finetuning.question_answering.settings import WindowSettings


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ({"doc_stride": 0}, "doc_stride=0 must be at least 1"),
        ({"max_query_length": -1}, "max_query_length=-1 must be at least 1"),
        (
            {"max_seq_length": 67},
            "max_seq_length=67 leaves no room .* least 68",
        ),
    ],
)
def test_bad_lengths(lengths, message):
    with pytest.raises(InputError, match=message):
        WindowSettings(**lengths)
    WindowSettings(max_seq_length=68)


@pytest.mark.parametrize("part", ["long", "windows"])
@pytest.mark.parametrize("labelled", [True, False])
def test_windows_equal_the_originals(
    shared, read, google_tokenizer, windows_of, part, labelled
):
    """The original's alignment is exact for all of these 20 questions."""
    folder = ("golden", "google", "squad_features")
    name = f"{part}_{'train' if labelled else 'predict'}"
    golden = json.loads(shared(*folder, "features.json").read_text())[name]
    lengths = ("max_seq_length", "doc_stride", "max_query_length")
    examples = read(*folder, "squad.json")
    windows = windows_of(
        examples,
        google_tokenizer,
        labelled,
        **{length: golden[length] for length in lengths},
    )
    assert len(windows) == len(examples)
    numbered = [pair for each in windows for pair in enumerate(each)]
    for (index, window), wanted in zip(
        numbered, golden["features"], strict=True
    ):
        found = {
            "doc_span_index": index,
            "input_ids": window.input_word_ids.tolist(),
            "segment_ids": window.input_type_ids.tolist(),
            "p_mask": window.p_mask.tolist(),
        }
        if labelled:
            found["start_position"] = window.start_position
            found["end_position"] = window.end_position
            found["is_impossible"] = window.is_impossible
        else:
            found["first_context_token"] = window.first_context_token
            found["tok_start_to_orig_index"] = window.starts.tolist()
            found["tok_end_to_orig_index"] = (window.ends - 1).tolist()
            found["token_is_max_context"] = window.max_context.tolist()
        assert found == {key: wanted[key] for key in found}


def check_windows(windows, question, context, settings):
    """Compares windows with those of BERT's loops."""
    room = (
        settings.max_seq_length - 3 - min(question, settings.max_query_length)
    )
    spans, start = [], 0
    while True:
        spans.append((start, min(room, context - start)))
        if start + spans[-1][1] == context:
            break
        start += min(spans[-1][1], settings.doc_stride)
    # The text of a piece is "a" and the blank before it.
    assert [(w.ends - 1).tolist() for w in windows] == [
        [2 * piece for piece in range(start, start + size)]
        for start, size in spans
    ]
    for piece in range(context):
        scores = [
            min(piece - start, start + size - 1 - piece) + 0.01 * size
            if start <= piece < start + size
            else -1
            for start, size in spans
        ]
        flags = [
            start <= piece < start + size and w.max_context[piece - start]
            for (start, size), w in zip(spans, windows, strict=True)
        ]
        assert flags.index(True) == scores.index(max(scores))
        assert sum(flags) == 1


def test_windows_of_any_length_equal_the_originals(
    letters, make_example, windows_of
):
    rng = np.random.default_rng(1)
    cases = [
        (
            WindowSettings(
                max_seq_length=int(rng.integers(12, 40)),
                doc_stride=int(rng.integers(1, 30)),
                max_query_length=int(rng.integers(1, 9)),
            ),
            rng.integers(0, 12, 8).tolist(),
            rng.integers(0, 90, 8).tolist(),
        )
        for _ in range(20)
    ]
    # SQuAD's, where windows of different length may have equal context.
    cases += [(WindowSettings(), [0, 1, 20, 64, 99], [999, 1, 380, 540, 2000])]
    for settings, questions, contexts in cases:
        examples = [
            make_example("a " * context, question="b " * question)
            for question, context in zip(questions, contexts, strict=True)
        ]
        found = windows_of(examples, letters, **dataclasses.asdict(settings))
        for windows, question, context in zip(
            found, questions, contexts, strict=True
        ):
            check_windows(windows, question, context, settings)


def test_long_questions_are_cut_and_empty_contexts_keep_a_window(
    letters, make_example, windows_of
):
    [[cut], [empty], [blank]] = windows_of(
        [
            make_example("b", question="a" * 50),
            make_example("", question="a"),
            make_example(" \n ", question=""),
        ],
        letters,
        max_query_length=5,
    )
    assert len(cut.input_word_ids) == 1 + 5 + 1 + 1 + 1
    assert len(empty.input_word_ids) == 4
    assert empty.input_word_ids[[0, -2, -1]].tolist() == [2, 3, 3]
    assert len(empty.starts) == len(empty.max_context) == 0
    assert blank.p_mask.tolist() == [0, 1, 1]
    assert windows_of([], letters) == []


def test_windows_with_the_whole_answer_are_labelled(
    letters, make_example, windows_of
):
    [windows] = windows_of(
        [make_example("abcdefghij", "defg", question="x")],
        letters,
        labelled=True,
        max_seq_length=9,
        max_query_length=1,
        doc_stride=2,
    )
    labels = [
        (w.start_position, w.end_position, w.is_impossible) for w in windows
    ]
    assert labels == [
        (0, 0, True),  # abcde
        (4, 7, False),  # cdefg
        (0, 0, True),  # efghi
        (0, 0, True),  # ghij
    ]


def test_labels_of_questions_without_an_answer(
    letters, make_example, windows_of
):
    impossible = make_example("abc", is_impossible=True)
    [[window]] = windows_of([impossible], letters, labelled=True)
    assert (window.start_position, window.end_position) == (0, 0)
    assert window.is_impossible
    for unanswered in (make_example("abc"), make_example("abc", "x", -1)):
        with pytest.raises(InputError, match="x.json, q: no answer in the con"):
            windows_of([unanswered], letters, labelled=True)


def test_first_answer_in_the_context_is_the_label(
    letters, make_example, windows_of
):
    answers = (Answer(text="z", start=-1), Answer(text="c", start=2))
    [[window]] = windows_of(
        [make_example("abc", answers=answers, question="x")],
        letters,
        labelled=True,
    )
    assert (window.start_position, window.end_position) == (5, 5)


def test_equal_contexts_share_their_offsets(letters, make_example, windows_of):
    examples = [make_example("a b c", question=q) for q in ("x", "yz")]
    [[one], [two]] = windows_of(examples, letters)
    assert one.starts.base is two.starts.base
    assert one.first_context_token + 1 == two.first_context_token


def test_examples_are_read_lazily(letters, make_example):
    read_so_far = []

    def endless():
        while True:
            read_so_far.append(1)
            yield make_example("a b c")

    batches = window_batches(
        endless(), letters, WindowSettings(), labelled=False
    )
    for _ in range(2):
        next(batches)
    assert len(read_so_far) < 3000


@pytest.mark.parametrize(
    ("context", "answer", "covered"),
    [
        ("in Athens, then", "Athens", "Athens"),
        ("in Athens, then", " Athens", "Athens"),
        # The blank after it is part of the next word's piece.
        ("in Athens then", "Athens ", "Athens"),
        ("in  Athens \n then", "Athens \n then", "Athens \n then"),
        ("a café, ｆｕｌｌ ﬁne", "café", "café"),
        ("a cafe\u0301, full", "cafe\u0301", "cafe\u0301"),
        # Answers that begin or end inside a piece.
        ("a cafe\u0301, full", "cafe", "cafe\u0301"),
        ("in the golden", "gold", "golden"),
        ("the NFL", "L", "NFL"),
        ("in 1978", "7", "1978"),
        ("abc", "", None),
        (" \n", " ", None),
    ],
)
def test_pieces_of_an_answer(google_tokenizer, context, answer, covered):
    answer = Answer(text=answer, start=context.index(answer))
    tokens = TokenizedContext.from_text(context, google_tokenizer)
    pieces = tokens.pieces_of(answer)
    if covered is None:
        assert pieces is None
    else:
        start, end = tokens.starts[pieces[0]], tokens.ends[pieces[-1]]
        assert context[start:end].strip() == covered


def test_answers_with_characters_that_the_tokenizer_drops(wordpiece):
    context = "a \u200b b c\u200b"  # WordPiece drops U+200B.
    tokens = TokenizedContext.from_text(context, wordpiece("abc"))
    found = [
        tokens.pieces_of(Answer(text=text, start=start))
        for text, start in (("\u200b", 2), ("\u200b b", 2), ("c\u200b", 6))
    ]
    assert found == [None, range(1, 2), range(2, 3)]


@pytest.mark.parametrize(
    ("file", "step", "least", "lengths"),
    [
        (("squad", "dev-v1.1.json.gz"), 40, 0.98, {}),
        # Some answers are longer than what two windows have in common.
        (
            ("cmrc2018", "cmrc2018_trial.json"),
            10,
            0.99,
            {"max_seq_length": 4096},
        ),
    ],
)
def test_labels_reproduce_the_answers(
    read, google_tokenizer, wordpiece, windows_of, file, step, least, lengths
):
    """Most of them: offsets may point to "gold" in "golden"."""
    examples = read("data", *file)[::step]
    tokenizer = google_tokenizer
    if file[0] == "cmrc2018":
        # Chinese, by pieces of one ideograph and of Latin script.
        characters = {c for each in examples for c in each.context.lower()}
        tokenizer = wordpiece(sorted(c for c in characters if c.strip()))
    examples = [x for x in examples if x.answers[0].start >= 0]
    exact = 0
    for example, windows in zip(
        examples, windows_of(examples, tokenizer, True, **lengths), strict=True
    ):
        # Each question has a window with its answer.
        window = next(each for each in windows if not each.is_impossible)
        first = window.start_position - window.first_context_token
        last = window.end_position - window.first_context_token
        text = example.context[window.starts[first] : window.ends[last]]
        exact += text.strip() == example.answers[0].text.strip()
    assert len(examples) > 90
    assert exact >= least * len(examples)
