"""Named entities, in the format of CoNLL's shared tasks."""

from __future__ import annotations

from albert_tf.finetuning.task_config import TaskConfig
from albert_tf.finetuning.task_type import TaskType

NER = TaskConfig(
    name="ner",
    task_type="token_classification",
    metrics=("f1", "precision", "recall", "accuracy"),
    settings=TaskType.default_settings,
    source={
        "reader": "conll",
        "folder": "ner",
        "files": {name: f"{name}.txt" for name in ("train", "dev", "test")},
    },
)
