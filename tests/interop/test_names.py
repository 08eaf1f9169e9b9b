import pytest

from albert_tf.config import AlbertConfig
from albert_tf.interop.names import (
    FORMATS,
    HEADS,
    OURS,
    PARTS,
    part_of,
    tensors_of,
)
from albert_tf.models.classifier import AlbertClassifier
from albert_tf.models.multiple_choice import AlbertMultipleChoice
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.models.span_labeler import AlbertSpanLabeler
from albert_tf.models.token_classifier import AlbertTokenClassifier

CONFIGS = {
    "groups": {},
    "equal sizes": {"embedding_size": 8},
    "equal sizes, projected": {
        "embedding_size": 8,
        "project_equal_sizes": True,
    },
    "attention shared": {"sharing": "attention"},
    "FFN shared": {"sharing": "ffn"},
    "nothing shared": {"sharing": "none", "num_hidden_groups": 1},
}
MODELS = {
    "mlm_head sop_head": lambda config: AlbertPretrainer(config),
    "classifier_head": lambda config: AlbertClassifier(config, 3),
    "choice_head": lambda config: AlbertMultipleChoice(config),
    "token_head": lambda config: AlbertTokenClassifier(config, 3),
    "span_head": lambda config: AlbertSpanLabeler(config, "v1"),
    "joint_span_head": lambda config: AlbertSpanLabeler(config, "joint"),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_rows_are_the_variables_of_the_model(config, name):
    config = config.replace(**CONFIGS[name])
    model = AlbertPretrainer(config)
    parts = {part_of(variable.path) for variable in model.weights}
    assert {t.path: t.shape for t in tensors_of(config, parts)} == {
        variable.path: tuple(variable.shape) for variable in model.weights
    }


@pytest.mark.parametrize("heads", MODELS)
def test_rows_are_the_variables_of_every_head(config, heads):
    model = MODELS[heads](config)
    parts = {part_of(variable.path) for variable in model.weights}
    assert {part for part in parts if part in HEADS} == set(heads.split())
    rows = {t.path: t.shape for t in tensors_of(config, parts, 3)}
    assert rows == {v.path: tuple(v.shape) for v in model.weights}


def test_every_part_has_rows(config):
    for part in PARTS:
        tensors = list(tensors_of(config, {part}))
        assert tensors
        assert {part_of(tensor.path) for tensor in tensors} == {part}


@pytest.mark.parametrize("system", FORMATS)
def test_names_of_a_system_are_its_own(config, system):
    one_name = {"classifier_head", "choice_head", "token_head"}
    parts = set(PARTS) - one_name
    if system == "model_garden":  # which has one group of one block
        config = config.replace(num_hidden_groups=1, inner_group_num=1)
    names = [
        tensor.names[system].name
        for tensor in tensors_of(config, parts)
        if system in tensor.names
    ]
    assert len(set(names)) == len(names)


def test_names_of_other_systems(config):
    # From google-research/albert, transformers, KerasHub and Model Garden.
    rows = {t.path: t for t in tensors_of(config, set(PARTS))}
    key = "encoder/transformer/group_2/inner_1/attention/key/kernel"
    names = {system: n.name for system, n in rows[key].names.items()}
    assert names == {
        OURS: key,
        "google": "bert/encoder/transformer/group_2/inner_group_1/attention_1/"
        "self/key/kernel",
        "huggingface": "albert.encoder.albert_layer_groups.2.albert_layers.1."
        "attention.key.weight",
        "keras_hub": "layers/transformer_encoder_5/_self_attention_layer/"
        "key_dense/vars/0",
        "model_garden": "transformer/self_attention/key/kernel",
    }
    assert set(rows["sop_head/bias"].names) == {OURS, "google", "huggingface"}
    assert (
        rows["mlm_head/output_bias"].names["huggingface"].name
        == "predictions.bias"
    )


def test_shapes_of_other_systems():
    config = AlbertConfig(
        vocab_size=30,
        embedding_size=4,
        hidden_size=6,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=10,
    )
    shapes = {
        (t.path.rsplit("inner_0/")[-1], system): n.transform.shape(t.shape)
        for t in tensors_of(config, {"encoder", "sop_head"})
        for system, n in t.names.items()
    }
    intermediate = "feed_forward/intermediate/kernel"
    assert shapes[intermediate, "huggingface"] == (10, 6)
    assert shapes[intermediate, "google"] == (6, 10)
    assert shapes["attention/query/kernel", "keras_hub"] == (6, 2, 3)
    assert shapes["attention/query/bias", "keras_hub"] == (2, 3)
    assert shapes["attention/output/kernel", "model_garden"] == (2, 3, 6)
    assert shapes["attention/output/bias", "model_garden"] == (6,)
    assert shapes["sop_head/kernel", "google"] == (2, 6)
