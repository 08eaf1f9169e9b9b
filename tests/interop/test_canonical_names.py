import re

import pytest

from albert_tf.errors import InputError
from albert_tf.interop.canonical_names import canonical_names


def google(*names):
    return canonical_names("google", names, "the file")


WORDS = "bert/embeddings/word_embeddings"
BLOCK = "bert/encoder/transformer/group_0/inner_group_0"


@pytest.mark.parametrize("prefix", ["", "module/", "a/b/"])
def test_google_prefixes(prefix):
    names = [WORDS, f"{BLOCK}/LayerNorm/beta", "cls/squad/output_bias"]
    found = google(*(prefix + name for name in names), "global_step")
    assert found == {name: prefix + name for name in names} | {
        "global_step": "global_step"
    }


@pytest.mark.parametrize("outer", ["", "module/"])
@pytest.mark.parametrize("root", ["", "albert/", "bert/bert/"])
def test_google_with_another_scope_than_bert(outer, root):
    prefix = outer + root
    found = google(
        f"{prefix}embeddings/word_embeddings",
        f"{prefix}pooler/dense/bias",
        f"{prefix}encoder/embedding_hidden_mapping_in/bias",
    )
    assert found == {
        WORDS: f"{prefix}embeddings/word_embeddings",
        "bert/pooler/dense/bias": f"{prefix}pooler/dense/bias",
        "bert/encoder/embedding_hidden_mapping_in/bias": (
            f"{prefix}encoder/embedding_hidden_mapping_in/bias"
        ),
    }


@pytest.mark.parametrize("prefix", ["", "module.", "module.albert.", "albert."])
def test_prefixes_of_hugging_face(prefix):
    found = canonical_names(
        "huggingface",
        [
            f"{prefix}embeddings.word_embeddings.weight",
            f"{prefix}pooler.weight",
        ],
        "the file",
    )
    assert found == {
        "albert.embeddings.word_embeddings.weight": (
            f"{prefix}embeddings.word_embeddings.weight"
        ),
        "albert.pooler.weight": f"{prefix}pooler.weight",
    }


def test_data_parallel_prefixes_of_heads_are_removed():
    found = canonical_names(
        "huggingface",
        [
            "module.albert.embeddings.word_embeddings.weight",
            "module.predictions.bias",
        ],
        "the file",
    )
    assert found["predictions.bias"] == "module.predictions.bias"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("layer_normalization", "layer_normalization_1"),
        ("layer_normalization_3", "layer_normalization_4"),
        ("layer_normalization_9", "layer_normalization_10"),
        ("LayerNorm", "LayerNorm_1"),
    ],
)
def test_layer_normalization_becomes_layer_norm(first, second):
    found = google(
        WORDS,
        "bert/embeddings/layer_normalization/gamma",
        f"{BLOCK}/{first}/gamma",
        f"{BLOCK}/{second}/gamma",
        "cls/predictions/transform/layer_normalization_25/beta",
    )
    assert found == {
        WORDS: WORDS,
        "bert/embeddings/LayerNorm/gamma": (
            "bert/embeddings/layer_normalization/gamma"
        ),
        f"{BLOCK}/LayerNorm/gamma": f"{BLOCK}/{first}/gamma",
        f"{BLOCK}/LayerNorm_1/gamma": f"{BLOCK}/{second}/gamma",
        "cls/predictions/transform/LayerNorm/beta": (
            "cls/predictions/transform/layer_normalization_25/beta"
        ),
    }


def test_spellings_must_not_collide():
    names = [f"{BLOCK}/LayerNorm/beta", f"{BLOCK}/layer_normalization/beta"]
    with pytest.raises(InputError) as error:
        google(WORDS, *names)
    assert str(error.value) == (
        f"the file: {names[1]} and {names[0]} are both the tensor {names[0]}"
    )


def test_prefixes_must_not_collide():
    with pytest.raises(InputError, match="are both the tensor cls/squad/outp"):
        google(
            f"module/{WORDS}",
            "module/cls/squad/output_bias",
            "cls/squad/output_bias",
        )


def test_unshared_layer_norms_are_an_error():
    # google-research/albert#241: shared matrices, unshared LayerNorms.
    forks = [
        f"bert/encoder/transformer/group_0_{layer}/layer_{layer}/inner_group_0/"
        f"layer_normalization_{2 * layer + half}/gamma"
        for layer in range(12)
        for half in (1, 2)
    ]
    with pytest.raises(InputError) as error:
        google(WORDS, f"{BLOCK}/ffn_1/intermediate/dense/kernel", *forks)
    assert re.fullmatch(
        r"the file: each layer has its own LayerNorms \(bert/.*group_0_0/"
        r"layer_0/inner_group_0/layer_normalization_1/gamma, ...\), although "
        "the layers share their matrices; such forks of ALBERT are not "
        "supported",
        str(error.value),
    )


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["conv/kernel", "dense/kernel"], "none among conv/kernel, dense"),
        ([], r"none among \.\.\.$"),
        ([f"a/{WORDS}", f"b/{WORDS}"], f"a/{WORDS}, b/{WORDS}"),
    ],
)
def test_word_embeddings_must_be_unique(names, found):
    with pytest.raises(InputError, match=f"the file: expected one .*{found}"):
        google(*names)


def test_old_and_new_scopes_of_model_garden():
    names = {
        "transformer/self_attention_output/kernel": (
            "transformer/self_attention/attention_output/kernel"
        ),
        "transformer/self_attention/attention_output/bias": (
            "transformer/self_attention/attention_output/bias"
        ),
        "bert/cls/predictions/output_bias/bias": "cls/predictions/output_bias",
        "cls/predictions/transform/dense/bias": (
            "cls/predictions/transform/dense/bias"
        ),
        "word_embeddings/embeddings": "word_embeddings/embeddings",
    }
    found = canonical_names("model_garden", names, "the file")
    assert found == {ours: theirs for theirs, ours in names.items()}


def test_names_of_other_systems_are_kept():
    for system in ("keras_hub", "albert_tf"):
        assert canonical_names(system, ["a/b"], "x") == {"a/b": "a/b"}
