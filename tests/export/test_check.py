"""`albert export --check`: exports that pass, and what each check detects."""

import copy
import functools
import importlib.util
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from albert_tf.errors import InputError
from albert_tf.exporting import check as check_module
from albert_tf.exporting import check_program
from albert_tf.exporting.check import (
    Check,
    check_export,
    check_files,
    check_operations,
)
from albert_tf.exporting.check_program import (
    Failed,
    compare,
    difference,
    load_export,
    relative_error,
    run_check,
    same_as_source,
)
from albert_tf.exporting.config import IDS_KINDS, KINDS, ExportConfig
from albert_tf.exporting.export import export
from albert_tf.exporting.manifest import read_export
from albert_tf.exporting.reference import source_cases, write_cases
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.text.packing import ENCODER_INPUTS


@pytest.fixture(scope="module")
def loaded(exports):
    """Returns `loaded(kind)`: an export that is loaded once."""
    return functools.cache(lambda kind: load_export(exports[kind][1]))


@pytest.fixture
def with_manifest(loaded, monkeypatch):
    """Returns `make(kind, **changes)`: a loaded export with another manifest.

    The change `a__b` sets the value b of a.
    """

    def make(kind, **changes):
        model = loaded(kind)
        manifest = copy.deepcopy(model.manifest)
        for name, value in changes.items():
            part = manifest
            *parents, last = name.split("__")
            for parent in parents:
                part = part[parent]
            part[last] = value
        monkeypatch.setattr(model, "manifest", manifest)
        return model

    return make


def check_here(folder, tmp_path, source=None):
    """Runs the program of the check in this process; returns its results."""
    cases = source_cases(source, read_export(folder)) if source else []
    write_cases(tmp_path / "cases", cases)
    results = tmp_path / "results"
    check_program.main(str(folder), results, tmp_path / "cases")
    *lines, end = map(json.loads, results.read_text().splitlines())
    assert end == {}
    return {line["name"]: (line["result"], line["figure"]) for line in lines}


COMMON = {"loads", "signatures"}
WITH_WEIGHTS = COMMON | {"tokenizer", "weights", "training"}
TEXT, IDS = "source model: text", "source model: random ids"
MEDIAPIPE = "source model: text in MediaPipe"
CHECKS = {
    "encoder": WITH_WEIGHTS | {IDS},
    "preprocessor": COMMON | {"tokenizer", TEXT},
    "text_encoder": WITH_WEIGHTS | {TEXT},
    "task": WITH_WEIGHTS | {TEXT},
    "litert": COMMON | {IDS, MEDIAPIPE},
    "onnx": COMMON | {"weights", IDS},
    "openvino": COMMON | {IDS},
    "web": COMMON | {IDS},
}


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(x, marks=pytest.mark.long)
        if x in ("text_encoder", "preprocessor", "task")
        else x
        for x in KINDS
    ],
)
def test_exports_pass_and_have_no_path_of_this_machine(exports, kind, tmp_path):
    source, folder = exports[kind]
    if kind not in (*IDS_KINDS, "web"):
        check_operations(folder)
    results = check_here(folder, tmp_path, source)
    assert set(results) == CHECKS[kind]
    if not importlib.util.find_spec("mediapipe"):
        results.pop(MEDIAPIPE, None)
    assert {result for result, _ in results.values()} == {"pass"}, results
    paths = {
        str(pathlib.Path(__file__).resolve().parents[2]),
        str(source.parent),
        str(folder.parent),
        str(pathlib.Path(tempfile.gettempdir()) / "pytest-of"),
        sys.prefix,
        os.getcwd(),
        str(pathlib.Path.home() / ".cache"),
    }
    for path in filter(pathlib.Path.is_file, folder.rglob("*")):
        content = path.read_bytes()
        for private in paths:
            assert private.encode() not in content, (path, private)


def refers_to_the_saver(saved_model):
    """Gives the function of a signature the name of one that may save."""
    (graph,) = saved_model.meta_graphs
    names = [x.signature.name for x in graph.graph_def.library.function]
    name = next(x for x in names if "signature_wrapper" in x)
    content = saved_model.SerializeToString()
    new = "__inference__traced_save_".ljust(len(name), "7").encode()
    assert len(new) == len(name)
    return content.replace(name.encode(), new)


def without_objects(saved_model):
    """Leaves the signatures of the graph itself, which TensorFlow 1 has."""
    saved_model.meta_graphs[0].ClearField("object_graph_def")
    return saved_model.SerializeToString()


def reads_files(saved_model):
    function = saved_model.meta_graphs[0].graph_def.library.function[0]
    function.node_def.add(name="x", op="GenerateVocabRemapping")
    return saved_model.SerializeToString()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (refers_to_the_saver, "the saver as an object"),
        (without_objects, "the saver as an object"),
        (reads_files, "GenerateVocabRemapping"),
    ],
)
def test_graphs_that_do_more_than_to_compute(
    exports, tmp_path, change, message
):
    content = (exports["encoder"][1] / "saved_model.pb").read_bytes()
    changed = change(saved_model_pb2.SavedModel.FromString(content))
    (tmp_path / "saved_model.pb").write_bytes(changed)
    with pytest.raises(InputError, match=message):
        check_operations(tmp_path)


def openvino_model(folder):
    openvino = pytest.importorskip("openvino", reason="it is not installed")
    return openvino.Core().read_model(folder / "model.xml")


def variants():
    """All kinds, quantizations and ways of padding of a task's exports."""
    for kind in ("task", *IDS_KINDS):
        quantizations = ["none"]
        if kind in IDS_KINDS:
            quantizations += ["float16", "dynamic"]
        if kind == "litert":
            quantizations.append("int8")
        for quantization in quantizations:
            for packed in (None,) if kind == "litert" else (True, False):
                yield kind, quantization, packed


@pytest.mark.parametrize(("kind", "quantization", "packed"), list(variants()))
def test_exports_of_a_fine_tuned_model(
    fine_tuned_run, need_packages, tmp_path, kind, quantization, packed
):
    """Every check of what the README and docs/runtimes.md export."""
    need_packages(kind)
    settings = {"quantization": quantization, "packed": packed}
    if quantization == "int8":
        (tmp_path / "texts").write_text("a good movie\tI have seen it\n" * 9)
        settings["calibration_input"] = str(tmp_path / "texts")
    folder = tmp_path / "e"
    export(
        ExportConfig(model=fine_tuned_run, output=folder, kind=kind, **settings)
    )
    results = check_here(folder, tmp_path, fine_tuned_run)
    # Of pairs, which MediaPipe does not take.
    expected = CHECKS[kind] - {MEDIAPIPE}
    if kind == "onnx" and quantization != "none":
        expected.remove("weights")
    assert set(results) == expected
    wrong = {x: found for x, found in results.items() if found[0] != "pass"}
    if quantization == "int8":
        assert wrong.pop(IDS)[0] == "skip"
    assert not wrong
    if kind == "openvino":
        model = openvino_model(folder)
        inputs = {x.get_any_name() for x in model.inputs}
        assert inputs == set(ENCODER_INPUTS)
        assert {x.get_any_name() for x in model.outputs} == {"probabilities"}


def test_an_input_with_another_name_too(exports, tmp_path):
    """OpenVINO joins the names of a tensor and of its copy."""
    _, path = exports["openvino"]
    folder = shutil.copytree(path, tmp_path / "e")
    model = openvino_model(path)
    for port in (*model.inputs, *model.outputs):
        port.get_tensor().add_names({"a/" + port.get_any_name()})
    sys.modules["openvino"].save_model(
        model, folder / "model.xml", compress_to_fp16=False
    )
    assert load_export(folder).signatures() == "serving_default"


@pytest.mark.parametrize(
    ("quantization", "other", "result", "message"),
    [
        ("dynamic", False, "pass", r".* \(tolerance of dynamic: 0.2\)"),
        ("dynamic", True, "FAIL", r".*, more than 0\.2"),
        ("int8", False, "skip", r"int8 quantization, .*: relative error \S+"),
    ],
)
def test_quantized_models(
    exports,
    with_manifest,
    make_pretrained,
    quantization,
    other,
    result,
    message,
):
    source, folder = exports["litert"]
    if other:
        source = make_pretrained(9)
    (_, *case), *_ = source_cases(source, read_export(folder))
    model = with_manifest("litert", quantization=quantization)
    found = run_check("quantized", same_as_source, model, *case)
    assert found["result"] == result
    assert re.fullmatch(message, found["figure"])


OTHER_SIGNATURES = {"inputs": ["text"], "outputs": ["label"]}


@pytest.mark.parametrize(
    ("kind", "check", "changes", "message"),
    [
        ("encoder", "weights", {"weights_sha256": "0"}, "sha256: found "),
        ("encoder", "weights", {"weights": ["a"]}, "names: found "),
        ("encoder", "tokenizer", {"tokenizer__fingerprint": "0"}, "sha256 "),
        ("encoder", "tokenizer", {"tokenizer__file": "a.txt"}, "vocab_file is"),
        (
            "encoder",
            "tokenizer",
            {"tokenizer__do_lower_case": False},
            "do_lower_case: found True, expected False",
        ),
        ("task", "weights", {"weights": ["a"]}, "names: found "),
        (
            "task",
            "signatures",
            {"signatures__serving_default": OTHER_SIGNATURES},
            "inputs of serving_default",
        ),
        (
            "task",
            "signatures",
            {"signatures__words": OTHER_SIGNATURES},
            "signature words is missing",
        ),
        (
            "litert",
            "signatures",
            {"signatures__serving_default__outputs": ["logits"]},
            r"outputs: .*expected \['logits'\]",
        ),
    ],
)
def test_an_export_that_differs_from_its_manifest(
    with_manifest, kind, check, changes, message
):
    model = with_manifest(kind, **changes)
    assert check in model.checks
    with pytest.raises(Failed, match=message):
        getattr(model, check)()


def test_damaged_objects(exports):
    model = load_export(exports["encoder"][1])
    root = model.root
    root.trainable_variables = root.trainable_variables[1:]
    with pytest.raises(Failed, match="trainable_variables: found"):
        model.training()
    del root.call_training
    root.trainable_variables = root.variables
    with pytest.raises(Failed, match="call_training is missing"):
        model.training()
    del root.mlm
    with pytest.raises(Failed, match="names: found"):
        model.weights()


def test_changed_weights_and_missing_files(exports, tmp_path):
    _, path = exports["encoder"]
    folder = tmp_path / "e"
    loaded = tf.saved_model.load(path)
    weight = loaded.variables[0]
    weight.assign(weight + 1e-6)
    tf.saved_model.save(loaded, folder)
    for name in ("export.json", "README.md"):
        shutil.copy(path / name, folder)
    (asset,) = (folder / "assets").iterdir()
    asset.unlink()
    results = check_here(folder, tmp_path)
    failed = {n: text for n, (x, text) in results.items() if x == "FAIL"}
    assert set(failed) == {"weights", "signatures", "tokenizer"}
    assert failed["signatures"] == "signature serving_default is missing"
    assert failed["tokenizer"] == f"assets/{asset.name} is missing"


def test_a_changed_file(exports):
    folder = exports["litert"][1]
    found = check_files(folder, read_export(folder) | {"sha256": "0"})
    assert found.result == "FAIL"
    assert re.match(r"model\.tflite: sha256 \w+, expected 0$", found.figure)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ([1.0, 1.0002], "x: differs by 0.0002, more than 0.0001"),
        ([1.0, float("nan")], "x: not finite"),
        ([1.0], r"shape of x: found \[1\], expected \[2\]"),
        ([1, 2], "x: values differ"),
    ],
)
def test_differences_beyond_the_tolerance(found, message):
    with pytest.raises(Failed, match=message):
        difference(found, [1.0, 1.0], "x")


def test_differences_within_the_tolerance():
    assert difference([1.0, 9.0], [1.0, 3.0], "x", mask=[1, 0]) == 0.0
    # Differences of large numbers are relative.
    assert difference([1000.05], [1000.0], "x") == pytest.approx(5e-5)
    assert relative_error([3.0, 0.0], [3.0, 4.0]) == pytest.approx(0.8)
    assert compare({"a": [1.0], "b": [2.0]}, {"a": [1.0]}) == 0.0
    with pytest.raises(Failed, match="outputs: "):
        compare({"a": [1.0]}, {"b": [1.0]})


def test_any_error_fails_a_check():
    def fail():
        raise ValueError("a\nb" + "c" * 300)

    found = run_check("one", fail)
    assert found["result"] == "FAIL"
    assert found["figure"].startswith("ValueError: a bccc")
    assert len(found["figure"]) == 200


def hostile(path, operation):
    """Saves a SavedModel whose signature, or a function of it, is unsafe."""

    @tf.function
    def inner(x):
        with tf.control_dependencies([operation(x)]):
            return tf.identity(x)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def serve(text):
        with tf.control_dependencies([inner(tf.constant(str(path / "x")))]):
            return {"label": tf.identity(text)}

    module = tf.Module()
    module.variable = tf.Variable(1.0)
    module.serve = serve
    tf.saved_model.save(module, path, {"serving_default": serve})
    manifest = {"kind": "preprocessor", "tokenizer": None}
    (path / "export.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("operation", "name"),
    [
        (lambda x: tf.io.write_file(x, "written"), "WriteFile"),
        (tf.io.read_file, "ReadFile"),
        (tf.io.matching_files, "MatchingFiles"),
        (lambda x: tf.py_function(lambda y: y, [x], tf.string), "EagerPyFunc"),
        (
            lambda x: tf.raw_ops.SaveV2(
                prefix=x,
                tensor_names=["a"],
                shape_and_slices=[""],
                tensors=[tf.constant(1.0)],
            ),
            "SaveV2",
        ),
    ],
)
def test_a_graph_that_does_more_than_compute(tmp_path, operation, name):
    hostile(tmp_path / "e", operation)
    with pytest.raises(InputError, match=rf"of Python.*\({name}\).*not loaded"):
        check_export(tmp_path / "e")
    assert not (tmp_path / "e" / "x").exists()


def test_a_graph_in_another_form(exports, tmp_path):
    folder = shutil.copytree(exports["encoder"][1], tmp_path / "e")
    (folder / "saved_model.cpb").write_bytes(b"")
    with pytest.raises(InputError, match=r"has a saved_model\.cpb, which"):
        check_export(folder)


def test_an_export_that_cannot_be_loaded(exports, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(exports["encoder"][1], folder)
    (folder / "saved_model.pb").write_bytes(b"no SavedModel")
    results = check_here(folder, tmp_path)
    assert {name: result for name, (result, _) in results.items()} == {
        "loads": "FAIL"
    }
    (folder / "README.md").unlink()
    found = check_files(folder, read_export(folder))
    assert found == Check("files", "FAIL", "README.md is missing or empty")


def test_a_process_that_crashes(exports, monkeypatch, tmp_path):
    (tmp_path / "program.py").write_text("raise SystemExit('killed')")
    monkeypatch.setattr(check_module, "_PROGRAM", tmp_path / "program.py")
    assert check_export(exports["encoder"][1]) == [
        Check("files", "pass"),
        Check("source model", "skip", "no --model"),
        Check("finished", "FAIL", "status 1: killed"),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no export.json; expected the folder of a finished"),
        ("{", "export.json is not JSON: Expecting property name"),
        ("{}", "export.json: the object lacks 'kind'"),
        ('{"kind": "poem"}', "kind='poem' must be one of encoder, prepro"),
    ],
)
def test_no_export(tmp_path, content, message):
    if content is not None:
        (tmp_path / "export.json").write_text(content)
    with pytest.raises(InputError, match=re.escape(message)):
        read_export(tmp_path)


def test_another_architecture_or_task(
    exports, config, tokenizer, make_finetuned, tmp_path
):
    config = config.replace(num_hidden_layers=3)
    AlbertEncoder(config).save_pretrained(tmp_path / "m", tokenizer)
    with pytest.raises(InputError, match="has num_hidden_layers=3, but the ex"):
        check_export(exports["encoder"][1], tmp_path / "m")
    other = make_finetuned("stsb")
    with pytest.raises(InputError, match="has (kind|task_type)=.*, but the ex"):
        check_export(exports["task"][1], other)


@pytest.mark.long
def test_command_with_another_model(exports, make_pretrained, run_albert):
    _, folder = exports["encoder"]
    other = make_pretrained(9)
    result = run_albert("export", f"--check={folder}", f"--model={other}")
    assert result.returncode == 1
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["check", "result", "figure"]
    assert "  FAIL    sequence_output: differs by" in result.stdout
    failed = {line.split("  ")[0] for line in lines if "  FAIL  " in line}
    assert failed == {"source model: random ids"}
    (line,) = result.stderr.splitlines()
    assert re.match(
        rf"albert: export: {folder}: 3 of 9 checks failed: source model", line
    )
