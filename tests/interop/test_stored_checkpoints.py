"""Stored checkpoints of each system, which every later release must open.

The expected outputs (`*.npz`) were computed by the software that wrote them,
see `data/stored/README.md`.
"""

import json
import pathlib
import re
import runpy

import h5py
import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.finetuning.text_classification.model import AlbertClassifier
from albert_tf.interop.convert import WRITERS
from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.text.packing import ENCODER_INPUTS
from albert_tf.training.checkpoint_files import read_checkpoint

EXAMPLE = pathlib.Path(__file__).parent / "data" / "stored" / "example.py"
SIZES = runpy.run_path(str(EXAMPLE))["SIZES"]
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
EXACT = AlbertConfig(**SIZES, hidden_act="gelu_erf")
BACKBONE = {"encoder", "projection", "pooler"}
PRETRAINING = BACKBONE | {"mlm_head", "sop_head"}
MASKED_LM = BACKBONE | {"mlm_head"}
CLASSIFIER = BACKBONE | {"classifier_head"}
KERAS_HUB_LEFT = r"task/optimizer/vars/\d"

# folder or archive -> format, outputs, config, components, vocabulary, skipped
# fmt: off
STORED = {
    "google_tf1": (
        "Google TF1", "google", GOOGLE, PRETRAINING, 40, "global_step"),
    "google_tf1.tar.gz": (
        "Google TF1", "google", GOOGLE, PRETRAINING, 40, "global_step"),
    "tf_hub_1.tar.gz": (
        "TF-Hub module of TF1", "google", GOOGLE, PRETRAINING, 40, ""),
    "tf_hub_2.tar.gz": (
        "TF-Hub SavedModel of Model Garden", "model_garden", MODEL_GARDEN,
        MASKED_LM, 40, ""),
    "model_garden": (
        "Model Garden TF2", "model_garden", MODEL_GARDEN, MASKED_LM, None,
        "save_counter"),
    "huggingface": (
        "Hugging Face, safetensors", "huggingface", AlbertConfig(**SIZES),
        PRETRAINING, 40, ""),
    "huggingface_classifier": (
        "Hugging Face, safetensors", "torch", EXACT, CLASSIFIER, None, ""),
    "torch_zip": (
        "Hugging Face, torch_zip", "torch", EXACT, CLASSIFIER, None, ""),
    "torch_legacy": (
        "Hugging Face, torch_legacy", "torch", EXACT, CLASSIFIER, None, ""),
    "keras_hub_backbone.tar.gz": (
        "KerasHub", "keras_hub", BOTH_RATES, BACKBONE, None, ""),
    "keras_hub_masked_lm.tar.gz": (
        "KerasHub", "keras_hub", BOTH_RATES, MASKED_LM, None, KERAS_HUB_LEFT),
    "keras_hub_classifier": (
        "KerasHub", "keras_hub", BOTH_RATES, CLASSIFIER, 40, KERAS_HUB_LEFT),
    "albert_tf": (
        "Hugging Face, safetensors", "albert_tf", BOTH_RATES, PRETRAINING, 40,
        ""),
    "albert_tf_unshared": (
        "Hugging Face, safetensors", "albert_tf_unshared",
        BOTH_RATES.replace(num_hidden_groups=1, sharing="ffn"), MASKED_LM,
        None, ""),
    "albert_tf_run": (
        "training run of albert_tf", "albert_tf_run",
        BOTH_RATES.replace(initializer_range=0.3), PRETRAINING, 40,
        r"step|seed|optimizer/.*/adam_[mv]"),
    "albert_tf_export.tar.gz": (
        "SavedModel of albert_tf", "albert_tf", BOTH_RATES, PRETRAINING, 40,
        "(mlm/|sop/)?save_counter|Variable"),
}
# fmt: on
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
    form, _, config, parts, pieces, left = STORED[name]
    checkpoint = open_checkpoint(stored / name)
    assert checkpoint.format == form
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
    _, outputs_file, _, parts, _, _ = STORED[name]
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


PATHS = {
    "google_tf1": (
        "model.ckpt-best",
        "model.ckpt-best.index",
        "model.ckpt-best.data-00000-of-00001",
    ),
    "huggingface": ("model.safetensors",),
    "keras_hub_classifier": ("model.weights.h5", "task.weights.h5"),
    "albert_tf_run": (
        "checkpoints/step-00000002",
        "checkpoints/step-00000002.index",
        "checkpoints/step-00000002.data-00000-of-00001",
    ),
}


@pytest.mark.parametrize(
    ("name", "file"), [(name, file) for name in PATHS for file in PATHS[name]]
)
def test_opens_by_each_of_its_paths(stored, assert_equal, name, file):
    opened = open_checkpoint(stored / name / file)
    expected = open_checkpoint(stored / name)
    assert_equal(opened, expected)
    assert opened.config == expected.config
    assert opened.format == expected.format


NEWER = "step-00000010"


def test_a_run_opens_by_its_newest_checkpoint(copied):
    run = copied("albert_tf_run")
    older = run / "checkpoints" / "step-00000002"
    # The variables that training restores.
    saved = read_checkpoint(older)
    checkpoint = open_checkpoint(run)
    for path, value in checkpoint.arrays.items():
        np.testing.assert_array_equal(value, saved.pop(f"model/{path}"))
    assert set(checkpoint.skipped) == set(saved)
    for path in older.parent.glob("step-00000002.*"):
        newer = path.with_name(path.name.replace("step-00000002", NEWER))
        newer.write_bytes(path.read_bytes())
    assert open_checkpoint(run).source == str(older.with_name(NEWER))
    assert open_checkpoint(older).source == str(older)


def tensors_in(source):
    """Returns name -> array, of a folder or prefix, by other readers."""
    found = {}
    files = [source.with_name(f"{source.name}.index")]
    if source.is_dir():
        files = source.iterdir()

    def visit(name, item):
        if isinstance(item, h5py.Dataset):
            found[name] = item[()]

    for path in files:
        if path.suffix == ".safetensors":
            found |= safetensors.numpy.load_file(path)
        elif path.suffix == ".h5":
            with h5py.File(path) as file:
                file.visititems(visit)
        elif path.suffix == ".index":
            reader = tf.train.load_checkpoint(str(path.with_suffix("")))
            found |= {
                name: reader.get_tensor(name)
                for name in reader.get_variable_to_shape_map()
            }
    return found


GOLDEN = ("a_base", "b_groups2_inner2", "c_no_projection", "d_relu")
HEADS = {
    "classifier": "classifier_head",
    "stsb": "classifier_head",
    "race": "choice_head",
    "squad_v1": "span_head",
    "squad_v2": "joint_span_head",
}


@pytest.mark.parametrize(
    ("name", "to"),
    [
        ("huggingface", "huggingface"),
        ("huggingface_classifier", "huggingface"),
        ("keras_hub_classifier", "keras_hub"),
        ("google_tf1", "google"),
        *((f"model {case} model.ckpt-best", "google") for case in GOLDEN),
        *((f"heads {task} model.ckpt", "google") for task in HEADS),
    ],
)
def test_what_is_written_again_is_the_same(stored, shared, tmp_path, name, to):
    source, head, config = stored / name, None, None
    if " " in name:
        kind, case, prefix = name.split()
        source = shared("golden", "google", kind, case) / prefix
        base = shared("golden", "google", "model", "a_base")
        if kind == "heads":
            head = HEADS[case]
            config = AlbertConfig.from_json(base / "albert_config.json")
    checkpoint = open_checkpoint(source, head=head, config=config)
    assert head is None or checkpoint.heads == (head,)
    WRITERS[to][0](checkpoint, tmp_path)
    written, expected = tensors_in(tmp_path), tensors_in(source)
    of_training = {k for k in expected if k.startswith(("optimizer", "global"))}
    assert set(written) - {"global_step"} == set(expected) - of_training
    for key in set(written) & set(expected):
        assert written[key].dtype == expected[key].dtype
        np.testing.assert_array_equal(written[key], expected[key], key)
    if to == "huggingface":
        config, theirs = (
            json.loads((folder / "config.json").read_text())
            for folder in (tmp_path, source)
        )
        del theirs["transformers_version"]
        assert config == theirs
    elif to == "google":
        assert AlbertConfig.from_json(tmp_path / "albert_config.json") == (
            checkpoint.config
        )
