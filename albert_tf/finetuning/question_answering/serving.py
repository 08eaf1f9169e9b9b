"""Serving graph of question answering, from strings to answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from albert_tf.finetuning.question_answering import decoder
from albert_tf.finetuning.question_answering.answers import NO_SPAN_SCORE
from albert_tf.finetuning.question_answering.contexts import (
    Contexts,
    cut_windows,
)
from albert_tf.finetuning.question_answering.features import (
    P_MASK,
    window_inputs,
    window_segments,
)
from albert_tf.finetuning.question_answering.settings import least_length
from albert_tf.models.model_graph import Tensors
from albert_tf.tensor_ops import TensorOps
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.packing import Segment, longest_sequence
from albert_tf.text.preprocessor import GraphPreprocessor, ragged_segment

QUESTION = "question"
CONTEXT = "context"


# Number of windows that the encoder processes at a time.
_WINDOWS_PER_CALL = 32


def serve_answers(
    task_type: Any,
    preprocessor: GraphPreprocessor,
    model: Callable[[Tensors], Tensors],
    inputs: Tensors,
) -> Tensors:
    """Returns the best answers to questions.

    Inputs are the strings `question` and `context` `[batch]`. Outputs
    `[batch]` equal those of `answer_questions`:

    - `answer`, strings: a span of the context; "" if there is no answer
    - `start`, `end`, int32: start and end of the answer in the context, in
      characters; -1 if there is no answer
    - `start_byte`, `end_byte`, int32: the same in bytes of UTF-8
    - `score`, float32: sum of the best answer's start and end scores, logits of
      the v1 head, log-probabilities of the joint head
    - `probability`, float32: softmax over the `n_best` answers; 0 if no span
      of the context can be an answer
    - `null_odds`, float32, joint head only: logit of there being no answer.
      Above `null_threshold`, `answer` is ""; score and probability are still
      those of the best answer.

    Contexts of any length are cut into windows, which the encoder processes in
    groups of similar length, so that the memory for activations is bounded.

    Args:
      task_type: the `QuestionAnswering`.
      preprocessor, model, inputs: see `TaskType.serve`.
    """
    values = task_type.task_config.settings
    settings = task_type.window_settings
    given = TensorOps().check_sizes(
        inputs[CONTEXT],
        inputs[QUESTION],
        "There must be as many questions as contexts",
    )
    # Batches often have several questions about a context.
    texts, context_of = tf.unique(given, tf.int64)
    contexts = Contexts(texts)
    ids, starts, ends = preprocessor.tokenize_with_offsets(texts)
    starts, ends = (
        contexts.to_characters(ids.value_rowids(), x.values)
        for x in (starts, ends)
    )
    questions = preprocessor.tokenize(inputs[QUESTION])
    questions = questions[:, : settings.max_query_length]
    windows = cut_windows(
        questions.row_lengths(),
        tf.gather(ids.row_lengths(), context_of),
        max_seq_length=settings.max_seq_length,
        doc_stride=settings.doc_stride,
    )
    question, context = window_segments(
        TensorOps(),
        windows,
        ragged_segment(questions),
        ragged_segment(ids),
        context_of,
    )
    scores = _window_scores(
        values, model, preprocessor.tokenizer, question, context
    )
    # Indices of the windows' pieces among the pieces of all contexts.
    pieces = tf.ragged.range(context.starts, context.starts + context.lengths)
    # The question is surrounded by [CLS] and [SEP].
    window_pieces = decoder.WindowPieces(
        question_of=windows.question_of,
        first_context_token=tf.cast(question.lengths, tf.int64) + 2,
        lengths=tf.cast(context.lengths, tf.int64),
        starts=tf.gather(starts, pieces.values),
        ends=tf.gather(ends, pieces.values),
        max_context=windows.max_context.values,
    )
    best = decoder.best_answers(
        window_pieces,
        [scores],
        contexts,
        context_of,
        n_best=values["n_best"],
        max_answer_length=values["max_answer_length"],
    )
    null_odds = decoder.null_scores(
        window_pieces, [scores], tf.size(context_of, tf.int64)
    )
    return _outputs(
        values["head"],
        inputs[CONTEXT],
        contexts,
        context_of,
        best,
        null_odds,
        task_type.null_threshold,
    )


def _window_scores(
    settings: Mapping[str, Any],
    model: Callable[[Tensors], Tensors],
    tokenizer: Tokenizer,
    questions: Segment,
    contexts: Segment,
) -> Tensors:
    """Returns the `best_positions` of windows, computed group by group.

    A window has a row of `questions` and one of `contexts`.
    """
    ops = TensorOps()
    is_joint = settings["head"] == "joint"
    # Rows have no more positions than that.
    n_best = min(settings["n_best"], settings["max_seq_length"])
    starts, shape = n_best, [None, 1, n_best]
    if is_joint:
        starts = settings["start_n_top"]
        shape = [None, starts, settings["end_n_top"]]
    specs = {
        decoder.START_INDEX: tf.TensorSpec([None, starts], tf.int32),
        decoder.START_SCORE: tf.TensorSpec([None, starts], tf.float32),
        decoder.END_INDEX: tf.TensorSpec(shape, tf.int32),
        decoder.END_SCORE: tf.TensorSpec(shape, tf.float32),
    }
    if is_joint:
        specs[decoder.NULL_SCORE] = tf.TensorSpec([None], tf.float32)
    # Windows of a group have similar lengths.
    order = tf.argsort(contexts.lengths, stable=True)

    def group(start, outputs):
        rows = order[start : start + _WINDOWS_PER_CALL]
        question, context = _take(questions, rows), _take(contexts, rows)
        longest = longest_sequence(ops, [question, context])
        length = tf.maximum(longest, least_length(settings))
        inputs = window_inputs(ops, tokenizer, question, context, length)
        if not is_joint:
            del inputs[P_MASK]
        scores = decoder.best_positions(
            model(inputs), inputs["input_mask"], n_best
        )
        return start + _WINDOWS_PER_CALL, {
            name: tf.concat([x, scores[name]], 0) for name, x in outputs.items()
        }

    _, outputs = tf.while_loop(
        lambda start, _: start < tf.size(order),
        group,
        (
            tf.constant(0),
            {n: tf.zeros([0, *x.shape[1:]], x.dtype) for n, x in specs.items()},
        ),
        (tf.TensorShape([]), {name: x.shape for name, x in specs.items()}),
        # Groups in parallel would take more memory.
        parallel_iterations=1,
    )
    inverse = tf.math.invert_permutation(order)
    return {name: tf.gather(x, inverse) for name, x in outputs.items()}


def _take(segment: Segment, rows: tf.Tensor) -> Segment:
    return segment._replace(
        starts=tf.gather(segment.starts, rows),
        lengths=tf.gather(segment.lengths, rows),
    )


def _outputs(
    head: str,
    texts: tf.Tensor,
    contexts: Contexts,
    context_of: tf.Tensor,
    best: decoder.BestAnswers,
    null_odds: tf.Tensor | None,
    null_threshold: float | None,
) -> Tensors:
    """Returns the outputs for the best answer to each question."""
    is_found = best.starts.row_lengths() > 0
    # 0 if no span is valid.
    start, end, start_score, end_score, probability = (
        values[:, :1].to_tensor(shape=[None, 1])[:, 0] for values in best
    )
    start_byte, end_byte = (
        contexts.to_bytes(context_of, x) for x in (start, end)
    )
    no_score = NO_SPAN_SCORE[head]
    answer = tf.where(
        is_found,
        tf.strings.substr(texts, start_byte, end_byte - start_byte),
        "",
    )
    has_answer = is_found
    outputs = {
        "score": tf.where(is_found, start_score + end_score, 2 * no_score),
        "probability": tf.where(is_found, probability, 0.0),
    }
    if null_odds is not None:
        outputs["null_odds"] = null_odds
        if null_threshold is not None:
            is_null = null_odds > null_threshold
            answer = tf.where(is_null, "", answer)
            has_answer &= ~is_null
    positions = {
        "start": start,
        "end": end,
        "start_byte": start_byte,
        "end_byte": end_byte,
    }
    return {
        "answer": answer,
        **{
            name: tf.where(has_answer, tf.cast(x, tf.int32), -1)
            for name, x in positions.items()
        },
        **{name: tf.cast(x, tf.float32) for name, x in outputs.items()},
    }
