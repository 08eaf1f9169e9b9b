"""Each kind of task learns 32 examples by heart, from files to scores."""

import dataclasses

import pytest

from albert_tf.finetuning.config import FinetuneConfig
from albert_tf.finetuning.data import TaskFiles
from albert_tf.finetuning.registry import known_task, with_settings
from albert_tf.finetuning.text_classification.examples import (
    text_task_from_columns,
)
from albert_tf.finetuning.text_classification.task import text_task_config
from albert_tf.finetuning.train import finetune

SETTINGS = {"max_seq_length": 64}


def describe(kind, path):
    if kind == "classes":
        task = text_task_from_columns(
            path, {"text": "text", "pair": "pair", "label": "label"}
        )
        return text_task_config(task)
    if kind == "number":
        return text_task_config(
            text_task_from_columns(
                path, {"text": "text", "label": "label"}, number=True
            )
        )
    name = {
        "choices": "dream",
        "spans": "squad1.1",
        "joint spans": "squad2.0",
        "words": "ner",
    }[kind]
    task_config = known_task(name)
    if kind == "words":
        labels = ("B-X", "B-Y", "O")
        task_config = dataclasses.replace(task_config, labels=labels)
    if kind == "choices":
        return with_settings(task_config, {"max_qa_length": 24})
    if "spans" in kind:
        return with_settings(task_config, {"max_query_length": 16})
    return task_config


@pytest.mark.parametrize(
    ("kind", "metric", "perfect"),
    [
        ("classes", "accuracy", 1.0),
        # The losses of these two are compared with the original's, too.
        pytest.param("number", "pearson", 1.0, marks=pytest.mark.long),
        ("choices", "accuracy", 1.0),
        pytest.param("spans", "f1", 100.0, marks=pytest.mark.long),
        ("joint spans", "f1", 100.0),
        ("words", "accuracy", 1.0),
    ],
)
def test_learns_by_heart(
    kind, metric, perfect, task_files, checkpoint, tmp_path
):
    path = task_files[kind]
    config = FinetuneConfig(
        output=tmp_path / "run",
        init_from=checkpoint,
        # A number takes longer than a label.
        num_train_steps=200 if kind == "number" else 100,
        steps_per_loop=50,
        eval_steps=50,
        log_steps=50,
        log_update_norms=False,
        train_batch_size=32,
        learning_rate=2e-3 if kind == "number" else 5e-3,
        weight_decay=0.0,
        head_dropout=0.0,
    )
    task_config = with_settings(describe(kind, path), SETTINGS)
    result = finetune(config, task_config, TaskFiles(train=[path], dev=[path]))
    assert result.scores[metric] == pytest.approx(perfect, abs=5e-3)
