"""Models in MediaPipe Tasks, which takes strings."""

import dataclasses
import zipfile

import numpy as np
import pytest

from albert_tf.exporting.check_program import load_export, same_as_source
from albert_tf.exporting.config import ExportConfig
from albert_tf.exporting.export import export
from albert_tf.exporting.manifest import read_export
from albert_tf.exporting.reference import source_cases
from albert_tf.exporting.runtimes import export_for_runtime
from albert_tf.finetuning.predictor import Predictor
from albert_tf.pipelines.sentence_embedder import SentenceEmbedder
from albert_tf.runtimes.ids_program import encoder_program
from albert_tf.text.wordpiece_tokenizer import AlbertWordPieceTokenizer

TEXTS = ["A good movie", "", "ÉTÉ: 2,000 ﬁlms ", "I have seen it. " * 20]


@pytest.fixture(scope="module")
def tasks():
    return pytest.importorskip(
        "mediapipe.tasks.python.text", reason="MediaPipe is not installed"
    )


def open_in(task, folder):
    return task.create_from_model_path(str(folder / "model.tflite"))


@pytest.mark.peer
@pytest.mark.parametrize("quantization", ["none", "dynamic"])
def test_probabilities(make_finetuned, tasks, tmp_path, quantization):
    source = make_finetuned("sst2", max_seq_length=20)
    export(
        ExportConfig(
            model=source,
            output=tmp_path / "e",
            kind="litert",
            quantization=quantization,
        )
    )
    predictor = Predictor(source)
    with open_in(tasks.TextClassifier, tmp_path / "e") as classifier:
        found = [classifier.classify(x).classifications[0] for x in TEXTS]
    for text, head in zip(TEXTS, found, strict=True):
        expected = predictor([text])[0]["probabilities"]
        scores = {x.category_name: x.score for x in head.categories}
        tolerance = 1e-4 if quantization == "none" else 0.05
        assert scores == pytest.approx(expected, abs=tolerance)


@pytest.mark.peer
def test_vectors(exports, tasks):
    source, folder = exports["litert"]
    embed = SentenceEmbedder(source, normalize=False)
    with open_in(tasks.TextEmbedder, folder) as embedder:
        found = [embedder.embed(text).embeddings for text in TEXTS]
    names = [head.head_name for head in found[0]]
    assert names == ["mean_output", "pooled_output", "sequence_output"]
    vectors = np.array([heads[0].embedding for heads in found])
    np.testing.assert_allclose(vectors, embed(TEXTS), atol=1e-5)


@pytest.mark.peer
def test_trained_embeddings(make_finetuned, tasks, tmp_path):
    source = make_finetuned("embedding", max_seq_length=20)
    export(ExportConfig(model=source, output=tmp_path / "e", kind="litert"))
    with open_in(tasks.TextEmbedder, tmp_path / "e") as embedder:
        found = [embedder.embed(text).embeddings for text in TEXTS]
    vectors = np.array([head.embedding for (head,) in found])
    expected = SentenceEmbedder(source)(TEXTS)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


@pytest.fixture
def wordpiece():
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##able"]
    content = "".join(
        f"{x}\n" for x in [*pieces, "a", "good", "中", ".", "##x"]
    )
    return AlbertWordPieceTokenizer(content.encode())


@pytest.mark.peer
def test_wordpiece(wide, length, wordpiece, tasks, tmp_path):
    program = encoder_program(wide, seq_length=length)
    path = tmp_path / "e"
    config = ExportConfig(model="m", output=path, kind="litert")
    export_for_runtime(program, config, tokenizer=wordpiece)
    texts = ["A GOOD unable. unablex", "中good", "", "x", "a " * 100]
    rows = wordpiece(texts, max_length=length, padding="max_length")
    with open_in(tasks.TextEmbedder, path) as embedder:
        found = [embedder.embed(x).embeddings[0].embedding for x in texts]
    expected = wide.mean_output(rows)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.peer
def test_check(exports, tasks):
    source, folder = exports["litert"]
    (_, case) = source_cases(source, read_export(folder))
    name, *case = case
    assert name == "text in MediaPipe"
    figure = same_as_source(load_export(folder), *case)
    assert figure.startswith("mean_output: max difference ")


def test_models_that_mediapipe_cannot_run(
    make_finetuned, wide, tokenizer, length, tmp_path
):
    for name in ("mrpc", "stsb", "ner", "squad2.0"):
        source = make_finetuned(name, max_seq_length=20, max_query_length=8)
        export(
            ExportConfig(model=source, output=tmp_path / name, kind="litert")
        )
    program = encoder_program(wide, seq_length=length)
    resizable = dataclasses.replace(program, resizable=True)
    cased = tokenizer.with_settings(do_lower_case=False)
    for name, arguments in {
        "cased": {"program": program, "tokenizer": cased},
        "resizable": {"program": resizable, "tokenizer": tokenizer},
    }.items():
        config = ExportConfig(model="m", output=tmp_path / name, kind="litert")
        export_for_runtime(config=config, **arguments)
    for folder in tmp_path.iterdir():
        assert read_export(folder)["mediapipe_task"] == "", folder.name
        content = (folder / "model.tflite").read_bytes()
        assert b"TFLITE_METADATA" not in content
        with zipfile.ZipFile(folder / "model.tflite") as archive:
            assert "vocabulary.spm" not in archive.namelist()
