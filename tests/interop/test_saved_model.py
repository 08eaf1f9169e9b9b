import json
import shutil

import pytest

from albert_tf.errors import InputError
from albert_tf.interop.archive import UnpackedArchive
from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.pipelines.sentence_embedder import SentenceEmbedder


@pytest.fixture
def unpacked(stored, tmp_path):
    """Returns `unpack(name)`: a copy of a stored SavedModel."""

    def unpack(name):
        archive = UnpackedArchive(stored / f"{name}.tar.gz")
        return shutil.copytree(archive.folder, tmp_path / name)

    return unpack


def test_config_is_inferred_from_the_graph(unpacked):
    folder = unpacked("tf_hub_1")
    expected = open_checkpoint(folder).config
    (folder / "assets" / "albert_config.json").unlink()
    checkpoint = open_checkpoint(folder)
    assert checkpoint.config == expected
    assert checkpoint.notes == (
        "config: inferred from the weights' shapes and the graph",
    )


def test_the_graph_of_a_module_corrects_the_heads(unpacked):
    folder = unpacked("tf_hub_1")
    path = folder / "assets" / "albert_config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {"num_attention_heads": 4}))
    checkpoint = open_checkpoint(folder)
    assert checkpoint.config.num_attention_heads == 2
    assert checkpoint.notes == (
        "num_attention_heads=2 according to the graph; albert_config.json "
        "says 4",
    )


def test_overrides_and_config_argument(unpacked):
    folder = unpacked("tf_hub_2")
    overrides = {"hidden_dropout_prob": 0.0, "num_hidden_layers": 5}
    config = open_checkpoint(folder, config_overrides=overrides).config
    assert (config.hidden_dropout_prob, config.num_hidden_layers) == (0.0, 5)
    given = config.replace(num_hidden_layers=7)
    assert open_checkpoint(folder, config=given).config == given


@pytest.mark.parametrize("lower", [True, False])
def test_exports_keep_the_case_setting(unpacked, edited, lower):
    folder = unpacked("albert_tf_export")
    with edited(folder / "export.json") as manifest:
        assert manifest["tokenizer"]["do_lower_case"] is True
        manifest["tokenizer"]["do_lower_case"] = lower
    checkpoint = open_checkpoint(folder / "saved_model.pb")
    assert checkpoint.source == str(folder)
    assert checkpoint.tokenizer.settings["do_lower_case"] is lower


def test_exports_keep_all_settings_of_the_tokenizer(unpacked, edited):
    folder = unpacked("albert_tf_export")
    settings = {
        "strip_accents": False,
        "digit_comma": "off",
        "match_special_tokens": True,
    }
    with edited(folder / "export.json") as manifest:
        manifest["tokenizer"] |= settings
    found = open_checkpoint(folder).tokenizer.settings
    assert {name: found[name] for name in settings} == settings
    with edited(folder / "export.json") as manifest:
        manifest["tokenizer"]["strip_accents"] = [1]
    with pytest.raises(InputError, match="strip_accents'.*must be"):
        open_checkpoint(folder)


def test_what_an_export_of_a_task_says_is_kept(unpacked, edited):
    folder = unpacked("albert_tf_export")
    with edited(folder / "export.json") as manifest:
        manifest["task"] = {
            "task_type": "embedding",
            "labels": ["good"],
            "settings": {"max_seq_length": 7},
        }
    checkpoint = open_checkpoint(folder)
    assert checkpoint.head.labels == ("good",)
    assert checkpoint.notes[-1].startswith("task: not read")
    assert checkpoint.max_seq_length == 7
    assert SentenceEmbedder(folder).max_length == 7
    with edited(folder / "export.json") as manifest:
        manifest["task"]["labels"] = [3]
    with pytest.raises(InputError, match=r"export\.json: labels"):
        open_checkpoint(folder)


def test_a_preprocessor_is_not_a_checkpoint(unpacked):
    folder = unpacked("tf_hub_2_preprocessor")
    shutil.rmtree(folder / "variables")  # Ours has no variables.
    with pytest.raises(InputError, match=f"{folder} is a SavedModel without"):
        open_checkpoint(folder)


def test_a_saved_model_of_another_architecture(tmp_path):
    import tensorflow as tf

    module = tf.Module()
    module.kernel = tf.Variable([1.0], name="dense/kernel")
    tf.saved_model.save(module, str(tmp_path / "other"))
    message = r"not of a known ALBERT \(its variables: dense/kernel"
    with pytest.raises(InputError, match=message):
        open_checkpoint(tmp_path / "other")


def test_incomplete_saved_models(unpacked):
    folder = unpacked("tf_hub_1")
    data = folder / "variables" / "variables.data-00000-of-00001"
    content = data.read_bytes()
    data.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match="is not a TensorFlow checkpoint, or"):
        dict(open_checkpoint(folder).arrays)
    (folder / "variables" / "variables.index").unlink()
    with pytest.raises(InputError, match="is a SavedModel without variables/"):
        open_checkpoint(folder)


@pytest.mark.parametrize(
    "text", ["{}", '{"config": 3}', "<html>", '[{"a": 1}]']
)
def test_a_damaged_manifest_is_an_error(unpacked, text):
    folder = unpacked("albert_tf_export")
    (folder / "export.json").write_text(text)
    with pytest.raises(InputError, match=r"export\.json"):
        open_checkpoint(folder)
