"""Exports in Hugging Face's layout; test_transformers_js.py opens them."""

import json

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.exporting.check_program import load_export, relative_error
from albert_tf.exporting.config import ExportConfig
from albert_tf.exporting.export import export
from albert_tf.exporting.manifest import read_export
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.text.tokenizer_files import load_tokenizer

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
onnxruntime = pytest.importorskip(
    "onnxruntime", reason="onnxruntime is not installed"
)
LONG = pytest.mark.long
LAYOUT = {"kind": "onnx", "layout": "huggingface"}
FILES = [
    *("README.md", "config.json", "export.json", "onnx/model.onnx"),
    *("onnx/model_quantized.onnx", "spiece.model", "tokenizer.json"),
    "tokenizer_config.json",
]


@pytest.mark.parametrize(
    ("name", "architecture", "outputs"),
    [
        ("pretrained", "MaskedLM", {"last_hidden_state", "logits"}),
        pytest.param("encoder", "", {"last_hidden_state"}, marks=LONG),
        pytest.param("sst2", "SequenceClassification", {"logits"}, marks=LONG),
        pytest.param("ner", "TokenClassification", {"logits"}, marks=LONG),
        pytest.param(
            "squad1.1",
            "QuestionAnswering",
            {"start_logits", "end_logits"},
            marks=LONG,
        ),
    ],
)
def test_folder(
    huggingface_exports, assert_same_as_source, name, architecture, outputs
):
    source, folder = huggingface_exports(name)
    found = (x for x in folder.rglob("*") if x.is_file())
    assert sorted(str(x.relative_to(folder)) for x in found) == FILES
    values = read_export(folder)
    assert set(values["files"]) == set(FILES) - {"README.md", "export.json"}
    for file in ("model", "model_quantized"):
        model = onnx.load(folder / f"onnx/{file}.onnx")
        onnx.checker.check_model(model, full_check=True)
        assert {x.name for x in model.graph.output} == outputs
        for tensor, of in zip(
            model.graph.input,
            ("input_ids", "attention_mask", "token_type_ids"),
            strict=True,
        ):
            kind = tensor.type.tensor_type
            assert tensor.name == of
            assert kind.elem_type == onnx.TensorProto.INT64
            sizes = [size.dim_param for size in kind.shape.dim]
            assert sizes == ["batch", "sequence"]
    assert_same_as_source(source, folder)
    export = load_export(folder)
    export.weights()
    assert "relative error 0.0" in export.quantized()
    config = json.loads((folder / "config.json").read_text())
    assert config["model_type"] == "albert"
    of = f"AlbertFor{architecture}" if architecture else "AlbertModel"
    assert config["architectures"] == [of]
    if labels := (values.get("task") or {}).get("labels"):
        assert list(config["id2label"].values()) == labels


@pytest.fixture(scope="module")
def wide(config, tokenizer, tmp_path_factory):
    """A masked language model with matrices to quantize, and its export."""
    sizes = {"embedding_size": 32, "hidden_size": 64, "intermediate_size": 128}
    model = AlbertPretrainer(
        config.replace(sharing="none", vocab_size=4000, **sizes)
    )
    rng = np.random.default_rng(1)
    for weight in model.weights:
        center = 1.0 if weight.path.endswith("gamma") else 0.0
        weight.assign(center + rng.normal(0, 0.1, weight.shape))
    folder = tmp_path_factory.mktemp("wide")
    model.save_pretrained(folder / "source", tokenizer)
    source, output = folder / "source", folder / "export"
    export(ExportConfig(model=source, output=output, seq_length=24, **LAYOUT))
    return model, folder / "export"


def test_quantized_model(wide, inputs):
    """It stores word embeddings once, in int8."""
    model, folder = wide
    session = onnxruntime.InferenceSession(folder / "onnx/model_quantized.onnx")
    names = ("input_word_ids", "input_mask", "input_type_ids")
    rows = [inputs[name].astype("int64") for name in names]
    keys = [x.name for x in session.get_inputs()]
    (logits,) = session.run(["logits"], dict(zip(keys, rows, strict=True)))
    positions = np.broadcast_to(np.arange(12), (4, 12)).astype("int32")
    expected = model({**inputs, "masked_lm_positions": positions})
    error = relative_error(logits, expected["mlm_logits"])
    assert 1e-4 < error < 0.05
    sizes = {x.name: x.stat().st_size for x in (folder / "onnx").iterdir()}
    table = 4000 * 32
    assert sizes["model.onnx"] > 4 * table
    assert sizes["model_quantized.onnx"] < 2.5 * table


def test_variants_of_sharing_are_albert_to_other_programs(wide):
    """The graph has the blocks, so programs need not know."""
    _, folder = wide
    config = json.loads((folder / "config.json").read_text())
    assert config["model_type"] == "albert"
    assert "sharing" not in config
    assert load_tokenizer(folder).model_max_length == 24


@pytest.mark.parametrize(
    ("name", "head"),
    [("squad2.0", "joint_span_head"), ("dream", "choice_head")],
)
def test_heads_that_the_libraries_do_not_have(
    make_finetuned, tmp_path, name, head
):
    lengths = {"max_query_length": 8, "max_qa_length": 12}
    source = make_finetuned(name, max_seq_length=32, **lengths)
    config = ExportConfig(model=source, output=tmp_path / "e", **LAYOUT)
    with pytest.raises(InputError, match=f"has a {head}, which layout="):
        export(config)
    assert not (tmp_path / "e").exists()
