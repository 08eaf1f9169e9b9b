"""Settings in folders of sentence-transformers."""

import json
import math

import numpy as np
import pytest
import safetensors.numpy

from albert_tf.errors import InputError
from albert_tf.interop.sentence_transformers import (
    check_case,
    read_max_length,
    read_pooling,
    read_token_weights,
    settings_files,
)

TRANSFORMER = {"type": "sentence_transformers.models.Transformer", "path": ""}
POOLING = {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}
WEIGHTS = {"type": "x.WordWeights", "path": "3_WordWeights"}
DENSE = {"type": "sentence_transformers.models.Dense", "path": "2_Dense"}


CLS = {"pooling": "cls", "normalize": True, "max_length": 9}


def write(folder, files):
    """Writes the files of `settings_files`."""
    for path, content in files.items():
        (folder / path).parent.mkdir(exist_ok=True)
        content = content.encode() if isinstance(content, str) else content
        (folder / path).write_bytes(content)


@pytest.fixture
def make(tmp_path):
    """Returns `make(pooling, modules)`: a folder with these settings."""

    def make(pooling, modules=(TRANSFORMER, POOLING)):
        (tmp_path / "1_Pooling").mkdir()
        (tmp_path / "1_Pooling/config.json").write_text(json.dumps(pooling))
        (tmp_path / "modules.json").write_text(json.dumps(modules))
        return tmp_path

    return make


@pytest.mark.parametrize(
    ("config", "pooling"),
    [
        ({"pooling_mode": "cls", "embedding_dimension": 8}, "cls"),
        ({"pooling_mode": ["mean"]}, "mean"),
        (
            {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True},
            "mean",
        ),
    ],
)
def test_pooling(make, config, pooling):
    assert read_pooling(make(config)) == pooling


@pytest.mark.parametrize(
    ("config", "modules", "message"),
    [
        ({"pooling_mode": "max"}, [POOLING], "'max' is not supported, only"),
        ({"pooling_mode": ["cls", "mean"]}, [POOLING], "'cls', 'mean' is not"),
        ({"pooling_mode": {}}, [POOLING], "{} is not supported"),
        (
            {"pooling_mode_mean_sqrt_len_tokens": True},
            [POOLING],
            "'pooling_mode_mean_sqrt_len_tokens' is not",
        ),
        ({"pooling_mode": "cls"}, [POOLING, DENSE], "'cls', 'Dense' is not"),
        (
            {"pooling_mode": "cls"},
            [WEIGHTS, POOLING],
            "'cls', 'WordWeights' is",
        ),
        ({"pooling_mode": "weighted_mean"}, [POOLING], "'weighted_mean' is"),
        ({"pooling_mode": "mean"}, [POOLING, WEIGHTS], "'WordWeights' is not"),
        ({"pooling_mode": "cls"}, [TRANSFORMER], "no pooling is not supported"),
        ({}, [{**POOLING, "path": "../1"}], "names '../1', not a folder"),
        ({}, [{**POOLING, "path": ".."}], "names '..', not a folder"),
        ({}, [{**POOLING, "path": 1}], "must be"),
        ({}, {}, "must be"),
        ({}, [{**POOLING, "path": "x"}], "x/config.json"),
    ],
)
def test_other_models_are_refused(make, config, modules, message):
    folder = make(config, modules)
    with pytest.raises(InputError) as error:
        read_pooling(folder)
    assert message in str(error.value)


def test_default_prompt_is_refused(make):
    folder = make({"pooling_mode": "cls"})
    values = {"prompts": {"query": "query: "}, "default_prompt_name": "query"}
    path = folder / "config_sentence_transformers.json"
    path.write_text(json.dumps(values))
    # Commands without --pooling open what remains.
    message = "'default_prompt_name=query' is not .* `albert convert --drop=po"
    with pytest.raises(InputError, match=message):
        read_pooling(folder)
    path.write_text('{"default_prompt_name": null}')
    assert read_pooling(folder) == "cls"


def test_length_without_room_for_a_text_is_refused(tmp_path):
    path = tmp_path / "sentence_bert_config.json"
    path.write_text('{"max_seq_length": 1}')
    with pytest.raises(InputError, match="max_seq_length=1 must be at least 2"):
        read_max_length(tmp_path)


def test_case_that_only_sentence_transformers_ignores(tmp_path):
    check_case(None, False)
    check_case(tmp_path, False)
    path = tmp_path / "sentence_bert_config.json"
    path.write_text('{"do_lower_case": true}')
    check_case(tmp_path, True)
    with pytest.raises(InputError, match="but the tokenizer keeps upper case"):
        check_case(tmp_path, False)


def test_length(tmp_path, tokenizer):
    assert read_max_length(tmp_path) == math.inf
    (tmp_path / "tokenizer_config.json").write_text(
        '{"model_max_length": 1e30}'
    )
    assert read_max_length(tmp_path) == 1e30
    (tmp_path / "sentence_bert_config.json").write_text("{}")
    assert read_max_length(tmp_path) == 1e30
    write(tmp_path, settings_files(8, **CLS, tokenizer=tokenizer))
    assert read_max_length(tmp_path) == 9
    assert read_pooling(tmp_path) == "cls"
    assert read_token_weights(tmp_path) is None


def test_token_weights(tmp_path, tokenizer):
    weights = np.linspace(0, 1, tokenizer.vocab_size, dtype=np.float32)
    settings = {**CLS, "pooling": "weighted_mean", "token_weights": weights}
    write(tmp_path, settings_files(8, **settings, tokenizer=tokenizer))
    assert read_pooling(tmp_path) == "weighted_mean"
    np.testing.assert_array_equal(read_token_weights(tmp_path), weights)
    path = tmp_path / "1_WordWeights/model.safetensors"
    safetensors.numpy.save_file({"emb_layer.weight": weights}, path)
    with pytest.raises(InputError, match=r"shape \[\d+\], not \[pieces, 1\]"):
        read_token_weights(tmp_path)
    for bad in (-1, np.nan, np.inf):
        weights[3] = bad
        safetensors.numpy.save_file(
            {"emb_layer.weight": weights[:, None]}, path
        )
        with pytest.raises(InputError, match="negative or not finite"):
            read_token_weights(tmp_path)
    path.unlink()
    with pytest.raises(InputError, match=r"model\.safetensors"):
        read_token_weights(tmp_path)
