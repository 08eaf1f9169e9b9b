import collections
import math

import numpy as np
import pytest

from albert_tf.data.examples.bad_examples import BadExamples
from albert_tf.data.examples.squad import read_squad
from albert_tf.data.features.span_settings import SpanSettings
from albert_tf.data.features.span_window import SpanWindow
from albert_tf.data.features.spans import span_windows
from albert_tf.errors import InputError
from albert_tf.metrics.squad import squad_v1
from albert_tf.tasks.answers.question_answers import answer_question
from albert_tf.text.tokenizer import AlbertTokenizer

WORDS = "Alpha beta beta gamma delta epsilon zeta eta theta iota kappa".split()


def context_of(pieces):
    return " ".join(WORDS[i % len(WORDS)] for i in range(pieces))


def window_of(row, index, first_piece, pieces, head, max_context):
    """A window of a context whose pieces are its words."""
    context = context_of(first_piece + pieces)
    borders = [0, *(i for i, c in enumerate(context) if c == " ")]
    borders.append(len(context))
    return SpanWindow(
        example_id=str(row),
        index=index,
        ids=np.zeros(head + pieces + 1, np.int32),
        first_context_token=head,
        starts=np.array(borders[first_piece:-1]),
        limits=np.array(borders[first_piece + 1 :]),
        max_context=np.asarray(max_context),
    )


def plain_loops(context, windows, members, n_best, max_length):
    """The original's decoding of both heads, loop by loop."""
    spans, nulls = collections.OrderedDict(), []
    for member in members:
        nulls.append(1000000)
        for window, row in zip(windows, member, strict=True):
            if "start_logits" in row:
                length = len(window.ids)
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
                key = (window.index, int(start), int(end))
                scores = (float(start_score), float(end_score))
                spans.setdefault(key, []).append(scores)
    found = []
    for (index, start, end), scores in sorted(
        spans.items(), key=lambda item: item[0][0]
    ):
        window = windows[index]
        text = context[window.starts[start] : window.limits[end]].strip()
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


def check(context, windows, members, n_best=20, max_length=30):
    answers = answer_question(
        "id",
        context,
        windows,
        members,
        n_best=n_best,
        max_answer_length=max_length,
    )
    wanted, null_score = plain_loops(
        context, windows, members, n_best, max_length
    )
    if not wanted:
        wanted = [("empty", (0, 0))]
        if "start_logits" not in members[0][0]:
            wanted = [("", (-1e6, -1e6))]
    assert [answer.text for answer in answers.best] == [t for t, _ in wanted]
    scores = np.array([scores for _, scores in wanted])
    np.testing.assert_allclose(
        [(a.start_score, a.end_score) for a in answers.best], scores, rtol=1e-12
    )
    exponentials = [math.exp(s - scores.sum(1)[0]) for s in scores.sum(1)]
    np.testing.assert_allclose(
        [a.probability for a in answers.best],
        np.array(exponentials) / sum(exponentials),
        rtol=1e-12,
    )
    for answer in answers.best if answers.best[0].start is not None else ():
        assert context[answer.start : answer.limit] == answer.text
    if "start_logits" in members[0][0]:
        assert answers.null_score is None
    else:
        assert answers.null_score == pytest.approx(null_score, rel=1e-12)
    return answers


def random_windows(generator):
    head = int(generator.integers(2, 9))
    room, stride = (
        int(generator.integers(20, 90)),
        int(generator.integers(9, 20)),
    )
    count = int(generator.integers(1, 5))
    return [
        window_of(
            0,
            i,
            i * stride,
            room - 3 * i,
            head,
            generator.random(room - 3 * i) < 0.8,
        )
        for i in range(count)
    ]


def v1_outputs(generator, windows, padding=0):
    return [
        {
            name: generator.normal(size=len(window.ids) + padding).astype("f4")
            for name in ("start_logits", "end_logits")
        }
        for window in windows
    ]


def joint_outputs(generator, windows):
    def beams(window, rows):
        length = len(window.ids)
        index = np.argsort(generator.random((rows, length)))[:, :5]
        scores = -np.sort(generator.random((rows, 5)).astype("f4"))
        return {"index": index.ravel(), "log_probs": scores.ravel()}

    return [
        {
            f"{name}_top_{kind}": values
            for name, rows in (("start", 1), ("end", 5))
            for kind, values in beams(window, rows).items()
        }
        | {"is_impossible_logits": np.float32(generator.normal())}
        for window in windows
    ]


@pytest.mark.parametrize("outputs", [v1_outputs, joint_outputs])
@pytest.mark.parametrize("models", [1, 3])
def test_as_the_loops_of_the_original(outputs, models):
    generator = np.random.default_rng(models)
    for _ in range(20):
        windows = random_windows(generator)
        context = context_of(max(len(w.starts) + 40 for w in windows) + 80)
        members = [outputs(generator, windows) for _ in range(models)]
        check(context, windows, members)
        check(context, windows, members, n_best=7, max_length=3)


def golden(shared, head):
    folder = shared("golden", "google", "heads", head)
    return np.load(folder / "inputs.npz"), np.load(folder / "outputs.npz")


def golden_windows(inputs):
    """The rows as windows of one question, by segments and mask."""
    windows = []
    for row, (types, mask) in enumerate(
        zip(inputs["segment_ids"], inputs["input_mask"], strict=True)
    ):
        head, length = types.tolist().index(1), int(mask.sum())
        pieces = length - head - 1
        windows.append(
            window_of(0, row, 7 * row, pieces, head, [True] * pieces)
        )
    return windows


def test_scores_of_the_original_v1_head(shared):
    inputs, outputs = golden(shared, "squad_v1")
    windows = golden_windows(inputs)
    rows = [
        {
            name: outputs[f"predict/{name}"][row]
            for name in ("start_logits", "end_logits")
        }
        for row in range(len(windows))
    ]
    context = context_of(80)
    answers = check(context, windows, [rows])
    assert len(answers.best) == 20
    for row, window in zip(rows, windows, strict=True):
        check(
            context, [window.__class__(**{**vars(window), "index": 0})], [[row]]
        )


def test_scores_of_the_original_joint_head(shared):
    inputs, outputs = golden(shared, "squad_v2")
    windows = golden_windows(inputs)
    names = [
        f"{name}_top_{kind}"
        for name in ("start", "end")
        for kind in ("index", "log_probs")
    ]
    rows = [
        {name: outputs[f"predict/{name}"][row] for name in names}
        | {"is_impossible_logits": outputs["predict/cls_logits"][row]}
        for row in range(len(windows))
    ]
    answers = check(context_of(80), windows, [rows])
    assert answers.null_score == outputs["predict/cls_logits"].min()


def test_padding_does_not_count():
    generator = np.random.default_rng(0)
    windows = random_windows(generator)
    short = v1_outputs(generator, windows)
    long = [
        {name: np.append(row[name], [99.0] * 25) for name in row}
        for row in short
    ]
    context = context_of(200)
    assert check(context, windows, [short]) == check(context, windows, [long])


def test_equal_texts_count_once_with_the_better_score():
    windows = [window_of(0, 0, 0, 4, 3, [True] * 4)]
    rows = [{"start_logits": np.zeros(8), "end_logits": np.zeros(8)}]
    rows[0]["start_logits"][3 + 1], rows[0]["start_logits"][3 + 2] = 1, 2
    answers = check(context_of(4), windows, [rows])
    betas = [answer for answer in answers.best if answer.text == "beta"]
    assert [(a.start, a.start_score) for a in betas] == [(11, 2.0)]
    assert answers.best[0].text == "beta"


def test_models_that_lack_a_span_do_not_count_for_it():
    window = window_of(0, 0, 0, 3, 2, [True] * 3)

    def row(start, score):
        return {
            "start_top_index": np.array([start]),
            "start_top_log_probs": np.array([score]),
            "end_top_index": np.array([4]),
            "end_top_log_probs": np.array([-1.0]),
            "is_impossible_logits": np.float32(score),
        }

    answers = answer_question(
        "id",
        context_of(3),
        [window],
        [[row(2, -1)], [row(2, -3)], [row(4, -5)]],
    )
    assert [(a.text, a.start_score) for a in answers.best] == [
        ("Alpha beta beta", -2.0),
        ("beta", -5.0),
    ]
    assert answers.null_score == -3.0


@pytest.mark.parametrize(
    ("outputs", "text"), [(v1_outputs, "empty"), (joint_outputs, "")]
)
def test_contexts_without_pieces_have_the_original_answer(outputs, text):
    window = window_of(0, 0, 0, 0, 4, [])
    generator = np.random.default_rng(0)
    rows = outputs(generator, [window])
    answers = answer_question("id", "", [window], [rows])
    [answer] = answers.best
    assert (answer.text, answer.start, answer.probability) == (text, None, 1.0)


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
    answers = check(context_of(200), windows, [v1_outputs(generator, windows)])
    with pytest.raises(
        InputError, match="threshold=0.0: the head does not say"
    ):
        answers.text(0.0)


def test_refuses_what_is_no_span_head():
    windows = [window_of(0, 0, 0, 3, 2, [True] * 3)]
    generator = np.random.default_rng(0)
    v1, joint = (f(generator, windows) for f in (v1_outputs, joint_outputs))
    with pytest.raises(InputError, match="question 7: 2 kinds of span heads"):
        answer_question("7", context_of(3), windows, [v1, joint])
    with pytest.raises(InputError, match="outputs logits: not those of a span"):
        answer_question("7", context_of(3), windows, [[{"logits": 1}]])


def test_scores_of_the_labels_give_the_right_answers(shared):
    """Through features, decoding and metric; 99.7 % on every fourth of dev."""
    path = shared("data", "squad", "dev-v1.1.json.gz")
    examples = list(read_squad(path, bad=BadExamples()))[::50]
    tokenizer = AlbertTokenizer.from_file(
        shared("data", "sentencepiece-30k-clean", "30k-clean.model")
    )
    predictions = {}
    for example, windows in zip(
        examples,
        span_windows(examples, tokenizer, SpanSettings(), labelled=True),
        strict=True,
    ):
        rows = []
        for window in windows:
            start, end = np.zeros((2, len(window.ids)))
            if not window.is_impossible:
                start[window.start_position] = end[window.end_position] = 1
            rows.append({"start_logits": start, "end_logits": end})
        answers = answer_question(example.id, example.context, windows, [rows])
        predictions[example.id] = answers.text()
    right = {each.id: [a.text for a in each.answers] for each in examples}
    assert squad_v1(right, predictions)["exact_match"] > 98
