"""`from_pretrained` and `save_pretrained`."""

import json
import pathlib
import re
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.finetuning.multiple_choice.model import AlbertMultipleChoice
from albert_tf.finetuning.question_answering.model import (
    AlbertQuestionAnswering,
)
from albert_tf.finetuning.text_classification.model import AlbertClassifier
from albert_tf.finetuning.token_classification.model import (
    AlbertTokenClassifier,
)
from albert_tf.interop.checkpoint import Vocabulary
from albert_tf.interop.open_checkpoint import load_tokenizer
from albert_tf.models.base import AlbertModel
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.model_graph import float32_copy
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.pretrained_models import vocabulary_path
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer

STORED = pathlib.Path(__file__).parents[1] / "interop" / "data" / "stored"
GOOGLE = STORED / "google_tf1"  # with both pretraining heads
MASKED_LM = STORED / "tf_hub_2.tar.gz"  # with one of them
BACKBONE = STORED / "keras_hub_backbone.tar.gz"  # with none
LABELLED = STORED / "huggingface_classifier"  # of three named labels
HEADS = {
    AlbertPretrainer: {},
    AlbertClassifier: {"num_labels": 3, "labels": ["a", "b", "c"]},
    AlbertTokenClassifier: {"num_labels": 2},
    AlbertMultipleChoice: {},
    AlbertQuestionAnswering: {"head": "v1"},
}
JOINT = pytest.param(AlbertQuestionAnswering, {"head": "joint"}, id="joint")


@pytest.fixture(scope="module")
def encoder():
    return AlbertEncoder.from_pretrained(GOOGLE)


@pytest.fixture(scope="module")
def pretrainer():
    return AlbertPretrainer.from_pretrained(GOOGLE)


def weights(model):
    return {v.path: np.asarray(v) for v in model.weights}


def assert_same(actual, expected):
    actual, expected = weights(actual), weights(expected)
    assert set(actual) == set(expected)
    for path, value in expected.items():
        np.testing.assert_array_equal(actual[path], value, path)


@pytest.mark.parametrize(("model", "arguments"), [*HEADS.items(), JOINT])
def test_every_model_round_trips(tmp_path, model, arguments):
    new = model.from_pretrained(GOOGLE, new_head=True, **arguments)
    new.save_pretrained(tmp_path)
    back = model.from_pretrained(tmp_path)
    assert_same(back, new)
    assert back.config == new.config
    assert back.get_config() == new.get_config()


def test_without_pooler_and_back(tmp_path):
    encoder = AlbertEncoder.from_pretrained(GOOGLE, pooler=False)
    encoder.save_pretrained(tmp_path)
    back = AlbertEncoder.from_pretrained(tmp_path)
    assert back.pooler is None
    assert_same(back, encoder)
    with pytest.raises(InputError, match="lacks the pooler of an AlbertEncod"):
        AlbertEncoder.from_pretrained(tmp_path, pooler=True)
    assert AlbertEncoder.from_pretrained(tmp_path, new_head=True).pooler
    model = AlbertClassifier.from_pretrained(tmp_path, num_labels=2)
    assert "encoder/pooler/kernel" in model.load_report


LACKS_SOP = (
    f"{MASKED_LM} (TF-Hub SavedModel of Model Garden) has mlm_head, but lacks "
    "the sop_head of an AlbertPretrainer; new_head=True initializes a new one, "
    "sop_head=False omits it"
)
OTHER_SIZE = (
    f"{LABELLED} has classifier_head/kernel of shape [8, 3], but "
    "AlbertClassifier needs [8, 2]; new_head=True initializes a new head"
)


@pytest.mark.parametrize(
    ("model", "source", "arguments", "message"),
    [
        (AlbertPretrainer, MASKED_LM, {}, LACKS_SOP),
        (AlbertPretrainer, BACKBONE, {"sop_head": False}, "lacks the mlm_head"),
        (AlbertClassifier, GOOGLE, {}, "give num_labels=... for a new one"),
        (AlbertClassifier, LABELLED, {"num_labels": 2}, OTHER_SIZE),
        (AlbertQuestionAnswering, GOOGLE, {}, "give head='v1' or 'joint' for"),
        (AlbertMultipleChoice, GOOGLE, {}, "lacks the choice_head"),
        (AlbertMultipleChoice, LABELLED, {}, "lacks the choice_head"),
    ],
)
def test_heads_that_the_checkpoint_lacks(model, source, arguments, message):
    with pytest.raises(InputError, match=re.escape(message)):
        model.from_pretrained(source, **arguments)


def test_a_missing_head_is_omitted_or_new():
    model = AlbertPretrainer.from_pretrained(MASKED_LM, sop_head=False)
    assert model.sop_head is None
    model = AlbertPretrainer.from_pretrained(MASKED_LM, new_head=True)
    new = "newly initialized: sop_head/bias, sop_head/kernel"
    assert new in model.load_report
    model = AlbertClassifier.from_pretrained(GOOGLE, num_labels=5)
    new = "newly initialized: classifier_head/bias, classifier_head/ker"
    assert new in model.load_report
    assert model.num_labels == 5


def test_tensors_that_a_model_does_not_use_are_reported(encoder, pretrainer):
    report = encoder.load_report
    assert "(unused by this model): mlm_head, sop_head" in report
    assert "skipped 1 (step counter): global_step" in report
    report = pretrainer.load_report
    assert "unused by" not in report
    assert "newly initialized" not in report


def test_labels_of_a_checkpoint():
    model = AlbertClassifier.from_pretrained(LABELLED)
    assert model.labels == ("contradiction", "entailment", "neutral")
    assert (model.num_labels, model.head_dropout) == (3, 0.2)
    model = AlbertClassifier.from_pretrained(
        LABELLED, num_labels=3, labels=["x", "y", "z"], dropout=0.4
    )
    assert model.labels == ("x", "y", "z")
    assert model.head_dropout == 0.4
    assert "newly initialized" not in model.load_report


def test_labels_that_do_not_exclude_each_other(edited, tmp_path):
    """transformers reads from `problem_type` to compute sigmoids."""
    shutil.copytree(LABELLED, tmp_path / "several")
    with edited(tmp_path / "several/config.json") as config:
        config["problem_type"] = "multi_label_classification"
    for new_head, kind in ((False, config["problem_type"]), (True, None)):
        model = AlbertClassifier.from_pretrained(
            tmp_path / "several", num_labels=3, new_head=new_head
        )
        model.save_pretrained(tmp_path / "saved")
        saved = json.loads((tmp_path / "saved/config.json").read_text())
        assert saved.get("problem_type") == kind


@pytest.mark.parametrize("num_labels", [2, 3])
def test_a_new_head_has_no_weights_or_labels_of_the_old(num_labels):
    old = weights(AlbertClassifier.from_pretrained(LABELLED))
    model = AlbertClassifier.from_pretrained(
        LABELLED, num_labels=num_labels, new_head=True
    )
    assert (model.num_labels, model.labels) == (num_labels, None)
    for path, value in weights(model).items():
        if path.startswith("encoder"):
            np.testing.assert_array_equal(value, old[path], path)
        elif path.endswith("kernel"):
            assert not np.array_equal(value, old[path])


def test_labels_say_how_many_there_are():
    labels = ["no", "maybe", "yes"]
    model = AlbertClassifier.from_pretrained(GOOGLE, labels=labels)
    assert (model.num_labels, list(model.labels)) == (3, labels)


def test_new_head_keeps_the_pretraining_heads_of_the_checkpoint(pretrainer):
    model = AlbertPretrainer.from_pretrained(GOOGLE, new_head=True)
    assert_same(model, pretrainer)


@pytest.mark.parametrize("model", [AlbertEncoder, AlbertPretrainer])
def test_an_ambiguous_head_is_ignored_by_models_without_it(tmp_path, model):
    regression = AlbertClassifier.from_pretrained(
        LABELLED, num_labels=1, new_head=True
    )
    regression.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["architectures"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = model.from_pretrained(tmp_path, new_head=True)
    assert "(unused by this model): classifier_head" in model.load_report
    tokens = AlbertTokenClassifier.from_pretrained(
        tmp_path, num_labels=4, new_head=True
    )
    assert tokens.num_labels == 4
    assert AlbertClassifier.from_pretrained(tmp_path).num_labels == 1
    AlbertMultipleChoice.from_pretrained(tmp_path)


def test_extended_positions_are_copies(tmp_path, pretrainer):
    model = AlbertPretrainer.from_pretrained(
        GOOGLE, config_overrides={"max_position_embeddings": 40}
    )
    assert "max_position_embeddings 16 -> 40" in model.load_report
    rows = np.asarray(model.encoder.embeddings.position_embeddings)
    before = np.asarray(pretrainer.encoder.embeddings.position_embeddings)
    np.testing.assert_array_equal(rows, before[np.arange(40) % 16])
    model.save_pretrained(tmp_path / "folder")
    model.save(tmp_path / "model.keras")
    for loaded in (
        AlbertPretrainer.from_pretrained(tmp_path / "folder"),
        keras.saving.load_model(tmp_path / "model.keras"),
    ):
        assert loaded.config == pretrainer.config.replace(
            max_position_embeddings=40, trained_positions=16
        )
        assert_same(loaded, model)


def test_mixed_precision(pretrainer):
    mixed = AlbertPretrainer.from_pretrained(GOOGLE, dtype="mixed_bfloat16")
    assert mixed.encoder.compute_dtype == "bfloat16"
    assert_same(mixed, pretrainer)


def test_under_a_strategy(pretrainer):
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        model = AlbertPretrainer.from_pretrained(GOOGLE)
    value = model.weights[0].value
    assert isinstance(value, tf.distribute.DistributedValues)
    assert_same(model, pretrainer)


def test_half_precision_variables(tmp_path):
    model = AlbertEncoder.from_pretrained(GOOGLE, dtype="bfloat16")
    model.save_pretrained(tmp_path)
    back = AlbertEncoder.from_pretrained(tmp_path)
    for variable, other in zip(model.weights, back.weights, strict=True):
        cast = keras.ops.cast(variable, "float32")
        np.testing.assert_array_equal(cast, other)


def test_the_tokenizer_is_saved_with_the_model(tmp_path):
    model = AlbertEncoder.from_pretrained(GOOGLE)
    assert model.tokenizer.vocab_size == 40
    model.save_pretrained(tmp_path / "a")
    back = AlbertEncoder.from_pretrained(tmp_path / "a")
    assert back.tokenizer.settings == model.tokenizer.settings
    # Texts are truncated to the model's length.
    longest = model.config.max_position_embeddings
    for tokenizer in (
        model.tokenizer,
        back.tokenizer,
        load_tokenizer(tmp_path / "a"),
        load_tokenizer(GOOGLE),
    ):
        assert tokenizer("a " * 600)["input_mask"].shape == (1, longest)
    other = AlbertTokenizer.from_file(
        STORED / "spiece.model", do_lower_case=False, digit_comma="off"
    )
    model.save_pretrained(tmp_path / "a", other)
    back = AlbertEncoder.from_pretrained(tmp_path / "a")
    assert back.tokenizer.settings == other.settings
    assert back.tokenizer.tokenize("The cat") == other.tokenize("The cat")


def test_an_encoder_may_have_any_name(tmp_path, encoder):
    student = AlbertEncoder.from_pretrained(GOOGLE, name="student")
    ids = np.array([[2, 5, 6, 3]])
    states = encoder(ids)["sequence_output"]
    np.testing.assert_array_equal(student(ids)["sequence_output"], states)
    student.save_pretrained(tmp_path / "saved")
    again = AlbertEncoder.from_pretrained(tmp_path / "saved")
    np.testing.assert_array_equal(again(ids)["sequence_output"], states)
    copy = float32_copy(student, packed=True)
    np.testing.assert_allclose(copy(ids)["sequence_output"], states, atol=1e-5)


class Tagger(keras.layers.Layer):
    """A user's layer that creates its encoder in `build`."""

    def build(self, input_shape):
        self.encoder = AlbertEncoder.from_pretrained(GOOGLE)

    def call(self, ids):
        return self.encoder(ids)["sequence_output"]


def test_names_do_not_depend_on_scopes(tmp_path, encoder, pretrainer):
    ids = np.array([[2, 5, 6, 3]])
    states = encoder(ids)["sequence_output"]
    tagger = Tagger(name="tagger")
    np.testing.assert_array_equal(tagger(ids), states)
    with keras.name_scope("outer"):
        scoped = AlbertPretrainer.from_pretrained(GOOGLE)
        teacher = AlbertPretrainer(
            scoped.config,
            encoder=AlbertEncoder.from_pretrained(GOOGLE, name="teacher"),
        )
    teacher.mlm_head.set_weights(scoped.mlm_head.get_weights())
    teacher.sop_head.set_weights(scoped.sop_head.get_weights())
    for number, model in enumerate((scoped, teacher)):
        model.save_pretrained(tmp_path / f"{number}")
        again = AlbertPretrainer.from_pretrained(tmp_path / f"{number}")
        assert_same(again, pretrainer)
        assert_same(float32_copy(model, packed=False), pretrainer)


def test_only_heads_are_ever_new():
    class Other(AlbertModel):
        def __init__(self, config, **kwargs):
            super().__init__(config, **kwargs)
            self.body = AlbertEncoder(config, name="body")
            self.complete()

    with pytest.raises(InputError, match="Other has no AlbertEncoder as its"):
        Other.from_pretrained(GOOGLE, new_head=True)


def test_two_encoders_of_one_name_are_not_mixed_up(tmp_path, pretrainer):
    class Twins(AlbertPretrainer):
        def __init__(self, config, **kwargs):
            super().__init__(config, **kwargs)
            self.teacher = AlbertEncoder(config)

    with pytest.raises(InputError, match="Twins has two variables encoder/"):
        Twins(pretrainer.config).save_pretrained(tmp_path / "twins")


def test_a_tokenizer_of_more_pieces_is_not_saved(tmp_path, encoder):
    larger = AlbertTokenizer.from_file(vocabulary_path("albert_tiny_en"))
    before = encoder.vocabulary
    with pytest.raises(InputError, match="10000 pieces, but the model's vocab"):
        encoder.save_pretrained(tmp_path / "saved", larger)
    with pytest.raises(InputError, match="10000 pieces, but the model's vocab"):
        encoder.tokenizer = larger
    assert encoder.vocabulary is before
    assert not (tmp_path / "saved").exists()


def test_one_label_of_several_that_do_not_exclude_each_other(tmp_path):
    model = AlbertClassifier.from_pretrained(GOOGLE, num_labels=1)
    model.multi_label = True
    model.save_pretrained(tmp_path / "toxic")
    assert AlbertClassifier.from_pretrained(tmp_path / "toxic").multi_label


@pytest.mark.parametrize("name", ["run.json", "runs.json"])
def test_the_folder_of_a_run_is_refused(tmp_path, encoder, name):
    (tmp_path / name).write_text("{}")
    with pytest.raises(InputError, match="is the folder of a run"):
        encoder.save_pretrained(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    "earlier", ["tf_hub_2.tar.gz", "keras_hub_classifier", "model/"]
)
def test_what_was_saved_last_is_opened(tmp_path, earlier):
    """Beside a SavedModel, a preset of KerasHub or a fine-tuned model."""
    folder = tmp_path / "folder"
    model = AlbertMultipleChoice.from_pretrained(GOOGLE, new_head=True)
    model.task_config = None if earlier == "model/" else model.TASK
    if earlier.endswith(".gz"):
        shutil.unpack_archive(STORED / earlier, tmp_path)
        folder = tmp_path / "tf_hub_2"
        assert (folder / "saved_model.pb").exists()
    elif earlier == "model/":
        other = AlbertMultipleChoice(model.config)
        other.task_config = other.TASK
        other.save_pretrained(folder / earlier)
        assert_same(AlbertMultipleChoice.from_pretrained(folder), other)
    else:
        shutil.copytree(STORED / earlier, folder)
    model.save_pretrained(folder)
    again = AlbertMultipleChoice.from_pretrained(folder)
    assert_same(again, model)
    assert (again.task_config is None) == (model.task_config is None)


def test_files_of_an_earlier_model_do_not_stay(tmp_path, encoder):
    """They would say of the new model what is true of the old one."""
    folder = tmp_path / "mine"
    (folder / "1_Pooling").mkdir(parents=True)
    stale = ["task.json", "modules.json", "objective.safetensors", "vocab.txt"]
    for name in [*stale, "1_Pooling/config.json", "notes.json"]:
        (folder / name).write_text("{}")
    encoder.save_pretrained(folder)  # They are not those of a model of ours.
    assert {*stale, "1_Pooling"} < {path.name for path in folder.iterdir()}
    vocabulary = encoder.vocabulary
    encoder.vocabulary = Vocabulary()
    encoder.save_pretrained(folder)
    assert (folder / "vocab.txt").exists()  # It had no tokenizer of its own.
    encoder.vocabulary = Vocabulary(
        AlbertTokenizer.from_file(STORED / "spiece.model")
    )
    encoder.save_pretrained(folder)
    encoder.vocabulary = vocabulary
    names = {path.name for path in folder.iterdir()}
    assert not names & {*stale, "1_Pooling"}
    assert {"spiece.model", "notes.json"} < names


def test_a_folder_with_other_files_keeps_them(tmp_path, encoder):
    folder = tmp_path / "mine"
    (folder / "logs").mkdir(parents=True)
    (folder / "thesis.tex").write_text("x")
    encoder.save_pretrained(folder)
    encoder.save_pretrained(folder)
    assert (folder / "thesis.tex").read_text() == "x"
    names = {path.name for path in folder.iterdir()}
    assert {"logs", "config.json", "model.safetensors"} < names
    assert not any(name.startswith(".") for name in names)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
