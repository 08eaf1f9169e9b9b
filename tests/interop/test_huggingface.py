import json
import shutil

import pytest
import safetensors.numpy

from albert_tf.errors import InputError
from albert_tf.interop.convert import convert
from albert_tf.interop.convert_config import ConvertConfig
from albert_tf.interop.huggingface import (
    architecture,
    find_weights,
    write_huggingface,
)
from albert_tf.interop.names import LABEL_HEADS
from albert_tf.interop.open_checkpoint import open_checkpoint

FIRST = "albert.embeddings.word_embeddings.weight"


@pytest.fixture
def folder(copied):
    """A small checkpoint of transformers."""
    return copied("huggingface")


def tensors(folder):
    return safetensors.numpy.load_file(folder / "model.safetensors")


def save(folder, tensors, name="model.safetensors"):
    safetensors.numpy.save_file(tensors, folder / name)


@pytest.mark.parametrize(
    ("heads", "name"),
    [
        ((), "AlbertModel"),
        (("mlm_head",), "AlbertForMaskedLM"),
        (("mlm_head", "sop_head"), "AlbertForPreTraining"),
        (("classifier_head", "mlm_head"), "AlbertForSequenceClassification"),
        (("pair_head",), "AlbertForPairClassification"),
        (("token_head",), "AlbertForTokenClassification"),
        (("choice_head",), "AlbertForMultipleChoice"),
        (("span_head",), "AlbertForQuestionAnswering"),
        (("joint_span_head",), "AlbertForJointSpan"),
    ],
)
def test_architecture(config, make_checkpoint, tmp_path, heads, name):
    assert architecture({"encoder", *heads}) == name
    write_huggingface(make_checkpoint(config, *heads), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["architectures"] == [name]
    # One label is a regression.
    labelled = {*heads} & {*LABEL_HEADS}
    assert config.get("problem_type") == ("regression" if labelled else None)
    # Only AlbertModel has no prefix.
    has_prefix = FIRST in tensors(tmp_path)
    assert has_prefix == (name != "AlbertModel")


def test_unshared_models_are_not_for_transformers(
    config, make_checkpoint, tmp_path
):
    unshared = config.replace(sharing="none")
    write_huggingface(make_checkpoint(unshared), tmp_path)
    values = json.loads((tmp_path / "config.json").read_text())
    assert values["model_type"] == "albert_tf"
    with safetensors.safe_open(tmp_path / "model.safetensors", "np") as file:
        assert file.metadata()["format"] == "albert_tf"


def test_a_declared_head_must_be_there(folder, edited, tmp_path):
    with edited(folder / "config.json") as config:
        config["architectures"] = ["AlbertForQuestionAnswering"]
    # It opens, but cannot be converted completely.
    opened = open_checkpoint(folder)
    assert opened.missing_head == "span_head"
    assert "missing: span_head, declared in the config" in opened.report()
    message = r"declares a span_head, but .*--drop=span_head to"
    with pytest.raises(InputError, match=message):
        convert(ConvertConfig(input=folder, output=tmp_path / "out"))
    convert(
        ConvertConfig(input=folder, output=tmp_path / "out", drop=["span_head"])
    )
    with edited(folder / "config.json") as config:
        config["architectures"] = ["AlbertModel"]
    opened = open_checkpoint(folder)
    assert opened.heads == ("mlm_head", "sop_head")
    assert opened.missing_head is None


def test_an_undeclared_head_must_be_chosen(copied, edited, tmp_path):
    folder = copied("huggingface_classifier")
    with edited(folder / "config.json") as config:
        del config["architectures"], config["id2label"]
    message = "classifier.weight may belong to a classifier_head or a token_he"
    with pytest.raises(InputError, match=message):
        open_checkpoint(folder)
    heads = {"classifier": "classifier_head", "token_classifier": "token_head"}
    for name, head in heads.items():
        checkpoint = open_checkpoint(folder, head=head)
        assert checkpoint.heads == (head,)
        assert checkpoint.head.num_labels == 3
        assert checkpoint.head.labels is None
        convert(ConvertConfig(input=folder, output=tmp_path / head, head=name))
        assert open_checkpoint(tmp_path / head).heads == (head,)
    config = ConvertConfig(
        input=copied("huggingface"), output=tmp_path / "new", head="classifier"
    )
    with pytest.raises(InputError, match="head: .* no classifier_head; it has"):
        convert(config)


def test_labels_of_another_count_are_ignored(copied, edited):
    folder = copied("huggingface_classifier")
    with edited(folder / "config.json") as config:
        config["id2label"] = {"0": "no", "1": "yes"}
    head = open_checkpoint(folder).head
    assert (head.num_labels, head.labels) == (3, None)


def test_order_of_preference_of_weights(folder, tmp_path):
    assert find_weights(folder).name == "model.safetensors"
    (folder / "pytorch_model.bin").write_bytes(b"")
    assert find_weights(folder).name == "model.safetensors"
    (folder / "model.safetensors").unlink()
    assert find_weights(folder).name == "pytorch_model.bin"
    (folder / "pytorch_model.bin").rename(folder / "mine.bin")
    (folder / "training_args.bin").write_bytes(b"")
    assert find_weights(folder).name == "mine.bin"
    (folder / "other.safetensors").write_bytes(b"")
    assert find_weights(folder) is None


def shard(folder, parts=3):
    arrays = tensors(folder)
    (folder / "model.safetensors").unlink()
    listed = {}
    for part in range(parts):
        name = f"model-{part + 1:05}-of-{parts:05}.safetensors"
        names = sorted(arrays)[part::parts]
        save(folder, {n: arrays[n] for n in names}, name)
        listed |= dict.fromkeys(names, name)
    index = {"metadata": {"total_size": 1}, "weight_map": listed}
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps(index))
    return path, listed


def test_sharded_weights(folder, assert_equal, stored):
    path, _ = shard(folder)
    expected = open_checkpoint(stored / "huggingface")
    assert_equal(open_checkpoint(folder), expected)
    assert_equal(open_checkpoint(path), expected)


def test_incomplete_sharded_weights(folder):
    path, listed = shard(folder)
    second = folder / "model-00002-of-00003.safetensors"
    content = second.read_bytes()
    second.unlink()
    with pytest.raises(InputError, match="00002-of-00003.*, which is missing"):
        open_checkpoint(folder)
    second.write_bytes(content[:-8])
    with pytest.raises(InputError, match="00002-of-00003.safetensors: .*incom"):
        open_checkpoint(folder)
    second.write_bytes(content)
    for weight_map, match in [
        ({**listed, "extra": second.name}, "lists extra, which is in no file"),
        ({**listed, FIRST: "../x.safetensors"}, "outside of its folder"),
        ({}, "lists no weights"),
        (None, "lists no weights"),
    ]:
        path.write_text(json.dumps({"weight_map": weight_map}))
        with pytest.raises(InputError, match=match):
            open_checkpoint(folder)
    shutil.copy(second, folder / "copy.safetensors")
    weight_map = {**listed, "copy": "copy.safetensors"}
    path.write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(InputError, match="is in two files"):
        open_checkpoint(folder)
