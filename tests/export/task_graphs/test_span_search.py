"""The best spans of the graph, against `answer_question`."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.examples.example import SpanExample
from albert_tf.data.features.span_settings import SpanSettings
from albert_tf.data.features.spans import span_windows
from albert_tf.export.task_graphs.span_beams import (
    END_PLACES,
    END_SCORES,
    START_PLACES,
    START_SCORES,
)
from albert_tf.export.task_graphs.span_contexts import ContextReader
from albert_tf.export.task_graphs.span_search import (
    allowed_spans,
    best_spans,
)
from albert_tf.export.task_graphs.span_windows import graph_windows
from albert_tf.tasks.answers.question_answers import answer_question
from albert_tf.text.preprocessor import AlbertPreprocessor

SETTINGS = SpanSettings(max_seq_length=24, doc_stride=5, max_query_length=6)


def random_outputs(rng, windows, beams, levels):
    """What a joint head might say, with many equal scores."""
    length = max(len(window.ids) for window in windows)
    for _ in windows:
        yield {
            "start_top_index": rng.permutation(max(length, beams))[:beams],
            "start_top_log_probs": -rng.integers(0, levels, beams) / 2,
            "end_top_index": np.concatenate(
                [
                    rng.permutation(max(length, beams))[:beams]
                    for _ in range(beams)
                ]
            ),
            "end_top_log_probs": -rng.integers(0, levels, beams**2) / 2,
            "is_impossible_logits": 0.0,
        }


def beams_of(outputs, beams):
    return {
        START_PLACES: np.stack(
            [np.repeat(x["start_top_index"], beams) for x in outputs]
        ),
        START_SCORES: np.stack(
            [np.repeat(x["start_top_log_probs"], beams) for x in outputs]
        ),
        END_PLACES: np.stack([x["end_top_index"] for x in outputs]),
        END_SCORES: np.stack([x["end_top_log_probs"] for x in outputs]),
    }


# Few beams find nothing in many contexts; few levels make many equal scores.
@pytest.mark.parametrize(
    ("beams", "levels", "n_best", "longest"),
    [(1, 9, 20, 9), (8, 2, 20, 4), (8, 4, 3, 2), (12, 500, 1, 99)],
)
def test_same_answers(tokenizer, texts, beams, levels, n_best, longest):
    rng = np.random.default_rng(beams)
    # Texts come again and again in these.
    texts = [*texts, "a b a b a b. a b", "a  b\na\u3000b", "\u5317\u4eac " * 9]
    examples = [
        SpanExample(id=f"{n}", question=q, context=context, place="")
        for n, (q, context) in enumerate(
            (q, context) for context in texts for q in ("", "a", "a b c d e f")
        )
    ]
    windows = list(span_windows(examples, tokenizer, SETTINGS, labelled=False))
    outputs = [
        list(random_outputs(rng, each, beams, levels)) for each in windows
    ]

    preprocessor = AlbertPreprocessor.from_tokenizer(tokenizer)
    contexts = ContextReader(preprocessor)(
        tf.constant([example.context for example in examples])
    )
    lengths = preprocessor.tokenize(
        tf.constant([example.question for example in examples])
    )[:, : SETTINGS.max_query_length].row_lengths()
    spans = allowed_spans(
        {
            name: tf.constant(x)
            for name, x in beams_of(sum(outputs, []), beams).items()
        },
        graph_windows(lengths, contexts.ids.row_lengths(), SETTINGS),
        lengths,
        contexts.ids.row_starts(),
        contexts,
        longest,
    )
    found = best_spans(
        spans, contexts, tf.constant(len(examples), tf.int64), n_best
    )
    answers = [
        answer_question(
            example.id,
            example.context,
            each,
            [output],
            n_best=n_best,
            max_answer_length=longest,
        ).best
        for example, each, output in zip(
            examples, windows, outputs, strict=True
        )
    ]
    assert found.is_found.numpy().tolist() == [
        best[0].start is not None for best in answers
    ]
    begins = contexts.characters.row_starts().numpy()
    for n, best in enumerate(answers):
        if not found.is_found[n]:
            continue
        place = found.begins[n] - begins[n], found.ends[n] - begins[n]
        assert place == (best[0].start, best[0].limit)
        # Both in float64, but not the same sums.
        assert found.scores[n].numpy() == pytest.approx(
            best[0].start_score + best[0].end_score, abs=1e-12
        )
        assert found.probabilities[n].numpy() == pytest.approx(
            best[0].probability, abs=1e-12
        )
    assert found.is_found.numpy().any()
    assert not found.is_found.numpy().all()
    assert (max(map(len, answers)) == n_best) == (beams > 1)
