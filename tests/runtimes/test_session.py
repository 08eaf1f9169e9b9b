import importlib.util
import json
from typing import get_args

import numpy as np
import pytest

import albert_tf
from albert_tf.errors import InputError
from albert_tf.pipelines.sentence_embedder import Pooling
from albert_tf.runtimes.config import choose_runtime

TEXTS = ["A reader came.", "He left, and nobody saw him again.", ""]
PASSAGE = {
    "context": "A reader came. He left, and nobody saw him again.",
    "question": "Who came?",
}
PAIRS = [{"text": text, "pair": "Nobody came."} for text in TEXTS]
INPUTS = {
    "sst2": TEXTS,
    "mrpc": PAIRS,
    "mrpc pair_features": PAIRS,
    "stsb": PAIRS,
    "ner": TEXTS[:2],
    "squad1.1": [PASSAGE, PASSAGE | {"question": "Who saw him?"}],
    "squad2.0": [PASSAGE, PASSAGE | {"question": "Who saw him?"}],
    "race": [PASSAGE | {"options": ["a reader", "nobody", "he"]}],
    "embedding": TEXTS,
}


@pytest.fixture(scope="session")
def config(config, tokenizer):
    """The small architecture, for `tokenizer` and the lengths of the tasks."""
    return config.replace(
        vocab_size=tokenizer.vocab_size, max_position_embeddings=512
    )


@pytest.fixture(params=["onnx", "openvino"])
def runtime(request):
    pytest.importorskip("tf2onnx")
    pytest.importorskip({"onnx": "onnxruntime"}.get(request.param, "openvino"))
    return request.param


@pytest.mark.parametrize("task", INPUTS)
def test_predictions_are_equal(make_finetuned, assert_close, runtime, task):
    folder, inputs = make_finetuned(task), INPUTS[task]
    expected = albert_tf.Predictor(folder)(inputs)
    found = albert_tf.Predictor(folder, runtime=runtime, batch_size=2)(inputs)
    assert_close(found, expected)


def test_pipelines_are_equal(checkpoint, assert_close, runtime):
    for pipeline, inputs in (
        (albert_tf.FillMask, ["The [MASK] is [MASK].", "A [MASK]."]),
        (albert_tf.SentenceOrder, [("A reader came.", "He left."), TEXTS[1:]]),
        (albert_tf.SentenceEmbedder, TEXTS),
    ):
        expected = pipeline(checkpoint)(inputs)
        found = pipeline(checkpoint, runtime=runtime, batch_size=2)(inputs)
        assert_close(found, expected)


@pytest.mark.parametrize("pooling", get_args(Pooling))
def test_poolings_are_equal(checkpoint, runtime, pooling):
    settings = {"pooling": pooling, "normalize": False}
    expected = albert_tf.SentenceEmbedder(checkpoint, **settings)(TEXTS)
    embed = albert_tf.SentenceEmbedder(checkpoint, runtime=runtime, **settings)
    np.testing.assert_allclose(embed(TEXTS), expected, rtol=1e-4, atol=1e-5)


def test_openvino_computes_in_bfloat16(checkpoint):
    pytest.importorskip("openvino")
    exact = albert_tf.SentenceEmbedder(checkpoint)(TEXTS)
    settings = {"runtime": "openvino", "dtype": "mixed_bfloat16"}
    found = albert_tf.SentenceEmbedder(checkpoint, **settings)(TEXTS)
    # bfloat16 has 8 bits; CPUs without its instructions compute in float32.
    assert 0.99 < (exact * found).sum(axis=-1).min() <= 1.0001


def test_onnx_runtime_does_not_compute_in_bfloat16(checkpoint):
    pytest.importorskip("onnxruntime")
    settings = {"runtime": "onnx", "dtype": "mixed_bfloat16"}
    with pytest.raises(InputError, match="mixed_bfloat16: ONNX Runtime"):
        albert_tf.SentenceEmbedder(checkpoint, **settings)
    albert_tf.SentenceEmbedder(checkpoint, **settings | {"dtype": "float32"})


def test_commands(make_finetuned, checkpoint, run_albert, runtime):
    def outputs(*arguments):
        done = run_albert(*arguments)
        assert not done.returncode, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    text = ["--text=A reader came."]
    command = ["embed", f"--model={checkpoint}", *text]
    [expected] = outputs(*command)
    [found] = outputs(*command, f"--runtime={runtime}")
    np.testing.assert_allclose(found, expected, atol=1e-5)
    folder = make_finetuned("sst2")
    command = ["predict", f"--model={folder}", "--format=jsonl", *text]
    [expected] = outputs(*command)
    [found] = outputs(*command, f"--runtime={runtime}")
    assert found["label"] == expected["label"]


def test_automatic_choice(monkeypatch):
    present = {"openvino", "onnx", "tf2onnx", "onnxruntime"}
    monkeypatch.setattr(importlib.util, "find_spec", lambda x: x in present)
    assert choose_runtime("auto") == "onnx"
    present.remove("onnxruntime")
    assert choose_runtime("auto") == "openvino"
    present.remove("tf2onnx")
    assert choose_runtime("auto") == "keras"


def test_unknown_or_missing_runtime(checkpoint, monkeypatch):
    with pytest.raises(InputError, match="runtime='tensorrt' must be one of"):
        albert_tf.SentenceEmbedder(checkpoint, runtime="tensorrt")
    monkeypatch.setitem(__import__("sys").modules, "openvino", None)
    with pytest.raises(InputError, match="runtime=openvino need.*pip install"):
        albert_tf.SentenceEmbedder(checkpoint, runtime="openvino")
