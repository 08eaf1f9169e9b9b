import pytest

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.interop.config_files import (
    config_from_huggingface,
    config_from_keras_hub,
    config_to_google,
    config_to_huggingface,
    config_to_keras_hub,
    head_from_huggingface,
)

# config.json of albert/albert-base-v2.
BASE_V2 = {
    "architectures": ["AlbertForMaskedLM"],
    "attention_probs_dropout_prob": 0,
    "bos_token_id": 2,
    "classifier_dropout_prob": 0.1,
    "down_scale_factor": 1,
    "embedding_size": 128,
    "eos_token_id": 3,
    "gap_size": 0,
    "hidden_act": "gelu_new",
    "hidden_dropout_prob": 0,
    "hidden_size": 768,
    "initializer_range": 0.02,
    "inner_group_num": 1,
    "intermediate_size": 3072,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 512,
    "model_type": "albert",
    "net_structure_type": 0,
    "num_attention_heads": 12,
    "num_hidden_groups": 1,
    "num_hidden_layers": 12,
    "num_memory_blocks": 0,
    "pad_token_id": 0,
    "type_vocab_size": 2,
    "vocab_size": 30000,
}


def huggingface(**changes):
    return config_from_huggingface({**BASE_V2, **changes}, "config.json")


def test_config_of_hugging_face():
    assert huggingface() == AlbertConfig.from_official("albert_base_v2")
    # Keys of other models and later versions are ignored.
    assert huggingface(id2label={}, use_cache=True, torch_dtype="x") == (
        huggingface()
    )


def test_missing_keys_have_hugging_face_defaults():
    assert config_from_huggingface({"model_type": "albert"}, "x") == (
        AlbertConfig.from_official("albert_xxlarge_v2")
    )


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("gelu_erf", "gelu gelu_python"),
        ("gelu_tanh", "gelu_new gelu_pytorch_tanh gelu_fast"),
        ("relu", "relu"),
        ("tanh", "tanh"),
        ("linear", "linear"),
    ],
)
def test_activations_of_hugging_face(ours, theirs):
    first, *others = theirs.split()
    for name in (first, *others):
        config = huggingface(hidden_act=name)
        assert config.hidden_act == ours
        assert config_to_huggingface(config)["hidden_act"] == first


def test_activations_of_google():
    # Google's "gelu" is what Hugging Face calls "gelu_new".
    config = AlbertConfig.from_dict(
        {"vocab_size": 9, "hidden_size": 12, "hidden_act": "gelu"}
    )
    assert config.hidden_act == "gelu_tanh"
    assert config_to_google(config)["hidden_act"] == "gelu"
    assert config_to_huggingface(config)["hidden_act"] == "gelu_new"


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        (
            {"model_type": "bert"},
            "config.json: model_type='bert' is not an ALB",
        ),
        (
            {"position_embedding_type": "relative_key"},
            "position_embedding_type='relative_key' is not supported",
        ),
        ({"hidden_act": "swish"}, "hidden_act='swish' must be one of gelu, "),
        ({"net_structure_type": 1}, "net_structure_type=1 selects a variant"),
        ({"gap_size": 2}, "gap_size=2 selects a variant"),
        ({"num_memory_blocks": 1}, "num_memory_blocks=1 selects"),
        ({"down_scale_factor": 2}, "down_scale_factor=2 selects"),
        ({"layers_to_keep": [1]}, r"layers_to_keep=\[1\] selects"),
        ({"vocab_size": None}, "vocab_size=None must be an integer"),
    ],
)
def test_invalid_hugging_face_configs(changes, match):
    with pytest.raises(InputError, match=match) as error:
        huggingface(**changes)
    assert str(error.value).startswith("config.json")


def test_heads_of_hugging_face():
    labels = {"2": "c", "1": "b", "0": "a"}
    declared, head = head_from_huggingface(
        {
            "architectures": ["AlbertForTokenClassification"],
            "id2label": labels,
            "classifier_dropout_prob": 0,
        },
        "x",
    )
    assert declared == "token_head"
    assert head.labels == ("a", "b", "c")
    assert (head.num_labels, head.dropout) == (3, 0.0)


def test_placeholder_labels_are_ignored():
    labels = {"0": "LABEL_0", "1": "LABEL_1"}
    _, head = head_from_huggingface({"id2label": labels}, "x")
    assert (head.num_labels, head.labels) == (2, None)


@pytest.mark.parametrize(
    "labels", [["a", "b"], {"a": "b"}, "yes", 3, {"1": "b", "2": "c"}, {"0": 1}]
)
def test_bad_labels(labels):
    with pytest.raises(InputError, match="^x: id2label=.* must "):
        head_from_huggingface({"id2label": labels}, "x")


def test_google_and_back(config):
    config = config.replace(
        hidden_act="relu",
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.2,
    )
    values = config_to_google(config)
    assert AlbertConfig.from_dict(values) == config
    # The keys of the published files, which the original's scripts read.
    assert set(values) == set(BASE_V2) - {
        "architectures",
        "bos_token_id",
        "classifier_dropout_prob",
        "eos_token_id",
        "layer_norm_eps",
        "model_type",
        "pad_token_id",
    }


def test_optional_arguments_of_keras_hub(config):
    values = config_to_keras_hub(config)
    for name in ("num_groups", "num_inner_repetitions", "num_segments"):
        del values[name]
    config = config_from_keras_hub(values, "x")
    assert (config.num_hidden_groups, config.inner_group_num) == (1, 1)
    assert config.type_vocab_size == 2
