"""Writing a checkpoint in a format and opening it keeps every bit.

This covers names, layouts, configs and heads of all formats at once; tests of
single steps are mostly about errors.
"""

import pytest

from albert_tf.errors import InputError
from albert_tf.interop.checkpoint import Vocabulary
from albert_tf.interop.convert import WRITERS
from albert_tf.interop.names import LABEL_HEADS
from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer

ARCHITECTURES = {
    "groups": {},
    "equal sizes": {"embedding_size": 8},
    "dropout": {
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
    },
    "one layer": {
        "num_hidden_layers": 1,
        "num_hidden_groups": 1,
        "inner_group_num": 1,
    },
    # Some formats do not support these.
    "relu": {"hidden_act": "relu"},
    "exact GELU": {"hidden_act": "gelu_erf"},
    "two rates": {"hidden_dropout_prob": 0.1},
    "epsilon": {"layer_norm_eps": 1e-6},
    "projected": {"embedding_size": 8, "project_equal_sizes": True},
    "FFN shared": {"sharing": "ffn"},
    "exact GELU, unshared": {"hidden_act": "gelu_erf", "sharing": "none"},
}
GOOGLE_HEADS = (
    "mlm_head",
    "mlm_head sop_head",
    "classifier_head",
    "choice_head",
    "span_head",
    "joint_span_head",
)
HEADS = {
    "huggingface": (
        *GOOGLE_HEADS,
        "pair_head",
        "token_head",
        "mlm_head no_pooler",
    ),
    "google": (*GOOGLE_HEADS, "mlm_head no_pooler"),
    "keras_hub": ("mlm_head", "classifier_head"),
}
# Format -> architecture -> the unsupported setting in the error message.
UNSUPPORTED = {
    "exact GELU": "hidden_act='gelu_erf'",
    "epsilon": "layer_norm_eps=1e-06",
    "FFN shared": "sharing='ffn'",
    "exact GELU, unshared": "hidden_act='gelu_erf', sharing='none'",
}
ERRORS = {
    "google": {
        name: f"Google's code does not support {setting}"
        for name, setting in {
            **UNSUPPORTED,
            "projected": "project_equal_sizes=True",
        }.items()
    },
    "keras_hub": {
        name: f"KerasHub does not support {setting}"
        for name, setting in {
            **UNSUPPORTED,
            "relu": "hidden_act='relu'",
            "two rates": "two dropout rates, hidden 0.1 and attention 0.0",
        }.items()
    },
    "huggingface": {},
}


@pytest.fixture
def write(tmp_path):
    def run(system, checkpoint):
        folder = tmp_path / "written"
        folder.mkdir()
        WRITERS[system][0](checkpoint, folder)
        return folder

    return run


ROUND_TRIPS = [
    *((system, name, "") for system in HEADS for name in ARCHITECTURES),
    *((system, "groups", heads) for system in HEADS for heads in HEADS[system]),
]


@pytest.mark.parametrize(("system", "name", "heads"), ROUND_TRIPS)
def test_round_trip(
    config, make_checkpoint, write, assert_equal, system, name, heads
):
    config = config.replace(**ARCHITECTURES[name])
    heads = set(heads.split())
    pooler, heads = "no_pooler" not in heads, heads - {"no_pooler"}
    labels = 3 if heads & {*LABEL_HEADS} else 1
    checkpoint = make_checkpoint(
        config, *heads, num_labels=labels, pooler=pooler
    )
    if error := ERRORS[system].get(name):
        with pytest.raises(InputError, match=f"^{error}$"):
            write(system, checkpoint)
        return
    # In Google's names, multiple choice looks like a regression.
    head = "choice_head" if "choice_head" in heads else None
    opened = open_checkpoint(write(system, checkpoint), head=head)
    assert opened.config == config
    assert opened.head.num_labels == labels
    assert_equal(opened, checkpoint)


@pytest.mark.parametrize(
    ("system", "heads", "match"),
    [
        ("google", "token_head", "Google's code has no token_head"),
        ("keras_hub", "sop_head", "has no sop_head; drop it"),
        ("keras_hub", "span_head", "has no span_head; drop"),
        ("keras_hub", "choice_head", "has no choice_head"),
        ("google", "pair_head", "Google's code has no pair_head"),
        ("keras_hub", "token_head", "has no token_head"),
        ("keras_hub", "pair_head", "has no pair_head"),
        ("keras_hub", "mlm_head classifier_head", "one head, not mlm_head and"),
        ("keras_hub", "", "needs a pooler"),
    ],
)
def test_heads_that_a_format_does_not_support(
    config, make_checkpoint, write, system, heads, match
):
    checkpoint = make_checkpoint(config, *heads.split(), pooler=bool(heads))
    with pytest.raises(InputError, match=match):
        write(system, checkpoint)


@pytest.mark.parametrize("head", LABEL_HEADS)
def test_one_label_and_names(config, make_checkpoint, write, head):
    checkpoint = make_checkpoint(config, head, num_labels=1)
    opened = open_checkpoint(write("huggingface", checkpoint))
    assert opened.head == checkpoint.head
    assert opened.components == checkpoint.components


@pytest.mark.parametrize("system", HEADS)
def test_the_tokenizer_is_kept(stored, config, make_checkpoint, write, system):
    model = stored / "spiece.model"
    tokenizer = AlbertTokenizer.from_file(model, digit_comma="corrected")
    checkpoint = make_checkpoint(config, vocabulary=Vocabulary(tokenizer))
    opened = open_checkpoint(write(system, checkpoint)).tokenizer
    assert opened.model_bytes == model.read_bytes()
    if system == "huggingface":
        assert opened.settings == tokenizer.settings
    elif system == "google":  # whose code has settings of its own
        assert opened.settings == AlbertTokenizer.from_file(model).settings


def test_wordpiece_vocabularies_are_kept(
    config, make_checkpoint, write, tmp_path
):
    # As in Google's Chinese models.
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "##re", "中"]
    (tmp_path / "vocab_chinese.txt").write_text(
        "\n".join(pieces) + "\n", "utf-8"
    )
    tokenizer = AlbertTokenizer.from_file(tmp_path / "vocab_chinese.txt")
    checkpoint = make_checkpoint(config, vocabulary=Vocabulary(tokenizer))
    for system in ("huggingface", "google"):
        folder = write(system, checkpoint)
        opened = open_checkpoint(folder).tokenizer
        assert opened.tokenize("There 中") == ["the", "##re", "中"]
        assert opened.encode("There 中") == tokenizer.encode("There 中")
        folder.rename(folder.with_name(system))
