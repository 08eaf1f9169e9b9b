"""SQuAD 1.1 and 2.0, and CMRC 2018."""

from __future__ import annotations

import dataclasses

from albert_tf.finetuning.question_answering.features import WindowSettings
from albert_tf.finetuning.task_config import TaskConfig

DEFAULT_SETTINGS = {
    **dataclasses.asdict(WindowSettings()),
    "head": "v1",
    "start_n_top": 5,
    "end_n_top": 5,
    "n_best": 20,
    "max_answer_length": 30,
    "rules": "squad1.1",
    "null_threshold": None,
}

_SQUAD = {"train": "train-v{}.json", "dev": "dev-v{}.json"}
_CMRC = {x: f"cmrc2018_{x}.json" for x in ("train", "dev")}
_CMRC["test"] = "cmrc2018_trial.json"
_JOINT = {"head": "joint", "rules": "squad2.0"}
_LONG = {"max_seq_length": 512, "rules": "cmrc"}
SQUAD_1, SQUAD_2, CMRC = (
    TaskConfig(
        name=name,
        task_type="question_answering",
        metrics=("f1", metric),
        settings={**DEFAULT_SETTINGS, **settings},
        source={
            "reader": reader,
            "folder": folder,
            "files": {
                split: file.format(name.removeprefix("squad"))
                for split, file in files.items()
            },
        },
    )
    for name, reader, folder, metric, files, settings in (
        ("squad1.1", "squad", "squad", "exact_match", _SQUAD, {}),
        ("squad2.0", "squad", "squad", "exact", _SQUAD, _JOINT),
        ("cmrc2018", "cmrc", "cmrc2018", "exact_match", _CMRC, _LONG),
    )
)
