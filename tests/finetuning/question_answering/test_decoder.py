import collections
import dataclasses
import math

import numpy as np
import pytest

from albert_tf.finetuning.question_answering.answers import (
    QuestionScores,
    answer_questions,
)
from albert_tf.finetuning.question_answering.features import SpanWindow

WORDS = "Alpha beta beta gamma delta epsilon zeta eta theta iota kappa".split()


def context_of(pieces):
    return " ".join(WORDS[i % len(WORDS)] for i in range(pieces))


def window_of(first_piece, pieces, head, max_context=None):
    """A window of a context whose pieces are its words."""
    context = context_of(first_piece + pieces)
    ends = [*(i for i, c in enumerate(context) if c == " "), len(context)]
    if max_context is None:
        max_context = [True] * pieces
    return SpanWindow(
        length=head + pieces + 1,
        first_context_token=head,
        starts=np.array([0, *ends][first_piece:][:pieces], np.int32),
        ends=np.array(ends[first_piece:][:pieces], np.int32),
        max_context=np.asarray(max_context, bool),
    )


def decode_in_loops(context, windows, members, n_best, max_length):
    """The original's decoding of both heads, loop by loop."""
    spans, nulls = collections.OrderedDict(), []
    for member in members:
        nulls.append(1000000)
        for number, (window, row) in enumerate(
            zip(windows, member, strict=True)
        ):
            if "start_logits" in row:
                length = window.length
                starts, ends = (
                    sorted(range(length), key=logits.__getitem__, reverse=True)[
                        :n_best
                    ]
                    for logits in (row["start_logits"], row["end_logits"])
                )
                pairs = [
                    (s, e, row["start_logits"][s], row["end_logits"][e])
                    for s in starts
                    for e in ends
                ]
            else:
                nulls[-1] = min(nulls[-1], float(row["is_impossible_logits"]))
                width = len(row["end_top_index"]) // len(row["start_top_index"])
                pairs = [
                    (
                        row["start_top_index"][i // width],
                        row["end_top_index"][i],
                        row["start_top_log_probs"][i // width],
                        row["end_top_log_probs"][i],
                    )
                    for i in range(len(row["end_top_index"]))
                ]
            for start, end, start_score, end_score in pairs:
                start -= window.first_context_token
                end -= window.first_context_token
                if start < 0 or start >= len(window.starts):
                    continue
                if end >= len(window.starts) or end < start:
                    continue
                if end - start + 1 > max_length:
                    continue
                if not window.max_context[start]:
                    continue
                key = (number, int(start), int(end))
                scores = (float(start_score), float(end_score))
                spans.setdefault(key, []).append(scores)
    found = []
    for (index, start, end), scores in sorted(
        spans.items(), key=lambda item: item[0][0]
    ):
        window = windows[index]
        text = context[window.starts[start] : window.ends[end]].strip()
        means = [
            sum(score) / len(scores) for score in zip(*scores, strict=True)
        ]
        found.append((text, *means))
    found.sort(key=lambda entry: entry[1] + entry[2], reverse=True)
    best = {}
    for text, start_score, end_score in found:
        if len(best) < n_best:
            best.setdefault(text, (start_score, end_score))
    return list(best.items()), sum(nulls) / len(nulls)


def compare(answers, question, n_best=20, max_answer_length=30):
    """Compares answers with those of the original's loops."""
    context, members = question.context, question.members
    wanted, null_score = decode_in_loops(
        context, question.windows, members, n_best, max_answer_length
    )
    is_joint = "start_logits" not in members[0][0]
    if not wanted:
        assert answers.best[0].start is answers.best[0].end is None
        wanted = [("", (-1e6, -1e6) if is_joint else (0, 0))]
        assert [answer.probability for answer in answers.best] == [0.0]
        assert [(x["text"], x["probability"]) for x in answers.n_best()] == [
            ("", 0.0)
        ]
        # As in the original's files.
        [best] = answers.n_best_predictions()
        assert best["text"] == ("" if is_joint else "empty")
        assert best["text"] == answers.prediction()
        assert best["probability"] == 1.0
    else:
        for answer in answers.best:
            assert context[answer.start : answer.end] == answer.text
    assert [answer.text for answer in answers.best] == [t for t, _ in wanted]
    scores = np.array([scores for _, scores in wanted])
    np.testing.assert_allclose(
        [(a.start_score, a.end_score) for a in answers.best], scores, rtol=1e-12
    )
    exponentials = [math.exp(s - scores.sum(1)[0]) for s in scores.sum(1)]
    np.testing.assert_allclose(
        [a["probability"] for a in answers.n_best_predictions()],
        np.array(exponentials) / sum(exponentials),
        rtol=1e-12,
    )
    if is_joint:
        assert answers.null_score == pytest.approx(null_score, rel=1e-12)
    else:
        assert answers.null_score is None


def check(context, windows, members, **settings):
    """Decodes the windows of a question; compares and returns the answers."""
    question = QuestionScores(
        id="id", context=context, windows=windows, members=members
    )
    [answers] = answer_questions([question], **settings)
    compare(answers, question, **settings)
    return answers


def random_windows(generator):
    head = int(generator.integers(2, 9))
    room, stride = generator.integers((20, 9), (90, 20)).tolist()
    return [
        window_of(
            i * stride, room - 3 * i, head, generator.random(room - 3 * i) < 0.8
        )
        for i in range(int(generator.integers(1, 5)))
    ]


def v1_outputs(generator, windows):
    return [
        {
            name: generator.normal(size=window.length).astype("f4")
            for name in ("start_logits", "end_logits")
        }
        for window in windows
    ]


def joint_outputs(generator, windows, beams=5, levels=None):
    """Scores of the joint head; with few `levels` many are equal."""

    def best(window, rows):
        # Short rows are padded until they have so many positions.
        length = max(window.length, beams)
        index = np.argsort(generator.random((rows, length)))[:, :beams]
        scores = -np.sort(generator.random((rows, beams)).astype("f4"))
        if levels:
            scores = np.floor(scores * levels) / 2
        return {
            "index": index.ravel().astype("i4"),
            "log_probs": scores.ravel(),
        }

    return [
        {
            f"{name}_top_{key}": values
            for name, rows in (("start", 1), ("end", beams))
            for key, values in best(window, rows).items()
        }
        | {"is_impossible_logits": np.float32(generator.normal())}
        for window in windows
    ]


@pytest.mark.parametrize("outputs", [v1_outputs, joint_outputs])
@pytest.mark.parametrize("models", [1, 3])
@pytest.mark.parametrize(
    "settings", [{}, {"n_best": 7, "max_answer_length": 3}]
)
def test_answers_equal_those_of_the_originals_loops(outputs, models, settings):
    generator = np.random.default_rng(models)
    questions = []
    for number in range(20):
        windows = random_windows(generator)
        questions.append(
            QuestionScores(
                id=str(number),
                context=context_of(max(len(w.starts) for w in windows) + 60),
                windows=windows,
                members=[outputs(generator, windows) for _ in range(models)],
            )
        )
    answers = answer_questions(questions, **settings)
    for found, question in zip(answers, questions, strict=True):
        assert found.id == question.id
        compare(found, question, **settings)
    assert answer_questions([], **settings) == []


# Few beams often find no valid span; few levels give many equal scores.
@pytest.mark.parametrize(
    ("beams", "levels", "n_best", "longest"),
    [(1, 9, 20, 9), (8, 2, 20, 4), (8, 4, 3, 2), (12, 500, 1, 99)],
)
def test_equal_scores_and_unusual_texts(
    tokenizer,
    make_example,
    unusual_texts,
    windows_of,
    beams,
    levels,
    n_best,
    longest,
):
    generator = np.random.default_rng(beams)
    examples = [
        make_example(context, question=question)
        for question in ("", "a", "a b c d e f")
        for context in (
            *unusual_texts,
            "",
            " \u3000\t ",
            "[CLS] not [SEP] a <pad> movie [MASK]",
            # Repeated texts.
            "a b a b a b. a b",
            "a  b\na\u3000b",
            "\u5317\u4eac " * 9,
        )
    ]
    lengths = {"max_seq_length": 24, "doc_stride": 5, "max_query_length": 6}
    questions = [
        QuestionScores(
            id="",
            context=example.context,
            windows=windows,
            members=[joint_outputs(generator, windows, beams, levels)],
        )
        for example, windows in zip(
            examples, windows_of(examples, tokenizer, **lengths), strict=True
        )
    ]
    answers = answer_questions(
        questions, n_best=n_best, max_answer_length=longest
    )
    for found, question in zip(answers, questions, strict=True):
        compare(found, question, n_best, longest)
    is_found = {found.best[0].start is not None for found in answers}
    assert is_found == {True, False}
    longest_list = max(len(found.best) for found in answers)
    assert (longest_list == n_best) == (beams > 1)


def test_padding_is_ignored():
    generator = np.random.default_rng(0)
    windows = random_windows(generator)
    short = v1_outputs(generator, windows)
    long = [
        {name: np.append(row[name], [99.0] * 25) for name in row}
        for row in short
    ]
    context = context_of(200)
    assert check(context, windows, [short]) == check(context, windows, [long])


# [CLS] question [SEP] and "a b c d", where no answer starts at "c".
WINDOW = dataclasses.replace(
    window_of(0, 4, 3, [True, True, False, True]),
    starts=np.array([0, 1, 3, 5], np.int32),
    ends=np.array([1, 3, 5, 7], np.int32),
)


@pytest.mark.parametrize(
    ("logits", "settings", "spans"),
    [
        # Spans are in the context and start at pieces with max_context.
        (
            [0] * 8,
            {"n_best": 8, "max_answer_length": 3},
            ["a", "ab", "abc", "b", "bc", "bcd", "d"],
        ),
        # Positions in the question count among the best, as in the original.
        ([0, 9, 8, 1, 7, 0, 0, 0], {"n_best": 3}, ["b"]),
        # The first of equal logits are used.
        ([0] * 8, {"n_best": 4}, ["a"]),
        # None of the best positions form a valid span.
        ([9, 8, 7, 0, 0, 0, 0, 0], {"n_best": 3}, [""]),
    ],
)
def test_valid_spans(logits, settings, spans):
    logits = np.array(logits, np.float32)
    row = {"start_logits": logits, "end_logits": logits}
    answers = check("a b c d", [WINDOW], [[row]], **settings)
    assert [answer.text.replace(" ", "") for answer in answers.best] == spans


def test_threshold():
    generator = np.random.default_rng(0)
    windows = random_windows(generator)
    answers = check(
        context_of(200), windows, [joint_outputs(generator, windows)]
    )
    text, score = answers.best[0].text, answers.null_score
    assert text
    assert answers.text() == answers.text(score) == answers.text(9.0) == text
    assert answers.text(math.nextafter(score, -9.0)) == ""
