"""Exports in transformers.js, by its pipelines."""

import numpy as np
import pytest

from albert_tf.exporting.config import ExportConfig
from albert_tf.exporting.export import export
from albert_tf.finetuning.model_folder import load_model
from albert_tf.finetuning.predictor import Predictor
from albert_tf.pipelines.fill_mask import FillMask
from albert_tf.pipelines.sentence_embedder import SentenceEmbedder
from albert_tf.text.packing import ENCODER_INPUTS

pytestmark = pytest.mark.peer
TOLERANCE = 1e-4
# As short as not to be cut: transformers.js cuts [SEP] off, too.
TEXTS = ["A good movie", "The plot was bad"]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """An export of the model that is part of the package."""
    folder = tmp_path_factory.mktemp("tiny") / "tiny"
    settings = {"kind": "onnx", "layout": "huggingface"}
    export(ExportConfig(model="albert_tiny_en", output=folder, **settings))
    return folder


def job(task, folder, *inputs, dtype="fp32"):
    folder = str(folder)
    return {"task": task, "folder": folder, "dtype": dtype, "inputs": inputs}


def test_packaged_model(tiny, transformers_js):
    masked = "The capital of France is [MASK]."
    texts = ["A woman plays the violin.", "A man drinks tea, hot.", "Rain!"]
    pooling = {"pooling": "mean", "normalize": True}
    fills, vectors, fills_of_int8, vectors_of_int8 = transformers_js(
        [
            job(task, tiny, *inputs, dtype=dtype)
            for dtype in ("fp32", "q8")
            for task, *inputs in (
                ("fill-mask", masked, {"top_k": 5}),
                ("feature-extraction", texts, pooling),
            )
        ]
    )
    expected = FillMask()(masked)
    assert [x["token"] for x in fills] == [x["token"] for x in expected]
    for fill, other in zip(fills, expected, strict=True):
        assert fill["token_str"] == other["token_str"]
        assert fill["score"] == pytest.approx(other["score"], abs=TOLERANCE)
    embeddings = SentenceEmbedder()(texts)
    np.testing.assert_allclose(vectors, embeddings, rtol=0, atol=TOLERANCE)
    # Eight bits.
    assert (np.sum(vectors_of_int8 * embeddings, axis=1) > 0.98).all()
    tokens = {x["token"] for x in fills_of_int8}
    assert len(tokens & {x["token"] for x in expected}) >= 4


def test_text_classification(huggingface_exports, transformers_js):
    source, folder = huggingface_exports("sst2")
    (found,) = transformers_js(
        [job("text-classification", folder, TEXTS, {"top_k": None})]
    )
    predictor = Predictor(source)
    labels = predictor.task_type.labels
    for scores, expected in zip(found, predictor(TEXTS), strict=True):
        scores = {x["label"]: x["score"] for x in scores}
        for label in labels:
            assert scores[label] == pytest.approx(
                expected["probabilities"][label], abs=TOLERANCE
            )


def test_question_answering(huggingface_exports, transformers_js):
    source, folder = huggingface_exports("squad1.1")
    question, context = TEXTS
    (found,) = transformers_js(
        [job("question-answering", folder, question, context, {"top_k": 3})]
    )
    loaded = load_model(source, packed=False)
    tokenizer = loaded.task_type.tokenizer
    row = tokenizer([question], [context])
    outputs = loaded.model({x: row[x] for x in ENCODER_INPUTS})
    (ids,) = row["input_word_ids"]
    # Scores as the pipeline has them: [CLS] and the context take part.
    context_starts = list(ids).index(tokenizer.sep_id) + 1
    allowed = np.arange(len(ids)) >= context_starts
    allowed &= ids != tokenizer.sep_id
    allowed[0] = True
    start, end = (
        np.where(allowed, np.exp(outputs[name][0]), 0)
        for name in ("start_logits", "end_logits")
    )
    scores = np.triu(np.outer(start / start.sum(), end / end.sum()))
    scores[0], scores[:, 0] = 0, 0
    best = np.argsort(-scores, axis=None)[:3]
    for answer, place in zip(found, best, strict=True):
        first, last = np.unravel_index(place, scores.shape)
        expected = tokenizer.decode(ids[first : last + 1].tolist())
        assert answer["answer"] == expected
        assert answer["score"] == pytest.approx(
            scores[first, last], abs=TOLERANCE
        )
