import json

import numpy as np
import pytest

from albert_tf.data.examples.bad_examples import BadExamples
from albert_tf.data.examples.example import Answer, SpanExample
from albert_tf.data.examples.squad import read_squad
from albert_tf.data.features.span_settings import SpanSettings
from albert_tf.data.features.spans import span_windows
from albert_tf.errors import InputError
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.wordpiece_tokenizer import WordPieceTokenizer


def read(path):
    bad = BadExamples("skip")
    return list(read_squad(path, bad=bad, need_positions=False))


def example(context, answer=None, start=None, question="Who?", **kwargs):
    if answer is not None:
        start = context.index(answer) if start is None else start
        kwargs["answers"] = (Answer(text=answer, start=start),)
    return SpanExample(
        id="q", question=question, context=context, place="x.json, q", **kwargs
    )


def windows_of(examples, tokenizer, labelled=False, **lengths):
    return list(
        span_windows(
            examples, tokenizer, SpanSettings(**lengths), labelled=labelled
        )
    )


@pytest.fixture(scope="module")
def tokenizer(shared):
    return AlbertTokenizer.from_file(
        shared("data", "sentencepiece-30k-clean", "30k-clean.model")
    )


@pytest.fixture(scope="module")
def letters():
    """A WordPiece tokenizer that makes every letter a piece."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces += [*letters, *(f"##{letter}" for letter in letters)]
    return WordPieceTokenizer("".join(f"{p}\n" for p in pieces).encode())


@pytest.mark.parametrize("part", ["long", "windows"])
@pytest.mark.parametrize("labelled", [True, False])
def test_as_the_original(shared, tokenizer, part, labelled):
    """There is no question of these 20 whose alignment is inexact."""
    folder = shared("golden", "google", "squad_features")
    name = f"{part}_{'train' if labelled else 'predict'}"
    golden = json.loads((folder / "features.json").read_text())[name]
    lengths = ("max_seq_length", "doc_stride", "max_query_length")
    examples = read(folder / "squad.json")
    windows = windows_of(
        examples,
        tokenizer,
        labelled,
        **{length: golden[length] for length in lengths},
    )
    assert len(windows) == len(examples)
    windows = [window for each in windows for window in each]
    for window, wanted in zip(windows, golden["features"], strict=True):
        found = {
            "doc_span_index": window.index,
            "input_ids": window.ids.tolist(),
            "segment_ids": window.types.tolist(),
            "p_mask": window.p_mask.tolist(),
        }
        if labelled:
            found["start_position"] = window.start_position
            found["end_position"] = window.end_position
            found["is_impossible"] = window.is_impossible
        else:
            found["first_context_token"] = window.first_context_token
            found["tok_start_to_orig_index"] = window.starts.tolist()
            found["tok_end_to_orig_index"] = (window.limits - 1).tolist()
            found["token_is_max_context"] = window.max_context.tolist()
        assert found == {key: wanted[key] for key in found}


def test_windows_overlap_and_cover(letters):
    text = "abcdefghij klmnopqrst"
    [windows] = windows_of(
        [example(text, question="xy")],
        letters,
        max_seq_length=12,
        max_query_length=2,
        doc_stride=3,
    )
    offsets = [(w.starts[0], w.limits[-1]) for w in windows]
    assert offsets == [(0, 7), (3, 10), (6, 14), (9, 17), (13, 20), (16, 21)]
    assert all(len(window.ids) <= 12 for window in windows)
    # Each piece has its most context in just one window.
    best = [
        start
        for window in windows
        for start in window.starts[window.max_context].tolist()
    ]
    assert sorted(best) == [i for i in range(21) if i != 10]
    for window in windows:
        assert window.ids[[0, 3, -1]].tolist() == [2, 3, 3]
        assert window.types.tolist() == [0] * 4 + [1] * (len(window.ids) - 4)
        assert window.p_mask.sum() == 4


def test_max_context_is_that_of_the_original(letters):
    """By the plain loop of BERT over pieces and windows."""
    generator = np.random.default_rng(1)
    for _ in range(50):
        pieces = int(generator.integers(1, 70))
        length = int(generator.integers(8, 40))
        [windows] = windows_of(
            [example("a " * pieces, question="b")],
            letters,
            max_seq_length=length,
            max_query_length=1,
            doc_stride=int(generator.integers(1, 30)),
        )
        spans = [(w.starts[0] // 2, len(w.starts)) for w in windows]
        for piece in range(pieces):
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


def test_long_questions_are_cut_and_empty_contexts_keep_a_window(letters):
    [[cut], [empty], [blank]] = windows_of(
        [
            example("b", question="a" * 50),
            example("", question="a"),
            example(" \n ", question=""),
        ],
        letters,
        max_query_length=5,
    )
    assert len(cut.ids) == 1 + 5 + 1 + 1 + 1
    assert len(empty.ids) == 4
    assert empty.ids[[0, -2, -1]].tolist() == [2, 3, 3]
    assert len(empty.starts) == len(empty.max_context) == 0
    assert blank.p_mask.tolist() == [0, 1, 1]


def test_labels_are_of_windows_with_the_whole_answer(letters):
    [windows] = windows_of(
        [example("abcdefghij", "defg", question="x")],
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


def test_labels_of_questions_without_an_answer(letters):
    impossible = example("abc", is_impossible=True)
    [[window]] = windows_of([impossible], letters, labelled=True)
    assert (window.start_position, window.end_position) == (0, 0)
    assert window.is_impossible
    [[window]] = windows_of([impossible], letters)
    assert window.start_position is window.is_impossible is None
    for unanswered in (example("abc"), example("abc", "x", -1)):
        with pytest.raises(InputError, match="x.json, q: the question has no"):
            windows_of([unanswered], letters, labelled=True)


def test_label_is_of_the_first_answer_in_the_context(letters):
    answers = (Answer(text="z", start=-1), Answer(text="c", start=2))
    [[window]] = windows_of(
        [example("abc", answers=answers, question="x")], letters, labelled=True
    )
    assert (window.start_position, window.end_position) == (5, 5)


def test_equal_contexts_share_their_offsets(letters):
    examples = [example("a b c", question=q) for q in ("x", "yz")]
    [[one], [two]] = windows_of(examples, letters)
    assert one.starts.base is two.starts.base
    assert one.first_context_token + 1 == two.first_context_token


def test_questions_come_one_by_one(letters):
    read_so_far = []

    def endless():
        while True:
            read_so_far.append(1)
            yield example("a b c")

    windows = span_windows(endless(), letters, SpanSettings(), labelled=False)
    for _ in range(1000):
        next(windows)
    assert len(read_so_far) < 3000


def test_labels_of_squad(shared, tokenizer):
    """Each question has a window with its answer."""
    examples = read(shared("data", "squad", "dev-v1.1.json.gz"))[::60]
    exact = 0
    for asked, windows in zip(
        examples, windows_of(examples, tokenizer, True), strict=True
    ):
        window = next(each for each in windows if not each.is_impossible)
        first = window.start_position - window.first_context_token
        last = window.end_position - window.first_context_token
        text = asked.context[window.starts[first] : window.limits[last]]
        exact += text.strip() == asked.answers[0].text.strip()
    assert exact >= 0.97 * len(examples)
