"""Answers of the serving graph equal those of `Predictor`."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from architectures import SMALL

from albert_tf.errors import InputError
from albert_tf.finetuning.model_folder import load_model, save_model
from albert_tf.finetuning.predictor import Predictor
from albert_tf.finetuning.question_answering import serving
from albert_tf.finetuning.question_answering.examples import (
    QuestionAnsweringExample,
)
from albert_tf.finetuning.question_answering.model import (
    AlbertQuestionAnswering,
)
from albert_tf.finetuning.registry import (
    known_task,
    make_task_type,
    with_settings,
)
from albert_tf.finetuning.serving import ServingGraph
from albert_tf.text.wordpiece_tokenizer import AlbertWordPieceTokenizer

TASKS = {"v1": "squad1.1", "joint": "squad2.0"}
# Many windows; one window; and characters that tokenizers drop or compose.
CONTEXTS = (
    "  \n The movie was the good one. " + "I have seen it, not 12,000. " * 12,
    "the good movie",
    "a",
    "",
    " \u3000\t ",
    "\u00ad",
    "\u0301",
    "so\u00adft\u00ad Stra\u00dfe a\u0323\u0301 e\u0301\u0323 \ufb01lm \u1ea5",
    "\ufeff\u5317\u4eac\u5927\u5b66\uff0c\u4e2d\u56fd\u3002\x1c \x00 seen",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 it \U0001f600\U0001f600 good "
    * 5,
    "[CLS] not [SEP] a <pad> movie [MASK]\u2028",
)
FEW_BEAMS = {
    "v1": {"n_best": 4, "max_answer_length": 10},
    "joint": {"start_n_top": 2, "end_n_top": 1, "max_answer_length": 3},
}
LENGTHS = {"max_seq_length": 32, "doc_stride": 8, "max_query_length": 10}
QUESTIONS = ("", "What was good?", "which film was really really seen? " * 3)


def questions_about(contexts, questions=QUESTIONS):
    return [
        QuestionAnsweringExample(
            id=f"{n}", question=question, context=context, location=""
        )
        for n, (question, context) in enumerate(
            (question, context)
            for question in questions
            for context in contexts
        )
    ]


def save(folder, head, tokenizer, **settings):
    """Writes a fine-tuned model whose weights are far from zero.

    By default, it answers every question.
    """
    if head == "joint":
        settings = {"null_threshold": 1e9, **settings}
    task_config = with_settings(
        known_task(TASKS[head]), {**LENGTHS, **settings}
    )
    task_type = make_task_type(task_config, tokenizer)
    keras.utils.set_random_seed(7)
    config = SMALL.replace(
        vocab_size=tokenizer.vocab_size,
        embedding_size=16,
        num_hidden_layers=1,
        max_position_embeddings=128,
        hidden_dropout_prob=0.1,
    )
    model = AlbertQuestionAnswering(config, **task_type.model_arguments())
    for variable in model.trainable_variables:
        # A new head says nearly the same of all.
        if "head" in variable.path:
            variable.assign(5.0 * variable)
    save_model(folder, model, task_type, task_config)
    return folder


def graph_of(folder, changes=None, packed=True):
    loaded = load_model(folder, changes)
    return ServingGraph(loaded.task_type, loaded.model, packed=packed)


def function_of(graph, trace=False):
    """Returns a function from examples to outputs, as arrays."""
    texts = tf.TensorSpec([None], tf.string)

    def function(inputs):
        return graph.call(inputs, False)

    if trace:
        signature = [{"question": texts, "context": texts}]
        function = tf.function(function, signature, autograph=False)

    def answers(examples):
        texts = {
            "question": [example.question for example in examples],
            "context": [example.context for example in examples],
        }
        outputs = function(
            {name: tf.constant(x, tf.string) for name, x in texts.items()}
        )
        return {name: value.numpy() for name, value in outputs.items()}

    return answers


def predict(predictor, examples, task_type=None):
    """Yields the records of `albert predict`, with positions of answers."""
    task_type = task_type or predictor.task_type
    predictions = predictor.predict_examples(examples).predictions
    for example, prediction in zip(examples, predictions, strict=True):
        record = task_type.record(example, prediction)
        best = prediction.answers.best[0]
        is_null = best.start is None or (
            task_type.null_threshold is not None
            and record["null_score"] > task_type.null_threshold
        )
        yield {
            "answer": record["answer"],
            "start": -1 if is_null else best.start,
            "end": -1 if is_null else best.end,
            "score": best.start_score + best.end_score,
            "probability": best.probability,
        } | (
            {"null_odds": record["null_score"]}
            if "null_score" in record
            else {}
        )


def check(outputs, examples, expected, least=6):
    """Compares outputs `[batch]` with records of `least` answers or more."""
    expected = list(expected)
    assert len(expected) == len(examples)
    names = {*expected[0], "start_byte", "end_byte"}
    assert set(outputs) == names
    for n, (example, record) in enumerate(zip(examples, expected, strict=True)):
        found = {name: values[n] for name, values in outputs.items()}
        assert found["answer"].decode() == record["answer"]
        assert found["start"] == record["start"]
        assert found["end"] == record["end"]
        place = slice(found["start_byte"], found["end_byte"])
        if record["start"] < 0:
            assert (place.start, place.stop) == (-1, -1)
        else:
            assert example.context.encode()[place] == found["answer"]
        for name in ("score", "probability", "null_odds"):
            # Batches, and what they are padded to, change the order of sums
            # in float32.
            if name in record:
                np.testing.assert_allclose(
                    found[name], record[name], rtol=1e-5, atol=1e-4
                )
    # The comparison must be meaningful.
    assert len({record["answer"] for record in expected}) >= least


@pytest.fixture(scope="module")
def folders(tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {head: save(folder / head, head, tokenizer) for head in TASKS}


@pytest.fixture(scope="module")
def predictors(folders):
    return {head: Predictor([folders[head]]) for head in TASKS}


@pytest.fixture(scope="module")
def functions(folders):
    """Functions of the models' graphs, one of them traced."""
    return {
        head: function_of(graph_of(folders[head]), trace=head == "joint")
        for head in TASKS
    }


def check_empty(outputs):
    assert {values.shape for values in outputs.values()} == {(0,)}
    assert outputs["start"].dtype == outputs["end_byte"].dtype == np.int32
    assert outputs["score"].dtype == np.float32


@pytest.mark.parametrize("head", TASKS)
def test_unusual_texts_in_all_kinds_of_batches(predictors, functions, head):
    examples = questions_about(CONTEXTS)
    answers, predictor = functions[head], predictors[head]
    together = answers(examples)
    check(together, examples, predict(predictor, examples))
    check_empty(answers([]))

    for example in (0, 3, 12):
        answer = together["answer"][example]
        context = examples[example].context.encode()
        # In a text that repeats itself rounding decides which place it is.
        repeated = len(answer) and context.count(answer) > 1
        for name, (value,) in answers([examples[example]]).items():
            wanted = together[name][example]
            if isinstance(wanted, np.floating):
                np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-4)
            elif name == "answer" or not repeated:
                assert value == wanted

    # Many windows beside one.
    context = " ".join(f"movie {n}, {n * n} bad." for n in range(60))
    examples = questions_about([context, "the good movie"], QUESTIONS[1:])
    found = answers(examples)
    for example, record in enumerate(predict(predictor, examples)):
        assert found["answer"][example].decode() == record["answer"]
        assert found["start"][example] == record["start"]


@pytest.mark.long
@pytest.mark.parametrize("head", TASKS)
def test_few_beams_of_padded_rows_in_small_groups(folders, head, monkeypatch):
    changes = FEW_BEAMS[head]
    examples = questions_about(CONTEXTS)
    expected = list(predict(Predictor([folders[head]], changes), examples))
    missing = [record["score"] in (0.0, -2e6) for record in expected]
    # Not only of the contexts without pieces.
    assert 4 * len(QUESTIONS) < sum(missing) < len(examples)
    monkeypatch.setattr(serving, "_WINDOWS_PER_CALL", 3)
    graph = graph_of(folders[head], changes, packed=False)
    answers = function_of(graph, trace=True)
    check(answers(examples), examples, expected, least=3)
    check_empty(answers([]))


def test_null_threshold(folders, predictors):
    examples = questions_about(CONTEXTS)
    without = function_of(graph_of(folders["joint"]))(examples)
    scores = without["null_odds"]
    # One question is at the threshold: it still has its answer.
    threshold = float(np.sort(scores)[len(scores) // 2])
    loaded = load_model(folders["joint"], {"null_threshold": threshold})
    graph = ServingGraph(loaded.task_type, loaded.model)
    found = function_of(graph)(examples)
    np.testing.assert_array_equal(found["null_odds"], scores)
    is_null = scores > threshold
    assert 0 < is_null.sum() < len(scores) / 2
    assert set(found["answer"][is_null]) == {b""}
    assert set(found["start"][is_null]) == {-1}

    # Sums in another order may put the question at the threshold above it.
    clear = np.abs(scores - threshold) > 1e-3
    expected = predict(predictors["joint"], examples, loaded.task_type)
    check(
        {name: values[clear] for name, values in found.items()},
        [x for x, keep in zip(examples, clear, strict=True) if keep],
        [x for x, keep in zip(expected, clear, strict=True) if keep],
        least=4,
    )
    at = np.argmax(scores == threshold)
    assert found["answer"][at] == without["answer"][at]


@pytest.mark.long
def test_word_pieces_and_chinese(read, tmp_path):
    examples = read("data", "xquad", "xquad.zh.json")[::40]
    letters = sorted({c for x in examples for c in (x.context + x.question)})
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    # Some words are unknown, and some characters.
    pieces += [*letters[::2], *(f"##{letter}" for letter in letters[::3])]
    tokenizer = AlbertWordPieceTokenizer(
        "".join(f"{p}\n" for p in pieces).encode()
    )
    folder = save(
        tmp_path / "model",
        "v1",
        tokenizer,
        **{"max_seq_length": 128, "doc_stride": 48, "max_query_length": 20},
    )
    examples += questions_about(CONTEXTS)
    outputs = function_of(graph_of(folder))(examples)
    check(outputs, examples, predict(Predictor([folder]), examples))


def test_different_numbers_of_questions_and_contexts(folders):
    graph = graph_of(folders["v1"])
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="as many questions as contexts"
    ):
        graph.call(
            {"question": tf.constant(["a"]), "context": tf.constant(["b"] * 2)},
            False,
        )


def test_thresholds_are_of_the_joint_head(folders):
    with pytest.raises(InputError, match="null_threshold=1.0 requires head=jo"):
        graph_of(folders["v1"], {"null_threshold": 1.0})
