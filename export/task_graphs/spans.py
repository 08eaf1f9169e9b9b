"""Answers to questions about contexts, as a graph."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.data.features.span_settings import SpanSettings
from albert_tf.errors import InputError
from albert_tf.export.endpoint import Tensors
from albert_tf.export.model_graph import ModelGraph
from albert_tf.export.task_graph import TEXTS, TaskGraph
from albert_tf.export.task_graphs.span_beams import NULL_SCORES, SpanBeams
from albert_tf.export.task_graphs.span_contexts import (
    ContextReader,
    SpanContexts,
)
from albert_tf.export.task_graphs.span_search import (
    BestSpans,
    allowed_spans,
    best_spans,
)
from albert_tf.export.task_graphs.span_windows import (
    GraphWindows,
    graph_windows,
)
from albert_tf.models.span_labeler import AlbertSpanLabeler
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.preprocessor import AlbertPreprocessor

QUESTION = "question"
CONTEXT = "context"

# Text and score (of start and end together) where there is no span, by head:
# the original's, see `answer_question`.
_NO_SPAN = {"v1": ("empty", 0.0), "joint": ("", -2e6)}


def spans_graph(
    model: AlbertSpanLabeler,
    tokenizer: Tokenizer,
    *,
    settings: SpanSettings,
    n_best: int = 20,
    max_answer_length: int = 30,
    null_threshold: float | None = None,
    packed: bool = True,
    windows_per_call: int = 32,
) -> TaskGraph:
    """Makes the graph of a task of answers in contexts.

    Inputs: `question` and `context`, strings `[batch]`. Outputs, all `[batch]`,
    are those of `answer_question`:

    - `answer`, strings: cut from the context; "" if there is none
    - `start`, `limit`, int32: where it begins and ends in the context, in
      characters; -1 without an answer
    - `start_byte`, `limit_byte`, int32: the same in bytes of UTF-8
    - `score`, float32: of the best answer's start and end together, logits of
      the v1 head, log-probabilities of the joint one
    - `probability`, float32: of it among the `n_best` answers of other texts
    - `null_odds`, float32, of the joint head alone: the higher, the less likely
      an answer. Above `null_threshold` there is none; score and probability are
      then those of the best one nevertheless.

    A context of any length has as many windows as it takes. They go through the
    encoder in groups, so that the memory of its activations does not grow with
    the contexts; windows of like length go together.

    Args:
      model: the fine-tuned model.
      tokenizer: of the model.
      settings: of the windows.
      n_best: see `answer_question`.
      max_answer_length: likewise.
      null_threshold: see `QuestionAnswers.text`; the joint head only.
      packed: see `AlbertEncoder`.
      windows_per_call: windows that go through the encoder at once.

    Raises:
      InputError: a number is below 1, `max_seq_length` is beyond the model's,
        or there is a threshold for the v1 head.
    """
    for name, value in {
        "n_best": n_best,
        "max_answer_length": max_answer_length,
        "windows_per_call": windows_per_call,
    }.items():
        if value < 1:
            raise InputError(f"{name}={value} must be at least 1")
    if null_threshold is not None and model.head != "joint":
        raise InputError(
            f"null_threshold={null_threshold}: the {model.head} head does not "
            "say whether there is an answer; leave the threshold out"
        )
    preprocessor = AlbertPreprocessor.from_tokenizer(
        tokenizer, settings.max_seq_length
    )
    graph = ModelGraph(model, packed)
    reader = ContextReader(preprocessor)
    beams = _make_beams(model, graph, n_best, settings)

    def call(inputs: Tensors, training: bool) -> Tensors:
        check = tf.debugging.assert_equal(
            tf.size(inputs[QUESTION]),
            tf.size(inputs[CONTEXT]),
            "There must be as many questions as contexts",
        )
        with tf.control_dependencies([check]):
            # Those of one paragraph are often asked together.
            texts, context_of = tf.unique(inputs[CONTEXT], tf.int64)
        contexts = reader(texts)
        questions = preprocessor.tokenize(inputs[QUESTION])
        questions = questions[:, : settings.max_query_length]
        question_lengths = questions.row_lengths()
        piece_begins = tf.gather(contexts.ids.row_starts(), context_of)
        windows = graph_windows(
            question_lengths,
            tf.gather(contexts.ids.row_lengths(), context_of),
            settings,
        )
        outputs = _run(
            preprocessor,
            beams,
            questions,
            contexts,
            windows,
            piece_begins,
            windows_per_call,
            training,
        )
        spans = allowed_spans(
            outputs,
            windows,
            question_lengths,
            piece_begins,
            contexts,
            max_answer_length,
        )
        batch = tf.size(context_of, tf.int64)
        best = best_spans(spans, contexts, batch, n_best)
        null_odds = None
        if NULL_SCORES in outputs:
            null_odds = tf.math.unsorted_segment_min(
                outputs[NULL_SCORES], windows.question_of, batch
            )
        return _answers(
            model.head,
            inputs[CONTEXT],
            contexts,
            context_of,
            best,
            null_odds,
            null_threshold,
        )

    return TaskGraph(
        model=graph,
        preprocessor=preprocessor,
        inputs={QUESTION: TEXTS, CONTEXT: TEXTS},
        call=call,
        max_seq_length=settings.max_seq_length,
    )


def _make_beams(
    model: AlbertSpanLabeler,
    graph: ModelGraph,
    n_best: int,
    settings: SpanSettings,
) -> SpanBeams:
    if model.head == "joint":
        return SpanBeams(graph, "joint", model.start_n_top, model.end_n_top)
    # No row has more places.
    n_best = min(n_best, settings.max_seq_length)
    return SpanBeams(graph, "v1", n_best, n_best)


def _run(
    preprocessor: AlbertPreprocessor,
    beams: SpanBeams,
    questions: tf.RaggedTensor,
    contexts: SpanContexts,
    windows: GraphWindows,
    piece_begins: tf.Tensor,
    windows_per_call: int,
    training: bool,
) -> Tensors:
    """Runs the model on all windows, group by group; see `SpanBeams`."""
    begins = tf.gather(piece_begins, windows.question_of)
    lengths = windows.pieces.row_lengths()
    # Windows of like length go together.
    order = tf.argsort(lengths, stable=True)

    def group(begin, outputs):
        members = order[begin : begin + windows_per_call]
        pieces = tf.gather(windows.pieces, members)
        places = pieces.values + tf.repeat(
            tf.gather(begins, members), pieces.row_lengths()
        )
        question_of = tf.gather(windows.question_of, members)
        segments = [
            tf.gather(questions, question_of),
            pieces.with_values(tf.gather(contexts.ids.values, places)),
        ]
        longest = tf.reduce_max(
            tf.add_n([segment.row_lengths() for segment in segments]) + 3
        )
        rows = preprocessor.bert_pack_inputs(
            segments, tf.maximum(tf.cast(longest, tf.int32), beams.width)
        )
        found = beams(rows, training)
        return begin + windows_per_call, {
            name: tf.concat([outputs[name], found[name]], 0) for name in outputs
        }

    count = tf.size(order)
    _, outputs = tf.while_loop(
        lambda begin, _: begin < count,
        group,
        (
            tf.constant(0),
            {
                name: tf.zeros([0, *spec.shape[1:]], spec.dtype)
                for name, spec in beams.specs.items()
            },
        ),
        (
            tf.TensorShape([]),
            {name: spec.shape for name, spec in beams.specs.items()},
        ),
        # Two groups at a time would take the memory of two.
        parallel_iterations=1,
    )
    place_of = tf.math.invert_permutation(order)
    return {name: tf.gather(x, place_of) for name, x in outputs.items()}


def _answers(
    head: str,
    texts: tf.Tensor,
    contexts: SpanContexts,
    context_of: tf.Tensor,
    best: BestSpans,
    null_odds: tf.Tensor | None,
    null_threshold: float | None,
) -> Tensors:
    """Returns the outputs of the task."""
    no_span, no_score = _NO_SPAN[head]
    character_begins = tf.gather(contexts.characters.row_starts(), context_of)
    # Where there is no span, whatever is computed here is not used.
    begins, ends = (
        tf.where(best.is_found, x, character_begins)
        for x in (best.begins, best.ends)
    )
    bytes_begin, bytes_end = (
        tf.gather(contexts.borders, x)
        - tf.gather(contexts.borders, character_begins)
        for x in (begins, ends)
    )
    answer = tf.where(
        best.is_found,
        tf.strings.substr(texts, bytes_begin, bytes_end - bytes_begin),
        no_span,
    )
    has_answer = best.is_found
    outputs = {
        "score": tf.where(best.is_found, best.scores, no_score),
        "probability": tf.where(best.is_found, best.probabilities, 1.0),
    }
    if null_odds is not None:
        outputs["null_odds"] = null_odds
        if null_threshold is not None:
            # In float64, as the threshold is.
            is_null = tf.cast(null_odds, tf.float64) > null_threshold
            answer = tf.where(is_null, "", answer)
            has_answer &= ~is_null
    places = {
        "start": begins - character_begins,
        "limit": ends - character_begins,
        "start_byte": bytes_begin,
        "limit_byte": bytes_end,
    }
    return {
        "answer": answer,
        **{
            name: tf.where(has_answer, tf.cast(x, tf.int32), -1)
            for name, x in places.items()
        },
        **{name: tf.cast(x, tf.float32) for name, x in outputs.items()},
    }
