"""Settings of the demo."""

from __future__ import annotations

import dataclasses
import os

from albert_tf.data.data_config import ReadingConfig, TextFormat
from albert_tf.settings import setting
from albert_tf.text.vocabulary_paths import ModelType


@dataclasses.dataclass(frozen=True, kw_only=True)
class DemoConfig(ReadingConfig):
    """Settings of the demo: the flags of `albert demo`."""

    input: str | None = setting(
        None,
        "Text files: glob patterns separated by commas; default: English text "
        "from the docstrings of installed packages.",
    )
    text_format: TextFormat = "prose"
    output: str | os.PathLike[str] | None = setting(
        None,
        "Folder to make; default: runs/demo, with a number if that exists.",
    )
    vocab_size: int = setting(
        4000, "Size of the vocabulary.", bounds="[13, inf)"
    )
    model_type: ModelType = setting("unigram", "Type of the vocabulary.")
    num_train_steps: int = setting(
        3000, "Number of pretraining steps.", bounds="[6, inf)"
    )
    classifier_examples: int = setting(
        1200, "Passages to train the classifier on.", bounds="[6, inf)"
    )
    seed: int = setting(1, "Random seed.", bounds=f"[0, {2**31})")
