import dataclasses
import json
import shutil

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from albert_tf.errors import InputError
from albert_tf.interop import convert as conversion
from albert_tf.interop.checkpoint import Vocabulary
from albert_tf.interop.convert import WRITERS
from albert_tf.interop.convert_config import ConvertConfig
from albert_tf.interop.huggingface import write_huggingface
from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.interop.sentence_transformers import settings_files


def convert(input, output, **settings):
    config = ConvertConfig(input=input, output=output, **settings)
    return conversion.convert(config)


# With these sizes, an identity projection is added, which does not count.
@pytest.mark.parametrize("to", WRITERS)
def test_writers_report_each_tensor(config, make_checkpoint, tmp_path, to):
    checkpoint = make_checkpoint(config.replace(embedding_size=8))
    ticks = []
    WRITERS[to][0](checkpoint, tmp_path, lambda: ticks.append(1))
    assert len(ticks) == len(checkpoint.arrays)


@pytest.mark.parametrize(
    ("drop", "left"),
    [
        (["sop_head"], {"mlm_head"}),
        (["mlm_head"], {"sop_head"}),
        (["mlm_head", "sop_head", "pooler", "tokenizer"], set()),
    ],
)
def test_drop(stored, tmp_path, drop, left):
    convert(stored / "huggingface", tmp_path / "new", drop=drop)
    opened = open_checkpoint(tmp_path / "new")
    assert set(opened.heads) == left
    assert ("pooler" in opened.components) == ("pooler" not in drop)
    assert (opened.tokenizer is None) == ("tokenizer" in drop)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"drop": ["classifier_head"]}, "has no classifier_head; it has mlm_h"),
        ({"drop": ["encoder"]}, "drop: 'encoder' must be one of tokenizer, po"),
        ({"drop": ["pooler"]}, "sop_head reads the pooler's output; drop both"),
        ({"to": "keras_hub"}, "has no sop_head; drop it with --drop=sop_head"),
        ({"to": "onnx"}, "to='onnx' must be one of huggingface, "),
        ({"to": "google", "dtype": "float16"}, "google stores float32 only"),
        ({"dtype": "float8"}, "must be one of float32, float16, bfloat16"),
    ],
)
def test_invalid_arguments(stored, tmp_path, options, match):
    with pytest.raises(InputError, match=match):
        convert(stored / "huggingface", tmp_path / "new", **options)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_tensorflow_takes_for_a_pattern(stored, tmp_path):
    source = stored / "huggingface"
    with pytest.raises(InputError, match=r"whose name has \[; choose another"):
        convert(source, tmp_path / "a[1]", to="google", drop=["tokenizer"])
    assert not list(tmp_path.iterdir())
    convert(source, tmp_path / "a[1]")
    assert open_checkpoint(tmp_path / "a[1]").config


@pytest.fixture
def with_generator(config, make_checkpoint, tokenizer, tmp_path):
    """A folder with the heads of an objective."""
    checkpoint = make_checkpoint(
        config.replace(vocab_size=tokenizer.vocab_size),
        objective_arrays={"generator/bias": np.ones(3, np.float32)},
        objective={"objective": "own", "objective_settings": {"size": 3}},
        vocabulary=Vocabulary(tokenizer),
    )
    (tmp_path / "source").mkdir()
    write_huggingface(checkpoint, tmp_path / "source")
    return tmp_path / "source"


def test_heads_of_an_objective_are_kept(with_generator, tmp_path):
    kept = open_checkpoint(with_generator)
    convert(with_generator, tmp_path / "new")
    opened = open_checkpoint(tmp_path / "new")
    assert opened.objective == kept.objective
    assert opened.objective_heads == ("generator",)
    assert "heads of the objective: generator" in opened.report()


@pytest.mark.parametrize("to", ["google", "another vocabulary"])
def test_heads_of_an_objective_are_dropped_only_by_name(
    with_generator, tmp_path, to
):
    settings = {"to": to}
    if to == "another vocabulary":
        settings = {"spm_model_file": with_generator / "spiece.model"}
    output = tmp_path / "new"
    with pytest.raises(InputError, match=r"\(generator\) can only be kept"):
        convert(with_generator, output, **settings)
    assert not output.exists()
    convert(with_generator, output, **settings, drop=["objective"])
    opened = open_checkpoint(output)
    assert not opened.objective
    assert not opened.objective_arrays
    with pytest.raises(InputError, match="has no heads of an objective"):
        convert(output, tmp_path / "other", drop=["objective"])


@pytest.fixture
def with_pooling(stored, tmp_path):
    """A fine-tuned classifier whose folder sentence-transformers opens."""
    source = shutil.copytree(
        stored / "huggingface_classifier", tmp_path / "source"
    )
    shutil.copy(stored / "spiece.model", source)
    (source / "task.json").write_text('{"task_type": "text_classification"}')
    tokenizer = open_checkpoint(source).tokenizer
    files = settings_files(
        8,
        pooling="weighted_mean",
        normalize=True,
        max_length=9,
        tokenizer=tokenizer,
        token_weights=np.ones(tokenizer.vocab_size, np.float32),
    )
    for name, content in files.items():
        (source / name).parent.mkdir(exist_ok=True)
        content = content.encode() if isinstance(content, str) else content
        (source / name).write_bytes(content)
    return source


POOLING = {
    "1_WordWeights/config.json",
    "1_WordWeights/model.safetensors",
    "2_Pooling/config.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
}


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({"dtype": "float16"}, {*POOLING, "task.json"}),
        ({"drop": ["pooling"]}, {"task.json"}),
        ({"drop": ["classifier_head"]}, POOLING),
        ({"drop": ["tokenizer"]}, set()),
        (
            {"spm_model_file": "albert_tiny_en", "drop": ["pooling"]},
            {"task.json"},
        ),
    ],
)
def test_task_and_pooling_are_kept(with_pooling, tmp_path, settings, kept):
    output = tmp_path / "new"
    convert(with_pooling, output, **settings)
    for name in (*POOLING, "task.json"):
        assert (output / name).exists() == (name in kept)
        if name in kept:
            before = (with_pooling / name).read_bytes()
            assert (output / name).read_bytes() == before


def test_what_a_format_has_no_place_for_is_named(
    with_pooling, edited, tmp_path, caplog
):
    with edited(with_pooling / "config.json") as config:
        config |= {"classifier_dropout_prob": 0.3, "hidden_act": "gelu_new"}
        config |= {"trained_positions": 8, "initializer_range": 0.5}
    (with_pooling / "tokenizer_config.json").write_text(
        '{"do_lower_case": false}'
    )
    convert(with_pooling, tmp_path / "google", to="google")
    [record] = caplog.records
    for part in (
        *("names of the labels", "(0.3)", "do_lower_case=False"),
        "trained_positions=8",
    ):
        assert part in record.getMessage()
    caplog.clear()
    rates = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
    convert(
        with_pooling,
        tmp_path / "hub",
        to="keras_hub",
        config_overrides=rates,
        drop=["tokenizer"],
    )
    [record] = caplog.records
    assert "trained_positions=8, initializer_range=0.5" in record.getMessage()
    caplog.clear()
    convert(with_pooling, tmp_path / "ours", drop=[])
    assert not caplog.records


def test_token_weights_belong_to_their_vocabulary(with_pooling, tmp_path):
    settings = {"spm_model_file": "albert_tiny_en"}
    with pytest.raises(InputError, match="drop the pooling with --drop=pool"):
        convert(with_pooling, tmp_path / "new", **settings)
    convert(with_pooling, tmp_path / "plain", drop=["pooling"])
    with pytest.raises(InputError, match="has no pooling of sentence-transf"):
        convert(tmp_path / "plain", tmp_path / "new", drop=["pooling"])


def test_a_failed_conversion_leaves_no_files(stored, tmp_path, contents):
    # The damage is found when half of the output is written.
    source = shutil.copytree(stored / "google_tf1", tmp_path / "source")
    data = source / "model.ckpt-best.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:-1000])
    before = contents(tmp_path)
    for to in ("huggingface", "google", "keras_hub"):
        with pytest.raises(InputError, match="model.ckpt-best"):
            convert(
                source,
                tmp_path / "new",
                to=to,
                drop=["sop_head"],
                config_overrides={"attention_probs_dropout_prob": 0.1},
            )
    assert contents(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_existing_output_needs_overwrite(stored, tmp_path, contents):
    output = tmp_path / "new"
    convert(stored / "huggingface", output)
    before = contents(output)
    with pytest.raises(InputError, match=f"{output} exists; choose another"):
        convert(stored / "google_tf1", output)
    assert contents(output) == before
    convert(stored / "google_tf1", output, overwrite=True)
    assert contents(output) != before
    assert open_checkpoint(output).config.attention_probs_dropout_prob == 0.2
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_what_a_name_stands_for_is_not_overwritten(stored, tmp_path, contents):
    """A run's folder stands for its model, a TF checkpoint's path for files."""
    convert(stored / "huggingface", tmp_path / "run" / "model")
    (tmp_path / "run" / "model" / "task.json").write_text("{}")
    convert(stored / "huggingface", tmp_path / "tf", to="google")
    before = contents(tmp_path)
    for name, output in (("run", "run/model"), ("tf/model.ckpt-best", "tf")):
        with pytest.raises(InputError, match="would destroy the input"):
            convert(
                tmp_path / name,
                tmp_path / output,
                drop=["sop_head"],
                overwrite=True,
                to="google" if name != "run" else "huggingface",
            )
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("to", "name"),
    [
        ("huggingface", "albert_tf_run"),  # which has a config.json, too
        ("huggingface", "google_tf1"),
        ("google", "huggingface"),
        ("keras_hub", "huggingface"),
    ],
)
def test_only_an_earlier_result_is_overwritten(
    stored, tmp_path, contents, to, name
):
    output = tmp_path / "taken"
    shutil.copytree(stored / name, output)
    before = contents(output)
    with pytest.raises(InputError, match="so it is not overwritten"):
        convert(stored / "keras_hub_classifier", output, to=to, overwrite=True)
    assert contents(output) == before


@pytest.mark.parametrize(
    ("dtype", "numpy_type"),
    [("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16)],
)
def test_weights_in_half_precision(
    stored, tmp_path, contents, dtype, numpy_type
):
    source = convert(stored / "huggingface", tmp_path / "new", dtype=dtype)
    opened = open_checkpoint(tmp_path / "new")
    assert set(opened.arrays) == set(source.arrays)
    for path, array in opened.arrays.items():
        assert array.dtype == np.float32
        rounded = source.arrays[path].astype(numpy_type).astype(np.float32)
        np.testing.assert_array_equal(array, rounded)
    weights = safetensors.numpy.load_file(tmp_path / "new/model.safetensors")
    assert {array.dtype.name for array in weights.values()} == {dtype}
    values = json.loads((tmp_path / "new" / "config.json").read_text())
    assert values["dtype"] == dtype
    # What was rounded once is not rounded again.
    convert(tmp_path / "new", tmp_path / "again", dtype=dtype)
    assert contents(tmp_path / "again") == contents(tmp_path / "new")


def test_weights_out_of_range(config, make_checkpoint, tmp_path):
    checkpoint = make_checkpoint(config)
    arrays = dict(checkpoint.arrays)
    path = next(path for path in arrays if "word_embeddings" in path)
    arrays[path] = arrays[path].copy()
    arrays[path][1, 2] = -70000.0
    large = dataclasses.replace(checkpoint, arrays=arrays)
    (tmp_path / "source").mkdir()
    WRITERS["huggingface"][0](large, tmp_path / "source")
    with pytest.raises(InputError, match=r"word_embeddings.* up to 70000, out"):
        convert(tmp_path / "source", tmp_path / "new", dtype="float16")
    assert not (tmp_path / "new").exists()
    convert(tmp_path / "source", tmp_path / "new", dtype="bfloat16")
