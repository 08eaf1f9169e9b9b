import numpy as np

from albert_tf.data.features.span_window import SpanWindow
from albert_tf.tasks.answers.window_spans import (
    WindowSpans,
    average_spans,
    spans_of_beams,
    spans_of_logits,
)

# [CLS] question [SEP] a b c d [SEP], where no answer starts at c.
WINDOW = SpanWindow(
    example_id="q",
    index=0,
    ids=np.array([2, 9, 3, 10, 11, 12, 13, 3], np.int32),
    first_context_token=3,
    starts=np.arange(4),
    limits=np.arange(1, 5),
    max_context=np.array([True, True, False, True]),
)


def pairs(spans):
    return list(zip(spans.starts.tolist(), spans.ends.tolist(), strict=True))


def spans_of(*entries):
    starts, ends, start_scores, end_scores = np.array(entries, float).T
    return WindowSpans(
        starts=starts.astype(int),
        ends=ends.astype(int),
        start_scores=start_scores,
        end_scores=end_scores,
    )


def test_spans_lie_in_the_context_and_start_where_they_may():
    spans = spans_of_logits(
        WINDOW, np.zeros(8), np.zeros(8), n_best=8, max_answer_length=3
    )
    assert pairs(spans) == [
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 1),
        (1, 2),
        (1, 3),
        (3, 3),
    ]


def test_best_of_the_row_are_taken_before_others_are_left_out():
    # As in the original, the question may take the places of better spans.
    logits = np.array([0, 9, 8, 1, 7, 0, 0, 0])
    spans = spans_of_logits(
        WINDOW, logits, logits, n_best=3, max_answer_length=9
    )
    assert pairs(spans) == [(1, 1)]
    assert spans.start_scores.tolist() == spans.end_scores.tolist() == [7.0]


def test_of_equal_logits_the_first_are_taken():
    spans = spans_of_logits(
        WINDOW, np.zeros(8), np.zeros(8), n_best=4, max_answer_length=9
    )
    assert pairs(spans) == [(0, 0)]


def test_beams():
    spans = spans_of_beams(
        WINDOW,
        np.array([-0.1, -0.5, -0.7], np.float32),
        np.array([4, 0, 5]),
        np.array([-1, -2, -3, -4, -5, -6], np.float32),
        np.array([5, 3, 4, 0, 6, 5]),
        max_answer_length=9,
    )
    assert pairs(spans) == [(1, 2)]
    np.testing.assert_allclose(spans.start_scores, [-0.1], rtol=1e-6)
    assert spans.end_scores.tolist() == [-1.0]


def test_average_is_over_the_models_that_have_the_span():
    one = spans_of((0, 1, -1, -2), (1, 1, -5, -5))
    two = spans_of((2, 3, -9, -9), (0, 1, -3, -6))
    average = average_spans([one, two])
    assert pairs(average) == [(0, 1), (1, 1), (2, 3)]
    assert average.start_scores.tolist() == [-2.0, -5.0, -9.0]
    assert average.end_scores.tolist() == [-4.0, -5.0, -9.0]
    assert average_spans([one]) is one


def test_average_of_no_spans():
    nothing = spans_of_logits(
        WINDOW, np.zeros(8), np.zeros(8), n_best=1, max_answer_length=9
    )
    assert pairs(average_spans([nothing, nothing])) == []
