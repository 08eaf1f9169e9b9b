"""Predictions of models from their folders, one by one and together."""

import dataclasses
import json
import shutil
import types

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.config import FinetuneConfig
from albert_tf.finetuning.data import read_examples
from albert_tf.finetuning.examples import BadExamples
from albert_tf.finetuning.finetune import task_and_files
from albert_tf.finetuning.model_folder import open_model_folder, save_model
from albert_tf.finetuning.predictor import Predictor
from albert_tf.finetuning.question_answering.metrics import squad_v2
from albert_tf.finetuning.registry import (
    known_task,
    known_tasks,
    make_task_type,
    with_settings,
)
from albert_tf.finetuning.run import open_runs
from albert_tf.finetuning.scoring import (
    check_scored,
    score_predictions,
    scored_by,
)
from albert_tf.finetuning.task_config import TaskConfig
from albert_tf.finetuning.text_classification.examples import (
    TextExample,
    text_task_config,
)
from albert_tf.finetuning.text_classification.glue import GLUE
from albert_tf.finetuning.text_classification.model import AlbertClassifier
from albert_tf.finetuning.token_classification.examples import (
    TokenClassificationExample,
)

LENGTHS = {"max_seq_length": 32, "max_query_length": 12, "max_qa_length": 12}


@pytest.fixture(scope="module")
def describe(task_of):
    """Returns `describe(kind)`: a task, for texts one of GLUE."""
    glue = {"classes": "sst2", "number": "stsb"}

    def describe(kind):
        if kind in glue:
            return with_settings(known_task(glue[kind]), {"max_seq_length": 32})
        return task_of(kind, **LENGTHS)

    return describe


@pytest.fixture(scope="module")
def read(describe, task_files):
    """Returns `read(kind, labelled)`: the examples of a file."""

    def read(kind, labelled=True):
        task_type = make_task_type(describe(kind))
        return list(
            read_examples(
                task_type,
                [task_files[kind]],
                bad=BadExamples(),
                labelled=labelled,
            )
        )

    return read


@pytest.fixture(scope="module")
def make_model(checkpoint, describe, tmp_path_factory):
    """Returns `make(kind, number)`: a folder with a model that is untrained."""

    def make(kind, number=0):
        import keras

        from albert_tf.interop.open_checkpoint import open_checkpoint

        folder = tmp_path_factory.mktemp("model") / f"{number}"
        opened = open_checkpoint(checkpoint)
        task = make_task_type(describe(kind), opened.tokenizer)
        keras.utils.set_random_seed(number)
        model = task.model_class.from_checkpoint(
            opened, new_head=True, **task.model_arguments()
        )
        # A new head says nearly the same of all.
        for variable in model.trainable_variables:
            if "head" in variable.path:
                variable.assign(30.0 * variable)
        save_model(folder, model, task, task.task_config)
        return folder

    return make


@pytest.mark.parametrize("kind", ["choices", "spans", "joint spans", "words"])
def test_predictions_do_not_depend_on_batches(kind, make_model, read):
    examples = read(kind)
    predictor = Predictor([make_model(kind)], batch_size=7)
    expected = predictor.predict_examples(examples)
    chunks = list(predictor.chunks(iter(examples), 5))
    assert [len(chunk.examples) for chunk in chunks] == [5] * 6 + [2]
    found = [p for chunk in chunks for p in chunk.predictions]
    records = [
        [
            _without_floats(predictor.task_type.record(example, prediction))
            for example, prediction in zip(examples, predictions, strict=True)
        ]
        for predictions in (expected.predictions, found)
    ]
    for (ours, floats), (theirs, others) in zip(*records, strict=True):
        assert ours == theirs
        np.testing.assert_allclose(floats, others, atol=1e-3)
    assert len({ours for ours, _ in records[0]}) > 16
    scores, gain = score_predictions(predictor.task_type, [expected])
    again, _ = score_predictions(predictor.task_type, chunks)
    assert not gain
    for name, score in scores.items():
        assert again[name] == pytest.approx(score, abs=1e-4)


def _without_floats(record):
    """Returns a record's text without numbers, and the numbers."""
    # The order of the worst answers depends on rounding.
    record = {name: value for name, value in record.items() if name != "best"}
    floats = []

    def take(value):
        floats.append(float(value))
        return 0

    return json.dumps(json.loads(json.dumps(record), parse_float=take)), floats


def test_ensemble_averages_and_reports_its_gain(make_model, read, eagerly):
    folders = [make_model("choices", number) for number in (1, 2)]
    examples = read("choices")
    predictor = Predictor(folders)
    with eagerly():
        found = predictor.predict_examples(examples)
    ours, theirs = found.members.values()
    for mean, a, b in zip(found.predictions, ours, theirs, strict=True):
        np.testing.assert_allclose(mean, (a + b) / 2)
    scores, gain = score_predictions(predictor.task_type, [found])
    assert gain.startswith(f"accuracy {scores['accuracy']:.4f}: ")
    assert "of its 2 members" in gain


@pytest.mark.long
def test_ensemble_has_its_own_null_threshold(make_model, read):
    folders = [make_model("joint spans", number) for number in (5, 6)]
    for folder, threshold in zip(folders, (-1.0, 4.0), strict=True):
        task_config = open_model_folder(folder).task_config
        settings = {**task_config.settings, "null_threshold": threshold}
        (folder / "task.json").write_text(
            dataclasses.replace(task_config, settings=settings).to_json()
        )
    for order in (folders, folders[::-1]):
        assert Predictor(order).task_type.null_threshold == 1.5

    examples = read("joint spans")
    predictor = Predictor(folders)
    found = predictor.predict_examples(examples)
    scores, _ = score_predictions(predictor.task_type, [found])
    nulls = [x.answers.null_score for x in found.predictions]
    # It is one of the averaged scores, or below all.
    best = scores["null_threshold"]
    assert best in nulls or best < min(nulls)
    members = found.members.values()
    for null, *own in zip(nulls, *members, strict=True):
        assert null == pytest.approx(
            np.mean([each.answers.null_score for each in own])
        )
    # What `predict --null_threshold` then writes has these scores.
    given = Predictor(folders, {"null_threshold": best})
    assert given.task_type.null_threshold == best
    answers = {
        x.id: given.task_type.record(x, y)["answer"]
        for x, y in zip(
            examples, given.predict_examples(examples).predictions, strict=True
        )
    }
    right = {x.id: [a.text for a in x.answers] for x in examples}
    assert squad_v2(right, answers)["f1"] == pytest.approx(scores["f1"])
    # `predict --score` has the scores of the written answers.
    for threshold in (-100.0, 100.0):
        given = Predictor(folders, {"null_threshold": threshold})
        chunk = given.predict_examples(examples)
        written, _ = score_predictions(
            given.task_type, [chunk], as_written=True
        )
        answers = {
            x.answers.id: x.answers.text(threshold) for x in chunk.predictions
        }
        assert written["null_threshold"] == threshold
        assert written["f1"] == pytest.approx(squad_v2(right, answers)["f1"])


def test_models_of_different_tasks_are_refused(make_model, tmp_path):
    folders = [make_model("classes"), make_model("number")]
    with pytest.raises(
        InputError, match="task_type=regression, but .*text_classification"
    ):
        Predictor(folders)
    task = folders[0] / "task.json"
    other = shutil.copytree(folders[0], tmp_path / "other")
    text = task.read_text()
    name = json.loads(text)["name"]
    (other / "task.json").write_text(text.replace(f'"{name}"', '"mrpc"', 1))
    with pytest.raises(InputError, match="name=mrpc, but .* has name="):
        Predictor([folders[0], other])
    (other / "task.json").write_text(
        text.replace('"pair": null', '"pair": "second"', 1)
    )
    with pytest.raises(InputError, match="texts=text,pair, but .* texts=text;"):
        Predictor([folders[0], other])
    with pytest.raises(InputError, match="given twice"):
        Predictor([folders[0], folders[0].parent / "." / folders[0].name])
    with pytest.raises(InputError, match=r"no task.json"):
        Predictor([folders[0].parent])
    with pytest.raises(InputError, match="no model is given"):
        Predictor([])
    for paths in (None, 3, [None]):
        with pytest.raises(InputError, match="paths.* must be a "):
            Predictor(paths)


@pytest.mark.parametrize("kind", ["classes", "number", "words"])
def test_no_texts_and_empty_ones(make_model, kind):
    predictor = Predictor(make_model(kind))
    empty = {"text": "", "pair": ""} if kind == "number" else ""
    assert predictor([]) == []
    one = predictor(empty)
    assert one["id"] == "0"
    first, second = predictor([empty, empty])
    assert {**second, "id": "0"} == first


def test_a_model_that_has_diverged_does_not_predict(make_model, tmp_path):
    folder = shutil.copytree(make_model("classes"), tmp_path / "diverged")
    model = AlbertClassifier.from_pretrained(folder)
    model.classifier_head.bias.assign([np.nan, 0.0])
    model.save_pretrained(folder)
    for paths in ([folder], [make_model("classes"), folder]):
        with pytest.raises(InputError, match="model .*diverged: its predicti"):
            Predictor(paths)("a film")


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (3, "inputs=3 must be texts or dicts of texts"),
        (None, "inputs=None must be texts or dicts of texts"),
        ([{"text": 3}], r"inputs\[0\]\['text'\]=3 must be a string"),
        ([{"text": "a", "pair": None}], r"\['pair'\]=None must be a string"),
        ([{"text": "a", "title": "b"}], "takes text, not text and title"),
        ([{}], "takes .*, not nothing"),
        (["good", 1], r"inputs\[1\]=1 must be a text or a dict"),
        ([("good", "bad")], r"inputs\[0\]=\('good', 'bad'\) must be a text or"),
    ],
)
def test_inputs_that_are_no_list_of_examples(make_model, inputs, message):
    with pytest.raises(InputError, match=message):
        Predictor(make_model("classes"))(inputs)


def test_a_table_is_not_a_list_of_texts(make_model):
    predictor = Predictor(make_model("classes"))
    table = types.SimpleNamespace(columns=["text"], __iter__=None)
    with pytest.raises(InputError, match="inputs is a table, of which only"):
        predictor(table)
    with pytest.raises(InputError, match="takes text, not 0"):
        predictor({0: "a"})


def test_labels_that_do_not_exclude_each_other_are_refused(
    make_model, edited, tmp_path
):
    folder = shutil.copytree(make_model("classes"), tmp_path / "several")
    with edited(folder / "config.json") as config:
        config["problem_type"] = "multi_label_classification"
    with pytest.raises(InputError, match="a multi-label model"):
        Predictor(folder)


def test_more_tokens_than_the_model_has_positions(make_model):
    folder = make_model("classes")
    with pytest.raises(
        InputError, match="max_seq_length=65 must be at most 64"
    ):
        Predictor(folder, {"max_seq_length": 65})


def test_what_cannot_be_scored_is_not_predicted(examples_of, tokenizer):
    """Of what `evaluate` and `predict --score` are given."""
    task = make_task_type(known_task("embedding"), tokenizer)
    for labels, metrics, other in (
        ([1.0], ("spearman", "pearson"), "accuracy"),
        (None, ("accuracy",), "spearman"),
    ):
        examples = examples_of(("a", "b"), labels=labels)
        assert check_scored(task, examples) == metrics
        with pytest.raises(InputError, match=f"{other} cannot be computed fr"):
            check_scored(task, examples, (other,))
        scores = scored_by(task, metrics).scores(
            examples * 2, [np.eye(2)[[0, i]] for i in range(2)]
        )
        assert {*scores} == {*metrics}
    with pytest.raises(InputError, match="no examples to score"):
        check_scored(task, [])


def test_labels_that_only_the_model_may_predict(read):
    """A development set need not have all labels."""
    words = dataclasses.replace(
        known_task("ner"), labels=("O", "PER"), metrics=("f1",)
    )
    sentence = TokenClassificationExample(
        id="0", words=("a",), labels=("O",), location="a:1"
    )
    with pytest.raises(InputError, match="'PER' is not an entity label"):
        make_task_type(words).check_scores([sentence])
    task = text_task_config(
        dataclasses.replace(GLUE["sst2"], labels=("0", "1", "2"))
    )
    task = dataclasses.replace(task, metrics=("f1",))
    with pytest.raises(InputError, match="but there is a class 2; use accur"):
        make_task_type(task).check_scores(
            [TextExample(id="0", text="a", label="0", location="a:1")]
        )


def test_task_config_survives_its_file():
    for task_config in known_tasks().values():
        text = task_config.to_json()
        again = TaskConfig.from_json(text, "task.json")
        assert again.to_json() == text
        assert again.labels == task_config.labels
    with pytest.raises(InputError, match="task.json: not a task configuration"):
        TaskConfig.from_json("{}", "task.json")
    with pytest.raises(InputError, match="doc_stride=3: the task sst2 has no"):
        with_settings(known_task("sst2"), {"doc_stride": 3})
    with pytest.raises(InputError, match="head=v1 does not predict"):
        with_settings(known_task("squad2.0"), {"head": "v1"})


def test_untrained_positions_raise_a_warning(
    make_model, describe, task_files, tmp_path, caplog
):
    """A model's config says how many positions pretraining saw."""
    folder = make_model("choices")
    config = json.loads((folder / "config.json").read_text())
    config["trained_positions"] = 16
    (folder / "config.json").write_text(json.dumps(config))
    config = FinetuneConfig(
        task=describe("choices"),
        max_seq_length=24,
        train=task_files["choices"],
        init_from=folder,
        output=tmp_path / "run",
    )
    open_runs([config], *task_and_files(config))
    assert caplog.text.count("max_seq_length=24, but the model was") == 1
    for _ in range(2):
        Predictor(folder)
    assert caplog.text.count("inputs may have 32 tokens, but") == 1
