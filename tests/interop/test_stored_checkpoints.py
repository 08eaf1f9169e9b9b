"""Stored checkpoints of each system, which every later release must open.

The expected outputs (`*.npz`) were computed by the software that wrote them, by
the scripts in `data/stored`.
"""

import re

import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.finetuning.text_classification.model import AlbertClassifier
from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.models.base import ENCODER_INPUTS
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrainer import AlbertPretrainer

SIZES = {
    "vocab_size": 40,
    "embedding_size": 4,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_hidden_groups": 2,
    "inner_group_num": 2,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 16,
}
GOOGLE = AlbertConfig(
    **SIZES, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.2
)
BOTH_RATES = AlbertConfig(
    **SIZES, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1
)
# One group of one block, three layers.
MODEL_GARDEN = BOTH_RATES.replace(
    num_hidden_groups=1, inner_group_num=1, num_hidden_layers=3
)
PRETRAINING = {"encoder", "projection", "pooler", "mlm_head", "sop_head"}
MASKED_LM = PRETRAINING - {"sop_head"}
CLASSIFIER = {"encoder", "projection", "pooler", "classifier_head"}
BACKBONE = {"encoder", "projection", "pooler"}

# folder or archive -> outputs, config, components, vocabulary size, skipped
STORED = {
    "google_tf1": ("google", GOOGLE, PRETRAINING, 40, "global_step"),
    "google_tf1.tar.gz": ("google", GOOGLE, PRETRAINING, 40, "global_step"),
    "tf_hub_1.tar.gz": ("google", GOOGLE, PRETRAINING, 40, ""),
    "tf_hub_2.tar.gz": ("model_garden", MODEL_GARDEN, MASKED_LM, 40, ""),
    "model_garden": (
        "model_garden",
        MODEL_GARDEN,
        MASKED_LM,
        None,
        "save_counter",
    ),
    "huggingface": ("huggingface", AlbertConfig(**SIZES), PRETRAINING, 40, ""),
    "huggingface_classifier": (
        "torch",
        AlbertConfig(**SIZES, hidden_act="gelu_erf"),
        CLASSIFIER,
        None,
        "",
    ),
    "torch_zip": (
        "torch",
        AlbertConfig(**SIZES, hidden_act="gelu_erf"),
        CLASSIFIER,
        None,
        "",
    ),
    "torch_legacy": (
        "torch",
        AlbertConfig(**SIZES, hidden_act="gelu_erf"),
        CLASSIFIER,
        None,
        "",
    ),
    "keras_hub_backbone.tar.gz": ("keras_hub", BOTH_RATES, BACKBONE, None, ""),
    "keras_hub_masked_lm.tar.gz": (
        "keras_hub",
        BOTH_RATES,
        MASKED_LM,
        None,
        r"task/optimizer/vars/\d",
    ),
    "keras_hub_classifier": (
        "keras_hub",
        BOTH_RATES,
        CLASSIFIER,
        40,
        r"task/optimizer/vars/\d",
    ),
    "albert_tf": ("albert_tf", BOTH_RATES, PRETRAINING, 40, ""),
    "albert_tf_unshared": (
        "albert_tf_unshared",
        BOTH_RATES.replace(num_hidden_groups=1, sharing="ffn"),
        MASKED_LM,
        None,
        "",
    ),
    "albert_tf_run": (
        "albert_tf_run",
        BOTH_RATES.replace(initializer_range=0.3),
        PRETRAINING,
        40,
        r"step|seed|optimizer/.*/adam_[mv]",
    ),
    "albert_tf_export.tar.gz": (
        "albert_tf",
        BOTH_RATES,
        PRETRAINING,
        40,
        "(mlm/|sop/)?save_counter|Variable",
    ),
}
# KerasHub's MLM head has another LayerNorm epsilon than
# ours (docs/checkpoints.md).
TOLERANCE = {"keras_hub_masked_lm.tar.gz": {"mlm_logits": 5e-4}}


# PyTorch reads its own formats; `make test` runs without it.
NAMES = [
    pytest.param(
        name, marks=pytest.mark.peer if name.startswith("torch_") else ()
    )
    for name in STORED
]


@pytest.mark.parametrize("name", NAMES)
def test_opens_completely(stored, name):
    _, config, parts, pieces, left = STORED[name]
    checkpoint = open_checkpoint(stored / name)
    assert checkpoint.config == config
    assert checkpoint.components == parts
    assert all(re.fullmatch(left, tensor) for tensor in checkpoint.skipped)
    assert bool(checkpoint.skipped) == bool(left)
    tokenizer = checkpoint.tokenizer
    assert (tokenizer and tokenizer.vocab_size) == pieces
    assert checkpoint.source.startswith(str(stored / name))
    for array in checkpoint.arrays.values():
        assert array.dtype == np.float32
        assert np.isfinite(array).all()


@pytest.mark.parametrize("name", NAMES)
def test_outputs_equal_those_of_the_writer(stored, name):
    outputs_file, _, parts, _, _ = STORED[name]
    expected = dict(np.load(stored / f"{outputs_file}.npz"))
    batch = {k: v for k, v in expected.items() if v.dtype == np.int32}
    texts = {k: batch[k] for k in ENCODER_INPUTS}
    if "classifier_head" in parts:
        model = AlbertClassifier.from_pretrained(stored / name)
        actual = {"logits": model(texts), **model.encoder(texts)}
    elif "mlm_head" in parts:
        model = AlbertPretrainer.from_pretrained(
            stored / name, sop_head="sop_head" in parts
        )
        actual = {**model.encoder(texts), **model(batch)}
    else:
        actual = AlbertEncoder.from_pretrained(stored / name)(texts)
    for output in set(expected) - set(batch):
        if output not in actual:
            # An output of another head, with the same encoder.
            assert outputs_file == "keras_hub"
            continue
        np.testing.assert_allclose(
            np.asarray(actual[output]),
            expected[output],
            rtol=0,
            atol=TOLERANCE.get(name, {}).get(output, 2e-5),
            err_msg=output,
        )
    assert set(actual) - set(expected) <= {"encoder_outputs", "pooled_output"}


def test_tokenizers_keep_their_settings(stored):
    def settings(name):
        return open_checkpoint(stored / name).tokenizer.settings

    google = settings("google_tf1")
    assert (google["do_lower_case"], google["digit_comma"]) == (True, "google")
    assert settings("tf_hub_1.tar.gz") == google
    assert settings("tf_hub_2.tar.gz") == google
    assert settings("albert_tf_export.tar.gz") == google
    assert not settings("huggingface")["do_lower_case"]
    assert not settings("keras_hub_classifier")["do_lower_case"]
    assert settings("albert_tf") == google | {"digit_comma": "corrected"}
    assert settings("albert_tf_run") == google | {"digit_comma": "corrected"}
