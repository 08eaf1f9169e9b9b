"""RACE and DREAM."""

from __future__ import annotations

from albert_tf.finetuning.task_config import TaskConfig

DEFAULT_SETTINGS = {"max_seq_length": 512, "max_qa_length": 128}

_SPLITS = ("train", "dev", "test")

RACE, DREAM = (
    TaskConfig(
        name=name,
        task_type="multiple_choice",
        metrics=("accuracy",),
        settings=DEFAULT_SETTINGS,
        source={
            "reader": name,
            "folder": folder,
            "files": {split: split + ending for split in _SPLITS},
        },
    )
    for name, folder, ending in (
        ("race", "RACE", ""),
        ("dream", "dream", ".json"),
    )
)
