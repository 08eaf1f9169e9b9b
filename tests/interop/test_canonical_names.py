import re

import pytest

from albert_tf.errors import InputError
from albert_tf.interop.canonical_names import canonical_names

WORDS = "bert/embeddings/word_embeddings"
BLOCK = "bert/encoder/transformer/group_0/inner_group_0"
HF_WORDS = "albert.embeddings.word_embeddings.weight"
POOLER = "bert/pooler/dense/bias"


def prefixed(prefix, *names, removed=""):
    """Their names, which have a prefix in place of another -> ours."""
    return {prefix + name.removeprefix(removed): name for name in names}


def norms(first, second):
    """The LayerNorms of a session, which Keras numbers."""
    return prefixed("", WORDS) | {
        "bert/embeddings/layer_normalization/gamma": (
            "bert/embeddings/LayerNorm/gamma"
        ),
        f"{BLOCK}/{first}/gamma": f"{BLOCK}/LayerNorm/gamma",
        f"{BLOCK}/{second}/gamma": f"{BLOCK}/LayerNorm_1/gamma",
        "cls/predictions/transform/layer_normalization_25/beta": (
            "cls/predictions/transform/LayerNorm/beta"
        ),
    }


@pytest.mark.parametrize(
    ("system", "names"),
    [
        # A prefix of all names.
        *(
            ("google", prefixed(x, WORDS, f"{BLOCK}/LayerNorm/beta", "cls/x"))
            for x in ("", "module/", "a/b/")
        ),
        (
            "google",
            {**prefixed("module/", WORDS), "global_step": "global_step"},
        ),
        # Another scope than bert/.
        *(
            ("google", prefixed(x, WORDS, POOLER, removed="bert/"))
            for x in ("", "albert/", "bert/bert/", "module/", "module/albert/")
        ),
        *(
            ("huggingface", prefixed(x, HF_WORDS, removed="albert."))
            for x in ("", "albert.", "module.", "module.albert.")
        ),
        ("huggingface", prefixed("module.", HF_WORDS, "predictions.bias")),
        ("google", norms("layer_normalization", "layer_normalization_1")),
        ("google", norms("layer_normalization_9", "layer_normalization_10")),
        ("google", norms("LayerNorm", "LayerNorm_1")),
        # Old and new scopes of Model Garden.
        (
            "model_garden",
            {
                "transformer/self_attention_output/kernel": (
                    "transformer/self_attention/attention_output/kernel"
                ),
                "transformer/self_attention/attention_output/bias": (
                    "transformer/self_attention/attention_output/bias"
                ),
                "bert/cls/predictions/output_bias/bias": (
                    "cls/predictions/output_bias"
                ),
                "word_embeddings/embeddings": "word_embeddings/embeddings",
            },
        ),
        ("keras_hub", {"a/b": "a/b"}),
        ("albert_tf", {"a/b": "a/b"}),
    ],
)
def test_prefixes_and_spellings(system, names):
    found = canonical_names(system, names, "the file")
    assert found == {ours: theirs for theirs, ours in names.items()}


OLD_NORM = f"{BLOCK}/layer_normalization/beta"
NORM = f"{BLOCK}/LayerNorm/beta"
BIAS = "cls/squad/output_bias"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            [WORDS, NORM, OLD_NORM],
            f"{OLD_NORM} and {NORM} are both the tensor {NORM}$",
        ),
        (
            [f"module/{WORDS}", f"module/{BIAS}", BIAS],
            f".* are both the tensor {BIAS}$",
        ),
        (["conv/kernel"], "expected one .*none among conv/kernel"),
        ([], r"expected one .*none among \.\.\.$"),
        ([f"a/{WORDS}", f"b/{WORDS}"], f"expected one .*a/{WORDS}, b/{WORDS}"),
    ],
)
def test_names_that_are_missing_or_collide(names, message):
    with pytest.raises(InputError, match=f"^the file: {message}"):
        canonical_names("google", names, "the file")


def test_unshared_layer_norms_are_an_error():
    # google-research/albert#241: shared matrices, unshared LayerNorms.
    forks = [
        f"bert/encoder/transformer/group_0_{layer}/layer_{layer}/inner_group_0/"
        f"layer_normalization_{2 * layer + half}/gamma"
        for layer in range(12)
        for half in (1, 2)
    ]
    names = [WORDS, f"{BLOCK}/ffn_1/intermediate/dense/kernel", *forks]
    with pytest.raises(InputError) as error:
        canonical_names("google", names, "the file")
    assert re.fullmatch(
        r"the file: each layer has its own LayerNorms \(bert/.*group_0_0/"
        r"layer_0/inner_group_0/layer_normalization_1/gamma, ...\), although "
        "the layers share their matrices; such forks of ALBERT are not "
        "supported",
        str(error.value),
    )
