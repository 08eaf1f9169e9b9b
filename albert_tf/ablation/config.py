"""Settings and scales of ablation studies."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Mapping
from typing import Any, Literal

from albert_tf.config import AlbertConfig
from albert_tf.data.data_config import ReadingConfig
from albert_tf.data.text_files import TextPath, find_text_files, size_of
from albert_tf.errors import counted
from albert_tf.files import is_remote, split_patterns
from albert_tf.settings import described, require, setting
from albert_tf.text.vocabulary_paths import ModelType

# The default of `create-data`.
_MASKED_LM_PROB = 0.15

Scale = Literal["smoke", "minutes", "hours", "days"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScaleSettings:
    """Sizes of the model, the data and the runs.

    Attributes:
      hidden_size: Hidden size of the base model. Its layers share all weights;
        it has half this embedding size, and attention heads of size 32.
      max_vocab_size: Maximum size that is chosen by the user's text.
      max_seq_length: Sequence length in tokens.
      ngram: Maximum number of words that are masked together.
      train_batch_size: Sequences per step.
      num_train_steps: Steps of each run of the base model.
      learning_rate: Peak learning rate of AdamW, reached after a tenth of the
        steps and decayed linearly to 0. It is lower for wider models, see
        `StudyRow.learning_rate`.
      seeds: Runs of each row.
      text_megabytes: Maximum size of the training text in MB.
      default_text: Text to use if none is given: "chronicles", synthetic text
        (`albert_tf.ablation.chronicles`), or "packages", the English text in
        installed packages.
      finetuning_rate: Peak learning rate of fine-tuning.
      train_pairs: Pairs of chronicles to fine-tune on, see `Study.fine_tuned`.
      dev_pairs: Pairs to score the fine-tuned models on.
    """

    hidden_size: int
    num_hidden_layers: int
    vocab_size: int
    max_vocab_size: int
    max_seq_length: int
    train_batch_size: int
    num_train_steps: int
    learning_rate: float
    seeds: int
    text_megabytes: float
    ngram: int = 3
    default_text: Literal["chronicles", "packages"] = "packages"
    model_type: ModelType = "unigram"
    finetuning_rate: float = 2e-4
    finetuning_epochs: float = 3.0
    train_pairs: int = 0
    dev_pairs: int = 0

    @property
    def max_predictions_per_seq(self) -> int:
        """Masked positions of a sequence."""
        return max(1, round(_MASKED_LM_PROB * self.max_seq_length))

    @property
    def base(self) -> AlbertConfig:
        """The model that the rows of the studies change."""
        return AlbertConfig(
            vocab_size=self.vocab_size,
            embedding_size=self.hidden_size // 2,
            hidden_size=self.hidden_size,
            num_hidden_layers=self.num_hidden_layers,
            num_attention_heads=self.hidden_size // 32,
            intermediate_size=4 * self.hidden_size,
            max_position_embeddings=self.max_seq_length,
            # Keeps activations equally large at every width. BERT's 0.02 is
            # for widths from 768, and keeps small models on a plateau.
            initializer_range=round(0.8 / self.hidden_size**0.5, 3),
        )


SCALES: Mapping[Scale, ScaleSettings] = {
    "smoke": ScaleSettings(
        hidden_size=64,
        num_hidden_layers=2,
        vocab_size=300,
        max_vocab_size=2000,
        max_seq_length=32,
        train_batch_size=8,
        num_train_steps=4,
        learning_rate=1e-3,
        seeds=2,
        text_megabytes=0.1,
        default_text="chronicles",
        model_type="bpe",
        train_pairs=64,
        dev_pairs=64,
    ),
    # Each document of the chronicles is one sequence, each word one piece.
    "minutes": ScaleSettings(
        hidden_size=64,
        num_hidden_layers=2,
        vocab_size=440,
        max_vocab_size=4000,
        max_seq_length=48,
        train_batch_size=32,
        num_train_steps=1200,
        learning_rate=1e-3,
        seeds=5,
        text_megabytes=2,
        default_text="chronicles",
        model_type="bpe",
        finetuning_epochs=10.0,
        train_pairs=4000,
        dev_pairs=1000,
    ),
    # With short records and single masked words, two layers leave the plateau
    # after 5 to 15 M tokens of Wikipedia. With 128 tokens, and up to three
    # words masked together, they were still on it after 40 M (15.0 %).
    "hours": ScaleSettings(
        hidden_size=192,
        num_hidden_layers=2,
        vocab_size=8000,
        max_vocab_size=8000,
        max_seq_length=64,
        ngram=1,
        train_batch_size=64,
        num_train_steps=5000,
        learning_rate=1e-3,
        seeds=5,
        text_megabytes=50,
    ),
    "days": ScaleSettings(
        hidden_size=320,
        num_hidden_layers=4,
        vocab_size=30000,
        max_vocab_size=30000,
        max_seq_length=64,
        ngram=1,
        train_batch_size=256,
        num_train_steps=40_000,
        learning_rate=7e-4,
        seeds=5,
        text_megabytes=1000,
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class AblationConfig(ReadingConfig):
    """Settings of ablation studies: the flags of `albert ablate`."""

    output: str | os.PathLike[str] = dataclasses.field(
        metadata=described("Folder to make or to resume.")
    )
    input: str | None = setting(
        None,
        "Text files: glob patterns separated by commas; default: synthetic "
        "text for smoke and minutes, else the English text in the docstrings "
        "of installed packages.",
    )
    scale: Scale = setting("minutes", "Size of models, text and runs.")
    seeds: int | None = setting(
        None, "Runs of each row; default: from the scale.", bounds="[1, 100]"
    )
    vocab_size: int | None = setting(
        None,
        "Size of the vocabulary; default: from the scale or, with --input, the "
        "characters and frequent words of the text.",
        bounds="[1, 1000000]",
    )
    num_train_steps: int | None = setting(
        None,
        "Steps of each run of the base model; default: from the scale.",
        bounds="[1, 100000000]",
    )
    train: str | None = setting(
        None,
        "Tables (CSV, TSV or JSON lines) to fine-tune each pretrained model "
        "on; default: models are compared by their loss on masked words.",
    )
    dev: str | None = setting(None, "Tables to score the fine-tuned models on.")
    text_column: str = setting("text", "Tables: column of the text.")
    pair_column: str | None = setting(
        None, "Tables: column of a second text; default: none."
    )
    label_column: str = setting("label", "Tables: column of the label.")
    # Scripts that set more than one need `if __name__ == "__main__":`.
    num_workers: int = setting(
        1,
        "Number of parallel runs, each in a process with its share of the "
        "cores.",
        bounds="[1, 1024]",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        both = (self.train is None) == (self.dev is None)
        for name, other in (("train", "dev"), ("dev", "train")):
            require(
                self, name, both, f"given together with {other}, or not at all"
            )

    @property
    def scale_settings(self) -> ScaleSettings:
        """The scale, with the settings that replace parts of it."""
        scale = SCALES[self.scale]
        return dataclasses.replace(
            scale,
            vocab_size=self.vocab_size or scale.vocab_size,
            num_train_steps=self.num_train_steps or scale.num_train_steps,
        )

    @property
    def num_seeds(self) -> int:
        """Number of runs of each row."""
        return self.seeds or self.scale_settings.seeds

    def text_files(self) -> list[TextPath]:
        """Returns the text files, an empty list for the default text."""
        return [] if self.input is None else find_text_files(self.input)

    def input_files(self) -> list[TextPath]:
        """Returns all files that are read.

        Raises:
          InputError: if a text file does not exist.
        """
        tables = split_patterns(self.train or ())
        tables += split_patterns(self.dev or ())
        local = (x if is_remote(x) else pathlib.Path(x) for x in tables)
        return [*self.text_files(), *local]

    def settings(self) -> dict[str, Any]:
        """Returns the settings that determine the results, as JSON values."""
        tables = {
            name: split_patterns(files)
            for name, files in (("train", self.train), ("dev", self.dev))
            if files
        }
        return {
            "scale": self.scale,
            "scale_settings": dataclasses.asdict(self.scale_settings),
            "seeds": self.num_seeds,
            "files": [
                [os.fspath(file), size_of(file)] for file in self.input_files()
            ],
            # Studies without tables were written without this key.
            **({"tables": tables} if tables else {}),
            "columns": [self.text_column, self.pair_column, self.label_column],
            "text_format": self.text_format,
            "text_field": self.text_field,
            "language": self.language,
            "encoding_errors": self.encoding_errors,
        }

    def describe(self) -> str:
        """Returns a paragraph about the base model and its training."""
        scale, base = self.scale_settings, self.scale_settings.base
        default = {
            "chronicles": "the synthetic chronicles",
            "packages": "the English text in installed packages",
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
            f"{text}; {counted(self.num_seeds, 'seed')}."
        )
