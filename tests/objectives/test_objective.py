import dataclasses
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.models.base import AlbertModel
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrained import assign_weights
from albert_tf.objectives import registry
from albert_tf.objectives.fit import PretrainingModel
from albert_tf.objectives.masked_language_modeling import MaskedLanguageModeling
from albert_tf.objectives.objective import (
    Objective,
    Term,
    encoder_inputs,
    original_ids,
    prediction_weights,
    replace_masked,
)
from albert_tf.objectives.registry import load_objective_module, make_objective
from albert_tf.settings import setting
from albert_tf.training.loss import WEIGHTS, sparse_cross_entropy


def test_original_ids_restore_the_text(batch, text):
    np.testing.assert_array_equal(original_ids(batch), text)


def test_unused_predictions_replace_nothing(batch, text):
    ids = np.full_like(batch["masked_lm_ids"], 9)
    expected = text.copy()
    for row, positions in enumerate(batch["masked_lm_positions"]):
        for position in positions[batch["masked_lm_weights"][row] > 0]:
            expected[row, position] = 9
    np.testing.assert_array_equal(replace_masked(batch, ids), expected)


def test_slices_of_a_batch_sum_to_the_whole(batch, config):
    """As in tests/pretraining/test_packed_loss.py, but of a generator.

    In evaluation all draws are equal in each batch, so only a batch of the
    same rows has the same samples: compare what does not depend on them.
    """
    objective = make_objective("rtd", mask_id=4)
    model = objective.create_model(config)
    data = {key: tf.constant(value) for key, value in batch.items()}
    totals = objective.normalizers(data)
    whole, first, second = (
        objective(model, {k: x[rows] for k, x in data.items()}, totals, None)[1]
        for rows in (slice(None), slice(0, 2), slice(2, 6))
    )
    names = [key for key in whole if key.startswith("generator")]
    assert names
    for key in names:
        np.testing.assert_allclose(
            whole[key], first[key] + second[key], rtol=1e-5
        )


@pytest.mark.parametrize("name", ["mlm", "rtd"])
def test_metrics_are_those_that_are_declared(name, batch, config):
    for pair_task in ("none", "sop", "nsp"):
        objective = make_objective(name, pair_task=pair_task, mask_id=4)
        model = objective.create_model(config)
        heads = {v.path.split("/")[0] for v in model.weights} - {"encoder"}
        assert heads == set(objective.heads)
        data = {key: tf.constant(value) for key, value in batch.items()}
        _, metrics = objective(model, data, objective.normalizers(data), None)
        assert {"loss", *metrics} == {"tokens", *objective.metric_names}


@pytest.mark.parametrize("name", ["mlm", "rtd"])
def test_rows_of_weight_0_do_not_count(name, batch, config):
    objective = make_objective(name, mask_id=4)
    model = objective.create_model(config)
    weights = np.array([1, 1, 1, 1, 1, 0], "float32")
    data = {key: tf.constant(value) for key, value in batch.items()}
    data[WEIGHTS] = tf.constant(weights)
    normalizers = objective.normalizers(data)
    changed = {**data, "masked_lm_ids": data["masked_lm_ids"].numpy()}
    changed["masked_lm_ids"][5] = 11
    changed["sentence_order_labels"] = tf.constant([0, 1, 1, 0, 0, 0])
    results = [
        objective(model, x, normalizers, None)[1] for x in (data, changed)
    ]
    for key, value in results[0].items():
        np.testing.assert_array_equal(value, results[1][key], err_msg=key)


def test_a_batch_without_labels_has_a_finite_loss(batch, config):
    objective = make_objective("mlm")
    model = objective.create_model(config)
    data = {key: tf.constant(value) for key, value in batch.items()}
    data["masked_lm_weights"] *= 0.0
    data["sentence_order_weights"] = tf.zeros([6])
    loss, metrics = objective(model, data, objective.normalizers(data), None)
    assert float(loss) == 0.0
    np.testing.assert_array_equal(metrics["sop_loss"], [0.0, 0.0])


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("bert", {}, "objective='bert' must be one of mlm, rtd"),
        ("mlm", {"generator_hidden_size": 8}, "mlm has no setting"),
        ("rtd", {"size": 8}, "rtd has no setting 'size', only generator_"),
        ("rtd", {"discriminator_weight": -1.0}, "discriminator_weight=-1.0"),
        ("rtd", {"discriminator_weight": "x"}, "discriminator_weight='x'"),
    ],
)
def test_names_and_settings_are_checked(name, settings, message):
    with pytest.raises(InputError, match=message):
        make_objective(name, settings)


def test_the_task_of_pairs_is_checked():
    with pytest.raises(InputError, match="pair_task='SOP' must be sop, nsp or"):
        make_objective("mlm", pair_task="SOP")


def test_a_model_has_the_settings_of_its_objective(config):
    settings = {"discriminator_weight": 20.0, "generator_hidden_size": 8}
    model = make_objective("rtd", settings, mask_id=4).create_model(config)
    saved = model.objective["objective_settings"]
    assert make_objective("rtd", saved).discriminator_weight == 20.0
    assert saved["generator_hidden_size"] == 8


def test_a_module_that_fails_can_be_corrected(tmp_path):
    path = tmp_path / "corrected_objective.py"
    code = (
        "from albert_tf.objectives.masked_language_modeling import *\n"
        "from albert_tf.objectives.registry import register_objective\n"
        "@register_objective\n"
        "class Own(MaskedLanguageModeling):\n"
        "    name = 'corrected'\n"
    )
    path.write_text(code + "undefined\n")
    with pytest.raises(InputError, match="cannot be imported .NameError"):
        load_objective_module(path)
    with pytest.raises(InputError, match="objective='corrected' must be one"):
        make_objective("corrected")
    path.write_text(code)
    load_objective_module(path)
    assert make_objective("corrected").name == "corrected"


def test_settings_are_those_that_are_given():
    objective = make_objective("rtd", {"discriminator_weight": 20.0})
    assert objective.discriminator_weight == 20.0
    changed = dataclasses.replace(objective, pair_task="none")
    assert changed.discriminator_weight == 20.0
    assert changed.metric_names[-1] == "rtd_replaced"


@pytest.mark.parametrize(
    ("name", "base", "body", "message"),
    [
        ("C1", "object", "name = 'c1'", "C1: must be a subclass of Objective"),
        ("C2", "Objective", "name = 'c2'", "C2: lacks the method make_model"),
        ("C3", "MaskedLanguageModeling", "name = 5", "name=5 must be str"),
        (
            *("C4", "MaskedLanguageModeling"),
            "name = 'c4'; heads = 'mlm_head'",
            r"heads='mlm_head' must be tuple\[str, ...\]",
        ),
        (
            *("C5", "Objective"),
            "name = 'c5'; make_model = weights = terms = print",
            r"C5: lacks the attribute heads: tuple\[str, ...\]",
        ),
    ],
)
def test_incomplete_classes_are_not_registered(
    tmp_path, name, base, body, message
):
    path = tmp_path / f"incomplete_{name}.py"
    path.write_text(
        "from albert_tf.objectives.masked_language_modeling import *\n"
        "from albert_tf.objectives.objective import Objective\n"
        "from albert_tf.objectives.registry import register_objective\n"
        f"@register_objective\nclass {name}({base}):\n    {body}\n"
    )
    with pytest.raises(InputError, match=message):
        load_objective_module(path)
    with pytest.raises(InputError, match="objective=.* must be one of mlm"):
        make_objective(name.lower())


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("x = 1", "registers no objective"),
        ("1 / 0", "cannot be imported .ZeroDivisionError"),
        (None, "no such file"),
    ],
)
def test_modules_without_an_objective(tmp_path, code, message):
    path = tmp_path / "mine.py"
    if code is not None:
        path.write_text(code)
    with pytest.raises(InputError, match=message):
        load_objective_module(path)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mine(MaskedLanguageModeling):
    """Without sentence order; its `changed` terms stand for mistakes."""

    name = "mine"
    heads = ("mlm_head",)
    changed: Any = None

    def weights(self, batch):
        return {"mlm": prediction_weights(batch)}

    def terms(self, model, batch, training):
        term = super().terms(model, batch, training)["mlm"]
        changed = self.changed(term) if self.changed else {}
        return {"mlm": term._replace(**changed)}


def computed(objective, batch, config):
    model = objective.create_model(config)
    return objective(model, batch, objective.normalizers(batch), None)[1]


def test_records_with_sentence_order_need_no_term_of_it(batch, config):
    objective = Mine()
    assert objective.metric_names == ("loss", "mlm_loss", "mlm_accuracy")
    metrics = computed(objective, batch, config)
    assert {"loss", *metrics} == {"tokens", *objective.metric_names}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            lambda x: {"losses": x.losses[..., None]},
            r"mlm_loss has the shape \(6, 3, 1\), .* weights have \(6, 3\)",
        ),
        (
            lambda x: {"metrics": {"accuracy": x.losses[:, 0]}},
            r"mlm_accuracy has the shape \(6,\)",
        ),
        (
            lambda x: {"metrics": {"error": x.losses}},
            "objective=mine: mlm_accuracy, mlm_error must be both in",
        ),
    ],
)
def test_terms_that_are_not_as_declared(batch, config, changed, message):
    with pytest.raises(InputError, match=message):
        computed(Mine(changed=changed), batch, config)


def test_a_term_without_weights(batch, config, monkeypatch):
    monkeypatch.setattr(Mine, "weights", lambda self, batch: {})
    with pytest.raises(InputError, match="`terms` has mlm, and `weights` must"):
        computed(Mine(), batch, config)


def test_a_score_beside_guessing_is_not_guessing(monkeypatch):
    class Other(Mine):
        baselines = {"other_accuracy": ("mlm_accuracy", "first term")}

    monkeypatch.setitem(registry._OBJECTIVES, "other", Other)
    assert registry.is_baseline("rtd_chance")
    assert not registry.is_baseline("mlm_accuracy")
    scores = {"mlm_accuracy": 0.5, "mlm_unigram_accuracy": 0.1}
    found = registry.baselines_of("mlm_accuracy", scores)
    assert found == {"most frequent token": 0.1}


def test_rtd_needs_the_id_of_the_mask(batch, config):
    objective = make_objective("rtd")
    model = objective.create_model(config)
    with pytest.raises(InputError, match="needs the id of .MASK."):
        objective(model, batch, objective.normalizers(batch), None)


def test_flops_of_masked_language_modeling_depend_on_the_pairs(config):
    with_pairs, without = (
        MaskedLanguageModeling(pair_task=task).step_flops(config, 16, 3)
        for task in ("sop", "none")
    )
    h = config.hidden_size
    assert with_pairs - without == 6 * (h * h + 2 * h)


class OwnModel(AlbertModel):
    """A model with a head that no ALBERT has."""

    def __init__(self, config, head="own_head", *, build=True, more=None):
        super().__init__(config, name="own")
        self.encoder = AlbertEncoder(config, pooler=False)
        self.own = keras.layers.Dense(2, name=head)
        if build:
            self.own.build((None, config.hidden_size))
        self.more = more
        self.complete()

    def call(self, inputs, training=False):
        outputs = self.encoder(inputs, training=training)
        return self.own(outputs["sequence_output"])


@dataclasses.dataclass(frozen=True, kw_only=True)
class OwnObjective(Objective):
    """Tells masked tokens whose ids are even from odd ones."""

    name = "own"
    heads = ("own_head",)
    metrics = ("even_loss", "even_accuracy")
    size: int = setting(3, "A setting.")

    def make_model(self, config, **options):
        return OwnModel(config, **options)

    def weights(self, batch):
        return {"even": prediction_weights(batch)}

    def terms(self, model, batch, training):
        logits = model(encoder_inputs(batch), training=training)
        positions = keras.ops.cast(batch["masked_lm_positions"], "int32")
        logits = keras.ops.take_along_axis(logits, positions[..., None], axis=1)
        labels = keras.ops.cast(batch["masked_lm_ids"], "int32") % 2
        losses, hits = sparse_cross_entropy(labels, logits)
        return {"even": Term(losses, {"accuracy": hits})}


def test_an_own_head_is_saved_after_fit(batch, config, tmp_path):
    objective = OwnObjective(pair_task="none", size=5)
    training = PretrainingModel(objective.make_model(config), objective)
    training.compile("adam", run_eagerly=True)
    training.fit(batch, batch_size=6, verbose=0)
    model = training.model
    model.save_pretrained(tmp_path)
    checkpoint = open_checkpoint(tmp_path)
    assert checkpoint.objective_heads == ("own_head",)
    assert checkpoint.objective == {
        "objective": "own",
        "objective_settings": {"size": 5},
    }
    again = objective.create_model(config)
    assign_weights(again, checkpoint, new_head=True)
    np.testing.assert_array_equal(again.own.kernel, model.own.kernel)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"build": False}, "no weights of the head 'own_head'; give the "),
        (
            {"head": "dense"},
            "no weights of the head 'own_head'; give the ",
        ),
        (
            {"more": keras.layers.Dense(1, name="late")},
            "a layer that is not built, 'late'",
        ),
    ],
)
def test_heads_that_would_not_be_saved_are_refused(config, options, message):
    with pytest.raises(InputError, match=message):
        OwnObjective(pair_task="none").create_model(config, **options)


def test_heads_that_are_not_declared_are_refused(config):
    more = keras.layers.Dense(1, name="second_head")
    more.build((None, 1))
    with pytest.raises(InputError, match="weights of 'second_head', which is"):
        OwnObjective(pair_task="none").create_model(config, more=more)


def test_settings_need_a_dataclass():
    class Forgotten(Objective):
        name = "forgotten"
        size: int = setting(3, "A setting.")

    with pytest.raises(InputError, match="the setting size, but is not a data"):
        registry.register_objective(Forgotten)
