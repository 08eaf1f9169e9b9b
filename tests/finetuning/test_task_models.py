"""`fit`, `evaluate` and `predict` of every task model with strings.

tests/finetuning/text_classification/test_text_model.py has more forms of them.
"""

import dataclasses
import json
import tarfile

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.finetuning.embedding.model import (
    AlbertSentenceEncoder,
    cosine_loss,
)
from albert_tf.finetuning.multiple_choice.model import AlbertMultipleChoice
from albert_tf.finetuning.predictor import Predictor
from albert_tf.finetuning.question_answering.model import (
    AlbertQuestionAnswering,
)
from albert_tf.finetuning.text_classification.model import (
    AlbertClassifier,
    AlbertPairClassifier,
)
from albert_tf.finetuning.token_classification.model import (
    AlbertTokenClassifier,
)

CROSS_ENTROPY = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
CONTEXTS = ["The good movie was seen by Anna in Rome.", "A bad film " * 12]
QUESTIONS = ["who saw it?", "which _ is it?"]
OPTIONS = [["Anna", "Rome", "x"], ["bad", "good", "a movie"]]
STARTS = [CONTEXTS[0].index("Anna"), CONTEXTS[1].index("bad", 60)]

# Name -> class, arguments, loss, inputs, targets, what `Predictor` takes.
MODELS = {
    "classes": (
        *(AlbertClassifier, {"num_labels": 2, "labels": ["bad", "good"]}),
        *(CROSS_ENTROPY, CONTEXTS, ["good", "bad"], CONTEXTS),
    ),
    "classes of pairs": (
        *(AlbertPairClassifier, {"num_labels": 2, "labels": ["bad", "good"]}),
        *(CROSS_ENTROPY, (QUESTIONS, CONTEXTS), ["good", "bad"]),
        {"text": "a", "pair": "b"},
    ),
    "numbers": (
        *(AlbertClassifier, {"num_labels": 1}, "mse", CONTEXTS, [0.5, 2.0]),
        CONTEXTS,
    ),
    "choices": (
        *(AlbertMultipleChoice, {}, CROSS_ENTROPY),
        *((CONTEXTS, QUESTIONS, OPTIONS), [0, 1]),
        {"context": "a", "question": "b?", "options": ["c", "d"]},
    ),
    "words": (
        *(AlbertTokenClassifier, {"num_labels": 2, "labels": ["O", "PER"]}),
        *(CROSS_ENTROPY, ["Anna saw it", "a bad film by Anna"]),
        *([["PER", "O", "O"], "O O O O PER".split()], "Anna saw"),
    ),
    "answers": (
        *(AlbertQuestionAnswering, {"head": "v1"}),
        {"start_logits": CROSS_ENTROPY, "end_logits": CROSS_ENTROPY},
        *((QUESTIONS, CONTEXTS), (["Anna", "bad"], STARTS)),
        {"question": "who?", "context": CONTEXTS[0]},
    ),
    "joint answers": (
        *(AlbertQuestionAnswering, {"head": "joint"}),
        {
            "start_log_probs": CROSS_ENTROPY,
            "end_log_probs": CROSS_ENTROPY,
            "is_impossible_logits": keras.losses.BinaryCrossentropy(True),
        },
        *((QUESTIONS, CONTEXTS), (["", "bad"], STARTS)),
        {"question": "who?", "context": CONTEXTS[0]},
    ),
    "pairs": (
        *(AlbertSentenceEncoder, {}, cosine_loss),
        *((QUESTIONS, CONTEXTS), [0.5, 1.0], {"text": "a", "pair": "b"}),
    ),
}
ALL = pytest.mark.parametrize("name", MODELS)


@pytest.fixture
def make(serving_config, noisy, tokenizer):
    """Returns `make(name)`: a compiled model, inputs and targets."""

    def make(name):
        model_class, arguments, loss, x, y, _ = MODELS[name]
        keras.utils.set_random_seed(1)
        model = noisy(
            model_class(
                serving_config.replace(
                    hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
                ),
                **arguments,
            )
        )
        if arguments and model_class is not AlbertSentenceEncoder:
            model.dropout = keras.layers.Dropout(0.0)
        model.tokenizer = tokenizer
        model.compile("sgd", loss)
        return model, x, y

    return make


def dataset(x, y):
    if isinstance(y, list) and isinstance(y[0], list):
        y = [" ".join(labels) for labels in y]
    x = tuple(map(tf.constant, x)) if isinstance(x, tuple) else tf.constant(x)
    return tf.data.Dataset.from_tensor_slices((x, y))


def close(actual, desired):
    tf.nest.map_structure(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-5),
        dict(enumerate(tf.nest.flatten(actual))),
        dict(enumerate(tf.nest.flatten(desired))),
    )


@ALL
def test_files_of_a_saved_model_are_fine_tuned_ones(make, name, tmp_path):
    """As an archive, as a file of weights, and as Keras's file."""
    model, x, y = make(name)
    model.max_seq_length = 32
    model.fit(x, y, verbose=0)
    outputs = model.predict(x, verbose=0)
    model.save_pretrained(tmp_path / "model")
    with tarfile.open(tmp_path / "model.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "model", "model")
    model.save(tmp_path / "model.keras")
    for again in (
        type(model).from_pretrained(tmp_path / "model.tar.gz"),
        type(model).from_pretrained(tmp_path / "model/model.safetensors"),
        keras.models.load_model(tmp_path / "model.keras"),
    ):
        assert again.max_seq_length == 32
        assert again.task_config.to_json() == model.task_config.to_json()
        close(again.predict(x, verbose=0), outputs)


def test_texts_train_positions(make, tmp_path):
    model, x, y = make("classes")
    model.config = model.encoder.config = model.config.replace(
        trained_positions=4
    )
    model.max_seq_length = 8
    model.fit(x, y, verbose=0)
    assert len(model.tokenizer.encode(x[1])) > 8
    assert model.config.trained_positions == 8
    model.save_pretrained(tmp_path / "model")
    again = AlbertClassifier.from_pretrained(tmp_path / "model")
    assert again.config.trained_positions == 8
    assert again.tokenizer(x[1])["input_mask"].sum() == 8


def test_names_of_labels(serving_config, tokenizer, tmp_path):
    names = ["LABEL_0", "LABEL_1"]  # Hugging Face's, for unnamed ones.
    model = AlbertClassifier(serving_config, 2, labels=names)
    model.tokenizer = tokenizer
    model.max_seq_length = 16
    model.compile("sgd", CROSS_ENTROPY)
    model.fit(CONTEXTS, names, verbose=0)
    model.save_pretrained(tmp_path / "model")
    again = AlbertClassifier.from_pretrained(tmp_path / "model")
    assert list(again.labels) == names
    assert again.max_seq_length == 16
    assert again.task_config is not None
    with pytest.raises(InputError, match="must be distinct"):
        AlbertClassifier(serving_config, 2, labels=["a", "a"])


def test_a_fit_that_fails_changes_nothing(make):
    model, x, y = make("classes")
    model.fit(x, y, verbose=0)
    before = model.task_config
    with pytest.raises(InputError, match="fit needs y, the labels of the text"):
        model.fit((x, y))
    with pytest.raises(InputError, match="label 'x' of text 1 is not one of"):
        model.fit(x, ["good", "x"])
    assert model.task_config is before
    assert len(model.predict(x, verbose=0)) == 2
    model, _, y = make("numbers")
    model.labels = ("score",)
    with pytest.raises(InputError, match="text 1, 3, must be a string"):
        model.fit(["a", 3], y)
    assert model.labels == ("score",)


@pytest.mark.parametrize("form", ["arrays", "dataset"])
@pytest.mark.parametrize("name", ["classes", "words"])
def test_weights_of_classes(make, name, form):
    """By name or by id; those of others are 1."""
    losses = []
    for weights in ({}, {1: 5.0}, None):
        model, x, y = make(name)
        model.compile(keras.optimizers.SGD(0.0), CROSS_ENTROPY)
        if weights is None:
            weights = {model.labels[1]: 5.0}
        given = (x, y) if form == "arrays" else (dataset(x, y).batch(2),)
        history = model.fit(*given, class_weight=weights, verbose=0).history
        losses += history["loss"]
    assert losses[1] == losses[2] > losses[0]
    with pytest.raises(InputError, match="class_weight has 'x', which is nei"):
        model.fit(x, y, class_weight={"x": 1.0})


@pytest.mark.parametrize("form", ["arrays", "dataset"])
@pytest.mark.parametrize("weights", [None, [1.0, 3.0]])
def test_weights_of_classes_of_token_ids(make, form, weights):
    """Multiply those of examples; [2, 2] labels look like one-hot rows."""
    model, _, _ = make("words")
    model.compile(keras.optimizers.SGD(0.0), CROSS_ENTROPY)
    x = {
        "input_word_ids": np.array([[5, 6], [7, 8]]),
        "input_mask": np.ones((2, 2), np.int32),
        "input_type_ids": np.zeros((2, 2), np.int32),
    }
    y = np.array([[0, 1], [1, 0]])
    of_rows = np.ones(2, np.float32) if weights is None else np.array(weights)
    of_tokens = of_rows[:, None] * np.where(y == 1, 5.0, 1.0)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x))
    expected = np.mean(of_tokens * losses.numpy())
    given = (x, y) if weights is None else (x, y, of_rows)
    if form == "dataset":
        given = (tf.data.Dataset.from_tensor_slices(given).batch(2),)
    arguments = dict(zip(("x", "y", "sample_weight"), given, strict=False))
    history = model.fit(**arguments, class_weight={"PER": 5.0}, verbose=0)
    assert history.history["loss"] == [pytest.approx(expected, rel=1e-5)]
    generator = iter([(x, y)])
    with pytest.raises(InputError, match="let the generator yield sample weig"):
        model.fit(generator, class_weight={"PER": 5.0}, verbose=0)


@pytest.mark.parametrize("start", [0.5, float("nan"), -1, None])
def test_starts_of_answers_are_integers(make, start):
    model, x, (texts, starts) = make("answers")
    # As of a column of pandas with gaps.
    model.fit(x, (texts, [float(s) for s in starts]), verbose=0)
    with pytest.raises(InputError, match="of question 1 must be a non-neg"):
        model.fit(x, (texts, [starts[0], start]), verbose=0)


def test_names_of_labels_beside_ids(make):
    """As of a dataset that was preprocessed before."""
    model, x, y = make("classes")
    model.compile(keras.optimizers.SGD(0.0), CROSS_ENTROPY)
    expected = model.fit(x, y, sample_weight=[1.0, 2.0], verbose=0).history
    ids, numbers, _ = model._arrays(x, y, None, None)
    found = model.fit(ids, y, sample_weight=[1.0, 2.0], verbose=0).history
    close(found["loss"], expected["loss"])
    data = tf.data.Dataset.from_tensor_slices((ids, y)).batch(2)
    close(
        model.evaluate(data, verbose=0), model.evaluate(ids, numbers, verbose=0)
    )
    with pytest.raises(InputError, match="must be batched"):
        model.evaluate(data.unbatch())


def test_a_sentence_encoder_embeds_texts_while_it_is_trained_on_pairs(make):
    model, x, y = make("pairs")
    embedded = []
    predict = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda *_: embedded.append(
            model.predict(["a text"], verbose=0)
        )
    )
    model.fit(x, y, epochs=2, callbacks=[predict], verbose=0)
    assert [e.shape[0] for e in embedded] == [1, 1]


def test_candidates_of_answers_are_kept(make, tmp_path):
    model, x, y = make("joint answers")
    loaded = type(model)(
        model.config, head="joint", start_n_top=40, end_n_top=2
    )
    loaded.tokenizer = model.tokenizer
    # Windows are shorter than the number of candidates.
    short = (["who?"], ["Anna."])
    outputs = loaded.predict(short, verbose=0)
    assert outputs["start_top_index"].shape == (1, 40)
    loaded.compile("sgd", MODELS["joint answers"][2])
    loaded.fit(x, y, verbose=0)
    loaded.save_pretrained(tmp_path / "model")
    again = type(model).from_pretrained(tmp_path / "model")
    assert (again.start_n_top, again.end_n_top) == (40, 2)
    assert again.get_config()["start_n_top"] == 40
    close(
        again.predict(short, verbose=0)["end_top_index"],
        loaded.predict(short, verbose=0)["end_top_index"],
    )
    other = type(model).from_pretrained(tmp_path / "model", start_n_top=3)
    assert (other.start_n_top, other.end_n_top) == (3, 2)


def test_labels_of_words_need_not_be_those_of_entities(make):
    model, x, y = make("words")
    model.fit(x, y, verbose=0)
    assert model.task_config.metrics == ("accuracy",)


@pytest.mark.peer
@pytest.mark.parametrize("kind", ["Int64", "category", "bool"])
def test_columns_of_labels(make, kind):
    pandas = pytest.importorskip("pandas")
    model, x, _ = make("classes")
    labels = pandas.Series([1, 0], index=[7, 9]).astype(kind)
    close(
        model.evaluate(x, labels, verbose=0),
        model.evaluate(x, [1, 0], verbose=0),
    )
    with pytest.raises(InputError, match="y is a table, of which only"):
        model.evaluate(x, pandas.DataFrame({"y": [1, 0]}), verbose=0)


@pytest.mark.peer
def test_columns_of_a_part_of_a_table(make):
    """Their index does not begin with 0."""
    pandas = pytest.importorskip("pandas")
    model, x, _ = make("choices")
    columns = [pandas.Series(list(part), index=[7, 9]) for part in x]
    close(model.predict(tuple(columns), verbose=0), model.predict(x, verbose=0))


def test_a_cosine_is_that_of_two_texts():
    for shape in ((2, 4), (2, 3, 4)):
        with pytest.raises(InputError, match=r"must be \[batch, 2, hidden\]"):
            cosine_loss(np.ones(2), np.ones(shape, np.float32))


@ALL
def test_validation_data_is_evaluated(make, name):
    model, x, y = make(name)
    model.optimizer.learning_rate = 0.0
    history = model.fit(x, y, validation_data=(x, y), verbose=0).history
    found = model.evaluate(x, y, verbose=0, return_dict=True)
    close(history["val_loss"], [found["loss"]])


@ALL
def test_arrays_and_datasets_are_equal(make, name):
    model, x, y = make(name)
    loss = model.evaluate(x, y, verbose=0)
    assert np.isfinite(loss).all()
    data = dataset(x, y)
    close(model.evaluate(data.batch(2), verbose=0), loss)
    close(model.evaluate(data, verbose=0), loss)
    outputs = model.predict(x, verbose=0)
    found = model.predict(data, verbose=0)  # Labels are ignored.
    if name == "words":  # Only datasets are padded.
        assert found.shape == (2, 40, 2)
        found = found[:, : outputs.shape[1]]
    close(found, outputs)
    assert all(np.isfinite(x).all() for x in tf.nest.flatten(outputs))


@pytest.mark.parametrize(
    ("name", "x", "y"),
    [
        ("classes", ["a", CONTEXTS[1]], ["good", "bad"]),
        ("choices", (["a", CONTEXTS[1]], QUESTIONS, OPTIONS), [0, 1]),
        ("words", ["Anna saw it", "a bad film " * 9], ["O O O", "O O O " * 9]),
        *[
            (
                head,
                (QUESTIONS, ["Anna", CONTEXTS[1]]),
                (["Anna", "bad"], [0, 2]),
            )
            for head in ("answers", "joint answers")
        ],
    ],
)
def test_batches_of_datasets_have_few_lengths(make, name, x, y):
    """XLA compiles a step for each, and Keras concatenates their outputs."""
    model, _, _ = make(name)
    model.compile("sgd", MODELS[name][2], jit_compile=True)
    data = dataset(x, y).batch(1)
    lengths = [
        batch[0]["input_word_ids"].shape[-1]
        for batch in model._arrays(data, None, None, None)[0]
    ]
    assert lengths == [32, 40]
    model.jit_compile = False  # Compiling takes seconds.
    outputs = model.predict(data.map(lambda x, y: (x,)), verbose=0)
    assert {type(x) for x in tf.nest.flatten(outputs)} == {np.ndarray}


@ALL
def test_a_saved_model_is_a_fine_tuned_one(make, name, tmp_path):
    model, x, y = make(name)
    model.max_seq_length = 32
    before = model.evaluate(x, y, verbose=0)
    model.fit(x, y, epochs=3, verbose=0)
    after = model.evaluate(x, y, verbose=0)
    assert np.ravel(after)[0] < np.ravel(before)[0]
    folder = tmp_path / "model"
    model.save_pretrained(folder)
    task = json.loads((folder / "task.json").read_text())
    assert task["settings"]["max_seq_length"] == 32
    assert task["task_type"] in type(model).TASK_TYPES
    again = type(model).from_pretrained(folder)
    assert again.task_config.to_dict() == model.task_config.to_dict()
    again.compile("sgd", MODELS[name][2])
    close(again.evaluate(x, y, verbose=0), after)
    found = Predictor(folder)(MODELS[name][-1])
    outputs = again.predict(x, verbose=0)
    if name == "classes":
        found = [[*record["probabilities"].values()] for record in found]
        close(np.array(found), keras.ops.softmax(outputs).numpy())
    elif name == "numbers":
        close(np.array([x["value"] for x in found]), outputs[:, 0])
    assert found


@pytest.mark.parametrize(
    ("name", "x", "y", "message"),
    [
        ("choices", (["a"], ["b"]), None, "takes a tuple of 3 lists of texts"),
        ("choices", (["a"], ["b"], ["c"]), None, r"shape \[examples, options"),
        (
            "choices",
            (["a"] * 2, ["b"] * 2, [["c"], ["d", "e"]]),
            [0, 1],
            "numb",
        ),
        ("words", ["a b"], [["O"]], "sentence 0 has 2 words, but 1 labels"),
        ("words", ["a b"], ["O X"], "label 'X'"),
        ("words", [["a", "b"]], [["O", "O"]], "join the words of a text"),
        ("words", ["a", " "], ["O", "O"], "sentence 1 has 0 words, but 1 l"),
        ("words", (["a"], ["b"]), None, "takes one text, not 2"),
        ("classes of pairs", ["a"], ["good"], "takes a tuple of 2 lists"),
        ("answers", (["a"], ["b"]), (["c"], [0]), "does not start at chara"),
        ("answers", (["a"], ["b"]), (["", [0]]), "must be a tuple"),
        ("answers", (["a"], ["b"]), ([""], [0]), "requires head='joint'"),
        (
            "pairs",
            (["a"], ["b", "c"]),
            [1.0],
            "must have the same length, not 1 and 2",
        ),
        ("classes", ["a", "b"], [0, 2], r"label 2, at index 1, .* \[0, 2\)"),
        ("classes", ["a"], [-1], "label -1, at index 0, must be an integer"),
        ("classes", ["a", "b"], np.array([0.0, np.nan]), "label nan, at in"),
        ("classes", ["a", "b"], np.array([1, 0.5]), "label 0.5, at index 1"),
        ("classes", ["a", "b"], [0, "good"], "label 0 of text 0 is not one of"),
        ("classes", ["a", "b"], [None, "good"], "label None of text 0 is not"),
        ("words", ["a b"], [[0, 7]], "label 7, at index 1, must be an integer"),
        ("choices", (["a"], ["b"], [["c", "d"]]), [2], "label 2, at index 0"),
        ("classes", [None, "b"], [0, 1], "text 0, None, must be a string"),
        ("classes", [np.nan, "b"], [0, 1], "text 0, nan, must be a string"),
        ("classes", np.array([], str), [], "no texts; give at least one"),
    ],
)
def test_invalid_arguments(make, name, x, y, message):
    model, _, _ = make(name)
    with pytest.raises(InputError, match=message):
        model.fit(x, y, verbose=0)


def test_a_sentence_encoder_takes_texts_after_pairs_and_pairs_after_texts(make):
    model, pairs, y = make("pairs")
    model.fit(pairs, y, verbose=0)
    alone = [model.predict(part, verbose=0) for part in pairs]
    together = model.predict(pairs, verbose=0)
    np.testing.assert_allclose(np.stack(alone, 1), together, atol=1e-6)
    model.evaluate(pairs, y, verbose=0)


def test_numbers_of_labels_in_datasets(make):
    """Labels would belong to the words of the next sentence."""
    model, _, _ = make("words")
    data = dataset(["it", "a b c", "d e"], ["O", "O O", "O O PER"])
    message = "sentence 1 has 3 words, but 2 labels"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        model.evaluate(data.batch(3), verbose=0)


def test_sentences_without_words_have_no_labels(make):
    model, x, y = make("words")
    loss = model.evaluate(x, y, verbose=0)
    x, y = ["", x[0], " ", x[1]], [[], y[0], [], y[1]]
    inputs, labels, weights = model._arrays(x, y, None, None)
    assert weights.sum(axis=1).tolist() == [0, 3, 0, 5]
    assert labels.shape == inputs["input_mask"].shape
    data = dataset(x, [" ".join(each) for each in y])
    close(model.evaluate(data.batch(4), verbose=0) * 2, loss)


@pytest.mark.parametrize("name", ["choices", "answers", "joint answers"])
def test_a_lower_length_leaves_room_for_all_texts(make, name, tmp_path):
    model, x, y = make(name)
    # As of a model that `albert finetune` has trained.
    model.task_config = model.TASK
    for length in (12, 5):
        model.max_seq_length = length
        texts = (x[0], [text * 4 for text in x[1]], *x[2:])
        if name != "choices":
            texts = texts[1], texts[0]
        inputs, _, _ = model._arrays(texts, None, None, None)
        ids = inputs["input_word_ids"]
        tokens = ids.reshape(-1, ids.shape[-1])
        assert (tokens[:, 0] == model.tokenizer.cls_id).all()
        assert ((tokens == model.tokenizer.sep_id).sum(axis=1) == 2).all()
        assert (tokens[:, 1] != model.tokenizer.sep_id).all()
    model.max_seq_length = 12
    model.fit(x, y, verbose=0)
    model.save_pretrained(tmp_path / "model")
    assert Predictor(tmp_path / "model")(MODELS[name][-1])


def test_ids_of_classes_that_the_loss_ignores(make):
    model, x, _ = make("classes")
    ignore = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, ignore_class=-1
    )
    model.compile("sgd", ignore)
    model.fit(x, [-1, 1], verbose=0)
    # Other losses may give numbers another meaning.
    model.compile("sgd", lambda y, logits: keras.ops.mean(logits) * y[0])
    model.fit(x, [-100, 7], verbose=0)


def test_ids_of_classes_in_an_array_of_objects(make):
    model, x, _ = make("classes")
    model.fit(x, np.array([0, 1], object), verbose=0)


def test_no_texts_in_an_array(make):
    model, _, _ = make("classes")
    for texts in ([], np.array([], object), np.array([], str)):
        with pytest.raises(InputError, match="no texts; give at least one"):
            model.predict(texts)


def test_a_threshold_is_that_of_the_weights_it_was_tuned_for(make):
    model, x, y = make("joint answers")
    model.fit(x, y, verbose=0)
    model.task_config = dataclasses.replace(
        model.task_config.with_settings({"null_threshold": -1.5}),
        scores={"f1": 50.0, "null_threshold": -1.5},
    )
    model.fit(x, y, verbose=0)
    assert model.task_config.settings["null_threshold"] is None
    assert not model.task_config.scores


def test_a_trained_head_keeps_the_order_of_its_labels(make, tmp_path):
    model, x, y = make("classes")
    model.fit(x, y, verbose=0)
    model.save_pretrained(tmp_path / "model")

    def load(labels, **arguments):
        return AlbertClassifier.from_pretrained(
            tmp_path / "model", num_labels=2, labels=labels, **arguments
        ).labels

    with pytest.raises(InputError, match="trained with the order bad, good;"):
        load(["good", "bad"])
    assert load(["bad", "good"]) == ("bad", "good")
    assert load(["no", "yes"]) == ("no", "yes")  # other names for them
    assert load(["good", "bad"], new_head=True) == ("good", "bad")


def test_lists_of_arrays_are_not_texts(make):
    model, _, _ = make("classes")
    ids = [np.array([[2, 3], [2, 3]]), np.ones((2, 2), int), np.zeros((2, 2))]
    assert model.predict(ids, verbose=0).shape == (2, 2)
