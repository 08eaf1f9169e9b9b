import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.finetuning.multiple_choice.model import AlbertMultipleChoice
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
from albert_tf.interop.names import (
    COMPONENTS,
    FORMATS,
    HEADS,
    OURS,
    Transform,
    component_of,
    tensors_of,
)
from albert_tf.models.pretrainer import AlbertPretrainer

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
    "pair_head": lambda config: AlbertPairClassifier(config, 3),
    "token_head": lambda config: AlbertTokenClassifier(config, 3),
    "span_head": lambda config: AlbertQuestionAnswering(config, "v1"),
    "joint_span_head": lambda config: AlbertQuestionAnswering(config, "joint"),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_tensors_are_the_variables_of_the_model(config, name):
    config = config.replace(**CONFIGS[name])
    model = AlbertPretrainer(config)
    components = {component_of(variable.path) for variable in model.weights}
    assert {t.path: t.shape for t in tensors_of(config, components)} == {
        variable.path: tuple(variable.shape) for variable in model.weights
    }


@pytest.mark.parametrize("heads", MODELS)
def test_tensors_are_the_variables_of_every_head(config, heads):
    model = MODELS[heads](config)
    components = {component_of(variable.path) for variable in model.weights}
    assert components & set(HEADS) == set(heads.split())
    rows = {t.path: t.shape for t in tensors_of(config, components, 3)}
    assert rows == {v.path: tuple(v.shape) for v in model.weights}


def test_every_component_has_tensors(config):
    for name in COMPONENTS:
        tensors = list(tensors_of(config, {name}))
        assert tensors
        assert {component_of(tensor.path) for tensor in tensors} == {name}


@pytest.mark.parametrize("system", FORMATS)
def test_names_of_a_system_are_unique(config, system):
    one_name = {"classifier_head", "choice_head", "token_head"}
    components = set(COMPONENTS) - one_name
    if system == "model_garden":  # which has one group of one block
        config = config.replace(num_hidden_groups=1, inner_group_num=1)
    names = [
        tensor.names[system].name
        for tensor in tensors_of(config, components)
        if system in tensor.names
    ]
    assert len(set(names)) == len(names)


def test_names_of_other_systems(config):
    # From google-research/albert, transformers, KerasHub and Model Garden.
    rows = {t.path: t for t in tensors_of(config, set(COMPONENTS))}
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


@pytest.mark.parametrize(
    ("transform", "theirs"),
    [
        (Transform(), (4, 6)),
        (Transform("transpose"), (6, 4)),
        (Transform("split_last", 3), (4, 3, 2)),
        (Transform("split_first", 2), (2, 2, 6)),
    ],
)
def test_transforms_have_inverses(transform, theirs):
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    assert transform.shape(array.shape) == theirs
    there = transform.to_theirs(array)
    assert there.shape == theirs
    back = transform.to_ours(there, array.shape)
    np.testing.assert_array_equal(back, array)


def test_heads_are_contiguous_columns():
    query = np.arange(12).reshape(2, 6)
    split = Transform("split_last", 3).to_theirs(query)
    np.testing.assert_array_equal(split[:, 1], query[:, 2:4])
    output = np.arange(12).reshape(6, 2)
    split = Transform("split_first", 3).to_theirs(output)
    np.testing.assert_array_equal(split[1], output[2:4])
