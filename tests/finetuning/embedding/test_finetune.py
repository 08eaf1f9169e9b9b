"""Embeddings from a file to the commands that use them."""

import json
import shutil

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.config import FinetuneConfig
from albert_tf.finetuning.finetune import finetune, task_and_files
from albert_tf.finetuning.predictor import Predictor
from albert_tf.finetuning.run import open_runs
from albert_tf.pipelines.sentence_embedder import SentenceEmbedder

DROPOUT = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}


@pytest.fixture(scope="module")
def files(task_files, tmp_path_factory):
    """Texts, pairs and pairs with scores, of `task_files`."""
    folder = tmp_path_factory.mktemp("embedding")
    rows = task_files["classes"].read_text().splitlines()[1:]
    pairs = [row.split("\t")[:2] for row in rows]
    (folder / "lines.txt").write_text("\n".join(a for a, _ in pairs) + "\n")
    lines = [f"{a}\t{b}\n" for a, b in pairs]
    (folder / "pairs.tsv").write_text("anchor\tpositive\n" + "".join(lines))
    lines = [f"{a}\t{b}\t{i % 5}\n" for i, (a, b) in enumerate(pairs)]
    (folder / "scored.tsv").write_text(
        "sentence1\tsentence2\tscore\n" + "".join(lines)
    )
    return folder


def settings(checkpoint, folder, **changes):
    return FinetuneConfig(
        **{
            "task": "embedding",
            "max_seq_length": 32,
            "output": folder,
            "init_from": checkpoint,
            "num_train_steps": 8,
            "eval_steps": 4,
            "train_batch_size": 8,
            "learning_rate": 2e-3,
            **changes,
        }
    )


@pytest.fixture(scope="module")
def run(checkpoint, files, tmp_path_factory):
    """A run on texts alone, and its result."""
    folder = tmp_path_factory.mktemp("run") / "run"
    config = settings(
        checkpoint,
        folder,
        train=files / "lines.txt",
        dev=files / "scored.tsv",
        config_overrides=DROPOUT,
    )
    return folder, finetune(config).best


def test_the_dev_score_is_that_of_the_embedder(run, files):
    folder, result = run
    rows = (files / "scored.tsv").read_text().splitlines()[1:]
    first, second, scores = zip(*(x.split("\t") for x in rows), strict=True)
    embed = SentenceEmbedder(folder)
    cosines = (embed(first) * embed(second)).sum(axis=1)
    pearson = np.corrcoef(cosines, np.array(scores, float))[0, 1]
    assert result.scores["pearson"] == pytest.approx(pearson, abs=1e-5)
    assert list(result.scores) == ["spearman", "pearson"]
    found = json.loads((folder / "eval.json").read_text())["baselines"]
    assert list(found) == ["mean of word embeddings", "bag of words"]


def test_a_finished_run_does_not_need_its_start(checkpoint, files, tmp_path):
    start = shutil.copytree(checkpoint, tmp_path / "start")
    folder = tmp_path / "run"
    config = settings(
        start,
        folder,
        train=files / "pairs.tsv",
        dev=files / "scored.tsv",
        num_train_steps=4,
    )
    result = finetune(config).best
    shutil.rmtree(start)
    shutil.rmtree(folder / "model")
    assert finetune(config).best.scores == result.scores
    found = json.loads((folder / "eval.json").read_text())["baselines"]
    assert list(found) == ["bag of words"]


def test_predictions_are_those_of_the_embedder(run):
    folder, _ = run
    predictor, embed = Predictor(folder), SentenceEmbedder(folder)
    pair = {"text": "the name", "pair": "a value"}
    found = predictor(["the name", pair])
    np.testing.assert_allclose(
        found[0]["embedding"], embed("the name"), atol=1e-5
    )
    cosine = embed.similarity(pair["text"], pair["pair"])
    assert found[1]["similarity"] == pytest.approx(float(cosine), abs=1e-5)
    copy = shutil.copytree(folder, folder.with_name("copy"))
    with pytest.raises(InputError, match="several models of the task emb"):
        Predictor([folder, copy])


def test_settings_that_cannot_train(checkpoint, files, tmp_path):
    def opened(name, **changes):
        changes["train"] = files / name
        config = settings(checkpoint, tmp_path / "run", **changes)
        [run] = open_runs([config], *task_and_files(config))
        run.make_model()

    none = dict.fromkeys(DROPOUT, 0.0)
    with pytest.raises(InputError, match="no dropout, so .* --config_overr"):
        opened("lines.txt", config_overrides=none)
    opened("pairs.tsv", config_overrides=none)
    with pytest.raises(
        InputError, match="at least 2 examples in .* micro-batch, not 1"
    ):
        opened("pairs.tsv", gradient_accumulation_steps=8)
    opened("scored.tsv", gradient_accumulation_steps=8)
    with pytest.raises(InputError, match="head_dropout=0.3: tasks of the type"):
        opened("pairs.tsv", head_dropout=0.3)
