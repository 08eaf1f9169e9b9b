"""What people have from transformers, as `from_pretrained` opens it."""

import itertools
import json

import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.text_classification.model import AlbertClassifier
from albert_tf.interop.convert import convert
from albert_tf.interop.convert_config import ConvertConfig
from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrainer import AlbertPretrainer

pytestmark = pytest.mark.peer


def test_same_outputs(config, pair, hf, random_batch, tmp_path):
    theirs = hf.model(pair.theirs, config, **pair.settings)
    theirs.save_pretrained(tmp_path)
    ours = pair.ours.from_pretrained(tmp_path, **pair.opening)
    assert ours.config == config
    assert open_checkpoint(tmp_path).heads == pair.heads
    hf.assert_same(ours, theirs, random_batch(config))


@pytest.mark.parametrize("how", ["save_pretrained", "convert"])
def test_there_and_back_is_bit_equal(config, pair, how, hf, tmp_path):
    theirs = hf.model(pair.theirs, config, **pair.settings)
    theirs.save_pretrained(tmp_path / "theirs")
    if how == "convert":
        convert(
            ConvertConfig(input=tmp_path / "theirs", output=tmp_path / "ours")
        )
    else:
        pair.ours.from_pretrained(
            tmp_path / "theirs", **pair.opening
        ).save_pretrained(tmp_path / "ours")
    back = hf.open(pair.theirs, tmp_path / "ours")
    hf.assert_same_tensors(back.state_dict(), theirs.state_dict())
    hf.assert_same_tensors(
        hf.tensors(tmp_path / "ours"), hf.tensors(tmp_path / "theirs")
    )
    assert _config(hf, tmp_path / "ours") == _config(hf, tmp_path / "theirs")


def test_every_key_of_the_architecture_matters_and_comes_back(
    configs, hf, random_batch, tmp_path
):
    config = configs["groups"].replace(
        hidden_act="relu",
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.2,
        type_vocab_size=3,
        initializer_range=0.05,
        layer_norm_eps=0.01,
    )
    theirs = hf.model("AlbertModel", config)
    theirs.save_pretrained(tmp_path / "theirs")
    ours = AlbertEncoder.from_pretrained(tmp_path / "theirs")
    assert ours.config == config
    hf.assert_same(ours, theirs, random_batch(config))
    ours.save_pretrained(tmp_path / "ours")
    assert _config(hf, tmp_path / "ours") == _config(hf, tmp_path / "theirs")


def _config(hf, folder):
    return hf.transformers.AlbertConfig.from_pretrained(folder).to_dict()


def test_a_head_is_not_taken_for_another(configs, hf, tmp_path):
    # One output, called `classifier.weight`, in both.
    theirs = hf.model("AlbertForMultipleChoice", configs["base"])
    theirs.save_pretrained(tmp_path)
    with pytest.raises(InputError, match="has no head for an AlbertClassi"):
        AlbertClassifier.from_pretrained(tmp_path)


def _zip(model, folder):
    _save(model.state_dict(), folder)


def _legacy(model, folder):
    _save(model.state_dict(), folder, _use_new_zipfile_serialization=False)


def _parameters(model, folder):
    _save(dict(model.named_parameters()), folder)


def _sharded(model, folder):
    model.save_pretrained(folder, max_shard_size="20KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 2


def _sharded_zip(model, folder):
    """The layout of transformers 4 for a large `pytorch_model.bin`."""
    state = model.state_dict()
    names = [f"pytorch_model-0000{i}-of-00002.bin" for i in (1, 2)]
    owner = dict(zip(state, itertools.cycle(names), strict=False))
    for name in names:
        _save(
            {k: v for k, v in state.items() if owner[k] == name}, folder, name
        )
    path = folder / "pytorch_model.bin.index.json"
    path.write_text(json.dumps({"metadata": {}, "weight_map": owner}), "utf-8")


def _no_prefix(model, folder):
    state = model.state_dict()
    _save({k.removeprefix("albert."): v for k, v in state.items()}, folder)


def _module_prefix(model, folder):
    state = model.state_dict()
    _save({f"module.{k}": v for k, v in state.items()}, folder)


def _model_prefix(model, folder):
    """A safetensors file of a part of a larger model; ties are left out."""
    import safetensors.torch
    import torch

    safetensors.torch.save_model(
        torch.nn.ModuleDict({"model": model}), folder / "model.safetensors"
    )


def _save(state, folder, name="pytorch_model.bin", **arguments):
    import torch

    torch.save(state, folder / name, **arguments)


@pytest.mark.parametrize(
    "write",
    [
        _zip,
        _legacy,
        _parameters,
        _sharded,
        _sharded_zip,
        _no_prefix,
        _module_prefix,
        _model_prefix,
    ],
)
def test_every_kind_of_file_opens(configs, write, hf, tmp_path):
    theirs = hf.model("AlbertForPreTraining", configs["groups"])
    theirs.save_pretrained(tmp_path / "plain")
    folder = tmp_path / "written"
    folder.mkdir()
    write(theirs, folder)
    config = (tmp_path / "plain" / "config.json").read_bytes()
    (folder / "config.json").write_bytes(config)
    AlbertPretrainer.from_pretrained(folder).save_pretrained(tmp_path / "ours")
    hf.assert_same_tensors(
        hf.tensors(tmp_path / "ours"), hf.tensors(tmp_path / "plain")
    )


@pytest.mark.parametrize("file", ["model.safetensors", "pytorch_model.bin"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_opens_as_float32(
    configs, dtype, file, hf, random_batch, tmp_path
):
    import torch

    config = configs["groups"]
    theirs = hf.model("AlbertForPreTraining", config)
    theirs.to(getattr(torch, dtype)).save_pretrained(tmp_path)
    assert hf.tensors(tmp_path)["predictions.bias"].dtype != torch.float32
    if file == "pytorch_model.bin":
        (tmp_path / "model.safetensors").unlink()
        torch.save(theirs.state_dict(), tmp_path / file)
    ours = AlbertPretrainer.from_pretrained(tmp_path)
    hf.assert_same(ours, theirs.float(), random_batch(config))
    ours.save_pretrained(tmp_path / "ours")
    back = hf.open("AlbertForPreTraining", tmp_path / "ours")
    hf.assert_same_tensors(back.state_dict(), theirs.state_dict())
