"""The short form of benchmarks/cpu_speed.py, and the checks of its outputs."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

BENCHMARKS = pathlib.Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def cpu_speed(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import cpu_speed

    return cpu_speed


def run(output, *flags):
    return subprocess.run(
        [
            sys.executable,
            BENCHMARKS / "cpu_speed.py",
            "--short",
            f"--output={output}",
            *flags,
        ],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.peer
@pytest.mark.slow
def test_short_form(tmp_path):
    pytest.importorskip("transformers")
    pytest.importorskip("torch")
    flags = "--work=rate,forward,step,text,finetune"
    done = run(tmp_path, flags)
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((tmp_path / "results.json").read_text())
    errors = []
    for kind in ("forward", "step", "text", "finetune"):
        (work,) = (x for x in results["work"].values() if x["kind"] == kind)
        assert set(work["systems"]) == {
            "albert_tf_float32",
            "huggingface_float32",
        }
        errors.append(work["systems"]["huggingface_float32"]["error"])
        assert all(x["values"] for x in work["systems"].values())
    # Outputs were compared: only rounding differs.
    assert 0 < max(errors) < 1e-3
    report = (tmp_path / "report.md").read_text()
    assert "Hugging Face, eager | float32" in report
    assert (tmp_path / "speed.png").stat().st_size > 1000
    again = run(tmp_path, flags)
    assert again.stdout.count("measured before") == 5


def test_different_outputs_are_errors(cpu_speed):
    ours = {"states": np.ones([2, 3], "float32")}
    outputs = {
        "albert_tf_float32": ours,
        "huggingface_float32": {"states": ours["states"] * 1.01},
        "huggingface_bfloat16": {"states": ours["states"] * 1.01},
        "onnxruntime_float32": {"states": ours["states"] * np.nan},
        "keras_hub_float32": {"states": ours["states"][:1]},
        "openvino_float32": {"other": ours["states"]},
    }
    assert cpu_speed._error(outputs, "huggingface_bfloat16") == pytest.approx(
        0.01, rel=1e-3
    )
    for name, message in (
        ("huggingface_float32", "differ from ours by 1.0e-02"),
        ("onnxruntime_float32", "differ from ours by nan"),
        ("keras_hub_float32", r"is \(1, 3\), ours \(2, 3\)"),
        ("openvino_float32", "nothing comparable"),
    ):
        with pytest.raises(cpu_speed.WrongOutputError, match=message):
            cpu_speed._error(outputs, name)


def test_missing_packages_are_reported(cpu_speed, monkeypatch):
    import cpu_systems

    monkeypatch.setenv("ALBERT_TF_MODEL_GARDEN_PYTHON", "/nowhere/python")
    garden = cpu_systems.SYSTEMS["model_garden_float32"]
    assert (
        garden.absent() == "/nowhere/python does not exist: `make model-garden`"
    )
    monkeypatch.setattr(
        cpu_systems.importlib.util, "find_spec", lambda name: None
    )
    system = cpu_systems.SYSTEMS["openvino_int8"]
    assert (
        system.absent()
        == "not installed: onnx, openvino, torch, transformers, nncf"
    )


def test_selection_of_workloads(cpu_speed):
    work = cpu_speed.all_work(8, 8, 8)
    names = [x.name for x in work]
    assert len(set(names)) == len(names)
    chosen = cpu_speed.select(work, "forward/base/1x16,rate")
    assert [x.name for x in chosen] == [
        "rate/2048",
        "rate/4096",
        "forward/base/1x16",
    ]
    with pytest.raises(SystemExit, match="'forward/base/1x1' must be one of"):
        cpu_speed.select(work, "forward/base/1x1")


def test_flops_of_matrix_products(cpu_speed):
    (work,) = cpu_speed.select(
        cpu_speed.all_work(8, 8, 8), "forward/base/1x128"
    )
    # A block: four products of 768 x 768, two of 768 x 3072, two of attention.
    block = 4 * 768**2 + 2 * 768 * 3072 + 2 * 128 * 768
    assert cpu_speed.flops(work) == 2 * 128 * (128 * 768 + 12 * block)
