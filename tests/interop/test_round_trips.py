"""Ours -> another system's format -> ours: the same, bit for bit."""

import pytest

from albert_tf.errors import InputError
from albert_tf.interop.checkpoint import Vocabulary
from albert_tf.interop.convert import WRITERS
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
    # Some formats cannot express these.
    "relu": {"hidden_act": "relu"},
    "exact GELU": {"hidden_act": "gelu_erf"},
    "two rates": {"hidden_dropout_prob": 0.1},
    "epsilon": {"layer_norm_eps": 1e-6},
    "projected": {"embedding_size": 8, "project_equal_sizes": True},
    "FFN shared": {"sharing": "ffn"},
}
HEADS = {
    "huggingface": [
        (),
        ("mlm_head",),
        ("mlm_head", "sop_head"),
        ("classifier_head",),
        ("choice_head",),
        ("token_head",),
        ("span_head",),
        ("joint_span_head",),
    ],
    "google": [
        (),
        ("mlm_head",),
        ("mlm_head", "sop_head"),
        ("classifier_head",),
        ("choice_head",),
        ("span_head",),
        ("joint_span_head",),
    ],
    "keras_hub": [(), ("mlm_head",), ("classifier_head",)],
}
REFUSED = {
    "google": {"exact GELU", "epsilon", "projected", "FFN shared"},
    "keras_hub": {
        "relu",
        "exact GELU",
        "two rates",
        "epsilon",
        "FFN shared",
    },
    "huggingface": set(),
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
    *((system, name, ()) for system in HEADS for name in ARCHITECTURES),
    *(
        (system, "groups", heads)
        for system in HEADS
        for heads in HEADS[system][1:]
    ),
    ("huggingface", "groups", ("mlm_head", "no pooler")),
    ("google", "groups", ("mlm_head", "no pooler")),
]


@pytest.mark.parametrize(
    ("system", "name", "heads"),
    ROUND_TRIPS,
    ids=lambda value: value if isinstance(value, str) else "+".join(value),
)
def test_round_trip(
    config, make_checkpoint, write, assert_equal, system, name, heads
):
    config = config.replace(**ARCHITECTURES[name])
    pooler, heads = "no pooler" not in heads, set(heads) - {"no pooler"}
    labels = 3 if heads & {"classifier_head", "token_head"} else 1
    checkpoint = make_checkpoint(
        config, *heads, num_labels=labels, pooler=pooler
    )
    if name in REFUSED[system]:
        with pytest.raises(InputError, match="cannot express"):
            write(system, checkpoint)
        return
    # Google's names do not distinguish multiple choice from a regression.
    head = "choice_head" if "choice_head" in heads else None
    opened = open_checkpoint(write(system, checkpoint), head=head)
    assert opened.config == config
    assert opened.head.num_labels == labels
    assert_equal(opened, checkpoint)


@pytest.mark.parametrize(
    ("system", "heads", "pooler", "match"),
    [
        (
            "google",
            ("token_head",),
            True,
            "Google's code has no token classifi",
        ),
        (
            "keras_hub",
            ("sop_head",),
            True,
            "has no sop_head; drop it",
        ),
        ("keras_hub", ("span_head",), True, "has no span_head; drop"),
        ("keras_hub", ("choice_head",), True, "has no choice_head"),
        ("keras_hub", ("token_head",), True, "has no token_head"),
        (
            "keras_hub",
            ("mlm_head", "classifier_head"),
            True,
            "one head, not mlm_head and classifier_head",
        ),
        ("keras_hub", ("mlm_head",), False, "needs a pooler"),
    ],
)
def test_heads_that_a_format_cannot_express(
    config, make_checkpoint, write, system, heads, pooler, match
):
    checkpoint = make_checkpoint(config, *heads, pooler=pooler)
    with pytest.raises(InputError, match=match):
        write(system, checkpoint)


@pytest.mark.parametrize("heads", [("classifier_head",), ("token_head",)])
def test_one_label_and_names(config, make_checkpoint, write, heads):
    checkpoint = make_checkpoint(config, *heads, num_labels=1)
    opened = open_checkpoint(write("huggingface", checkpoint))
    assert opened.head == checkpoint.head
    assert opened.components == checkpoint.components


@pytest.mark.parametrize("system", HEADS)
def test_the_tokenizer_travels(stored, config, make_checkpoint, write, system):
    model = stored / "spiece.model"
    tokenizer = AlbertTokenizer.from_file(model, digit_comma="corrected")
    checkpoint = make_checkpoint(config, vocabulary=Vocabulary(tokenizer))
    opened = open_checkpoint(write(system, checkpoint)).tokenizer
    assert opened.model_bytes == model.read_bytes()
    if system == "huggingface":
        assert opened.settings == tokenizer.settings
    elif system == "google":  # whose code has settings of its own
        assert opened.settings == AlbertTokenizer.from_file(model).settings


def test_a_wordpiece_vocabulary_travels(
    config, make_checkpoint, write, tmp_path
):
    # As Google's Chinese models have it.
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
