"""Settings of the studies."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Mapping
from typing import Any, Literal

from albert_tf.config import AlbertConfig
from albert_tf.files import split_patterns
from albert_tf.pretraining.data_config import ReadingConfig, TextFormat
from albert_tf.pretraining.text_files import TextPath, find_text_files, size_of
from albert_tf.settings import described, require, setting
from albert_tf.text.vocabulary import ModelType

Scale = Literal["smoke", "minutes", "hours", "days"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScaleSettings:
    """The size of all runs.

    Attributes:
      hidden_size: of the base model, which has 4 layers, an embedding size of
        half of this, heads of 32 and everything shared.
      vocab_size: pieces.
      max_seq_length: tokens of an example.
      train_batch_size: examples of a step.
      num_train_steps: of a run of the base model.
      learning_rate: of AdamW, after a tenth of the steps, then falling to 0.
        Wider models have a smaller one, see `Row.learning_rate`.
      seeds: runs of each row.
      text_megabytes: most text that is used.
      default_text: the text that is used if none is given: "chronicles"
        (`albert_tf.ablation.chronicles`) or "packages", the English text of
        installed packages.
      model_type: kind of the vocabulary.
    """

    hidden_size: int
    vocab_size: int
    max_seq_length: int
    train_batch_size: int
    num_train_steps: int
    learning_rate: float
    seeds: int
    text_megabytes: float
    default_text: Literal["chronicles", "packages"] = "packages"
    model_type: ModelType = "unigram"

    @property
    def base(self) -> AlbertConfig:
        """The model that the rows of the studies change."""
        return AlbertConfig(
            vocab_size=self.vocab_size,
            embedding_size=self.hidden_size // 2,
            hidden_size=self.hidden_size,
            num_hidden_layers=4,
            num_attention_heads=self.hidden_size // 32,
            intermediate_size=4 * self.hidden_size,
            max_position_embeddings=self.max_seq_length,
            # Activations of equal size whatever the width; BERT's 0.02 is for
            # 768 and more, and leaves small models on a plateau.
            initializer_range=round(0.8 / self.hidden_size**0.5, 3),
        )


SCALES: Mapping[Scale, ScaleSettings] = {
    "smoke": ScaleSettings(
        hidden_size=64,
        vocab_size=300,
        max_seq_length=32,
        train_batch_size=8,
        num_train_steps=4,
        learning_rate=1e-3,
        seeds=2,
        text_megabytes=0.1,
        default_text="chronicles",
        model_type="bpe",
    ),
    # A document of the chronicles is an example, and a word a piece.
    "minutes": ScaleSettings(
        hidden_size=64,
        vocab_size=440,
        max_seq_length=48,
        train_batch_size=32,
        num_train_steps=1000,
        learning_rate=1e-3,
        seeds=3,
        text_megabytes=2,
        default_text="chronicles",
        model_type="bpe",
    ),
    "hours": ScaleSettings(
        hidden_size=192,
        vocab_size=8000,
        max_seq_length=64,
        train_batch_size=64,
        num_train_steps=5000,
        learning_rate=1e-3,
        seeds=3,
        text_megabytes=50,
    ),
    "days": ScaleSettings(
        hidden_size=320,
        vocab_size=30000,
        max_seq_length=128,
        train_batch_size=128,
        num_train_steps=40_000,
        learning_rate=7e-4,
        seeds=5,
        text_megabytes=1000,
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class AblationConfig(ReadingConfig):
    """Settings of the studies: the flags of `albert ablate`."""

    output: str | os.PathLike[str] = dataclasses.field(
        metadata=described("Folder to make, or to go on in.")
    )
    input: str | None = setting(
        None,
        "Text files: glob patterns separated by commas; default: made text "
        "for smoke and minutes, for the others the English text of installed "
        "packages, as in `albert demo`.",
    )
    text_format: TextFormat = "prose"
    scale: Scale = setting(
        "minutes", "Size of models, text and runs; how long they take."
    )
    seeds: int | None = setting(
        None,
        "Runs of each row; default: those of the scale.",
        bounds="[1, 100]",
    )
    vocab_size: int | None = setting(
        None,
        "Pieces of the vocabulary, fewer for little or simple text; default: "
        "those of the scale.",
        bounds="[1, 1000000]",
    )
    num_train_steps: int | None = setting(
        None,
        "Steps of a run of the base model; default: those of the scale.",
        bounds="[1, 100000000]",
    )
    train: str | None = setting(
        None,
        "Tables (CSV, TSV or JSON lines) with the columns text and label, that "
        "each pretrained model is fine-tuned on; default: models are compared "
        "by their loss on masked words.",
    )
    dev: str | None = setting(
        None, "Such tables, that the fine-tuned models are scored on."
    )
    # With more than one, a script must guard its start with
    # `if __name__ == "__main__":`.
    num_workers: int = setting(
        1,
        "Runs at a time, each in a process with its share of the processor "
        "cores.",
        bounds="[1, 1024]",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, other in (("train", "dev"), ("dev", "train")):
            require(
                self,
                name,
                (getattr(self, name) is None) == (getattr(self, other) is None),
                f"left out without {other}, or given with it",
            )

    @property
    def scale_settings(self) -> ScaleSettings:
        """The settings of the scale, with those that were given instead."""
        scale = SCALES[self.scale]
        return dataclasses.replace(
            scale,
            vocab_size=self.vocab_size or scale.vocab_size,
            num_train_steps=self.num_train_steps or scale.num_train_steps,
        )

    @property
    def num_seeds(self) -> int:
        """Runs of each row."""
        return self.seeds or self.scale_settings.seeds

    def text_files(self) -> list[TextPath]:
        """Returns the text files; none for the default text."""
        return [] if self.input is None else find_text_files(self.input)

    def given_files(self) -> list[TextPath]:
        """Returns all files that are read.

        Raises:
          InputError: one of them does not exist.
        """
        tables = [
            *split_patterns(self.train or ()),
            *split_patterns(self.dev or ()),
        ]
        return [*self.text_files(), *map(pathlib.Path, tables)]

    def settings(self) -> dict[str, Any]:
        """Returns what decides the results, as JSON values."""
        return {
            "scale": self.scale,
            "scale_settings": dataclasses.asdict(self.scale_settings),
            "seeds": self.num_seeds,
            "files": [
                [os.fspath(file), size_of(file)] for file in self.given_files()
            ],
            "text_format": self.text_format,
            "text_field": self.text_field,
            "language": self.language,
            "encoding_errors": self.encoding_errors,
        }

    def describe(self) -> str:
        """Returns what was run, in a few lines of Markdown."""
        scale, base = self.scale_settings, self.scale_settings.base
        default = {
            "chronicles": "the made chronicles",
            "packages": "the English text of installed packages",
        }
        text = self.input or default[scale.default_text]
        return (
            f"The base model has {base.num_hidden_layers} layers that share "
            f"all weights, hidden size H = {base.hidden_size}, embedding size "
            f"E = {base.embedding_size}, {base.num_attention_heads} heads and "
            f"a vocabulary of {base.vocab_size:,}. It is trained for "
            f"{scale.num_train_steps:,} steps of {scale.train_batch_size} "
            f"sequences of {scale.max_seq_length} tokens with AdamW at "
            f"{scale.learning_rate:g}, on up to {scale.text_megabytes:g} MB of "
            f"{text}; {self.num_seeds} seeds."
        )
