"""Exports of fine-tuned models, against `Predictor`.

tests/finetuning/question_answering/test_serving.py has all outputs of answers.
"""

import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.exporting.config import ExportConfig
from albert_tf.exporting.export import export
from albert_tf.models.encoder import AlbertEncoder

LONG = pytest.mark.long
TEXTS = [
    "A class of functions",
    "",
    "\u00c9tude na\u00efve: 12,345 and 7,000 m\u00f3dules, Stra\u00dfe",
    "The value of the object is a string of many names. " * 6,
]
PAIRS = [*TEXTS[1:], TEXTS[0]]
OPTIONS = ["a name", "\u00e9 1,000", "", "the whole value of the list " * 5]
INPUTS = {
    "sst2": {"text": TEXTS},
    "mrpc": {"text": TEXTS, "text_pair": PAIRS},
    "stsb": {"text": TEXTS, "text_pair": PAIRS},
    "dream": {
        "context": TEXTS,
        "question": PAIRS,
        "options": [OPTIONS] * len(TEXTS),
    },
    "ner": {"text": TEXTS},
    "stsb pair_features": {"text": TEXTS, "text_pair": PAIRS},
    "embedding": {"text": TEXTS},
    "squad1.1": {"question": PAIRS, "context": TEXTS},
    "squad2.0": {"question": PAIRS, "context": TEXTS},
}
PARTS = ("mrpc", "stsb")


def decoded(values):
    return np.char.decode(values.numpy().astype(bytes), "utf-8")


def check_most_likely(task, outputs):
    """Labels and options are those with the highest probability."""
    best = np.argmax(outputs.get("probabilities", [[0]]), -1)
    if "label" in outputs:
        assert outputs["label"].numpy().tolist() == [
            task.labels().numpy()[index] for index in best
        ]
    if "choice" in outputs:
        np.testing.assert_array_equal(outputs["choice"], best)
    if "words" in outputs:
        for row, text in enumerate(TEXTS):
            words = [x for x in decoded(outputs["words"][row]) if x]
            assert words == text.split()
            labels = decoded(outputs["labels"][row])[: len(words)].tolist()
            names = decoded(task.labels())
            assert labels == [names[x] for x in best[row][: len(words)]]


def check_answers(outputs):
    """Positions in characters and bytes are those of the answer."""
    assert {"score", "probability"} < outputs.keys()
    names = ("answer", "start", "end", "start_byte", "end_byte")
    rows = zip(TEXTS, *(outputs[x].numpy() for x in names), strict=True)
    for text, answer, start, end, first, last in rows:
        if start < 0:
            assert answer == b""
            assert (end, first, last) == (-1, -1, -1)
        else:
            assert text[start:end].encode() == answer
            assert text.encode()[first:last] == answer


def check_forms(task, inputs, outputs):
    """Inputs as a dict, a list or a single tensor; and an empty batch."""
    serve = task.signatures["serving_default"]
    # Servers read the shapes of outputs.
    assert all(x.shape.rank for x in serve.structured_outputs.values())
    in_order = list(inputs.values())
    (given,) = in_order if len(in_order) == 1 else [in_order]
    for other in (task(given, training=False), serve(**inputs)):
        for name, values in outputs.items():
            assert values.shape[0] == len(TEXTS)
            assert np.array_equal(other[name], values), name
    empty = {name: x[:0] for name, x in inputs.items()}
    for name, values in serve(**empty).items():
        assert values.shape[0] == 0, name


def check_training(task, inputs, name):
    draws = [
        task(inputs, training=True)[name],
        task(inputs, training=True)[name],
        task.call_training(inputs)[name],
    ]
    assert np.ptp(draws, axis=0).max() > 1e-4
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(task(inputs, training=True)[name] ** 2)
    gradients = tape.gradient(loss, task.trainable_variables)
    assert len(gradients) > 20
    for variable, gradient in zip(
        task.trainable_variables, gradients, strict=True
    ):
        assert gradient is not None, variable.name


@pytest.mark.parametrize(
    "name",
    [
        # They have the parts of others: pairs, labels and numbers.
        pytest.param(x, marks=pytest.mark.slow if x in PARTS else LONG)
        for x in INPUTS
    ],
)
def test_predictions_are_those_of_the_predictor(
    task_exports, assert_same_as_source, name
):
    source, folder = task_exports(name)
    assert_same_as_source(source, folder)
    values = json.loads((folder / "export.json").read_text())
    assert values["task"] == json.loads((source / "task.json").read_text())
    assert values["packed"] is True

    inputs = {key: tf.constant(x) for key, x in INPUTS[name].items()}
    declared = values["signatures"]["serving_default"]["inputs"]
    assert declared == list(inputs)
    task = tf.saved_model.load(folder)
    assert hasattr(task, "labels") == (values["task"]["labels"] is not None)
    outputs = task(inputs)
    check_most_likely(task, outputs)
    check_forms(task, inputs, outputs)
    if "answer" in outputs:
        check_answers(outputs)
    names = ("logits", "value", "embedding", "score")
    trained = next(x for x in names if x in outputs)
    check_training(task, inputs, trained)


@LONG
def test_another_length(fine_tuned_run, tmp_path):
    folder = fine_tuned_run
    export(
        ExportConfig(
            model=folder,
            output=tmp_path / "short",
            kind="task",
            seq_length=8,
            packed=False,
        )
    )
    values = json.loads((tmp_path / "short" / "export.json").read_text())
    assert values["task"]["settings"]["max_seq_length"] == 8
    assert values["packed"] is False
    with pytest.raises(InputError, match="max_seq_length=41 must be at most"):
        export(
            ExportConfig(
                model=folder,
                output=tmp_path / "new",
                kind="task",
                seq_length=41,
            )
        )
    assert not (tmp_path / "new").exists()


def test_sources_that_do_not_support_the_kind(
    make_finetuned, tokenizer, tmp_path
):
    words = make_finetuned("ner")
    for kind in ("encoder", "text_encoder"):
        with pytest.raises(InputError, match="ner has no pooler"):
            export(
                ExportConfig(model=words, output=tmp_path / "new", kind=kind)
            )
    model = AlbertEncoder.from_pretrained(words, new_head=True)
    model.save_pretrained(tmp_path / "encoder", tokenizer)
    with pytest.raises(InputError, match="encoder: no fine-tuned model"):
        export(
            ExportConfig(
                model=tmp_path / "encoder", output=tmp_path / "new", kind="task"
            )
        )
    assert not (tmp_path / "new").exists()
