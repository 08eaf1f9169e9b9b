"""A small pretrained model for notebooks and first steps."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import albert_tf
from albert_tf.data.manifest import MANIFEST_NAME
from albert_tf.demo.stories import stories, write_stories
from albert_tf.text.vocabulary import VocabularyConfig, train_vocabulary
from albert_tf.training.checkpoint_files import run_checkpoints

_DOCUMENTS = 4000
# Of the model of one layer and of two.
_STEPS = 900, 450


def pretrain_small_model(output: str | os.PathLike[str]) -> str:
    """Pretrains a model on synthetic stories, in about a minute on two cores.

    A model of one layer is trained first and grown to two layers, which leaves
    the plateau of masked language modeling sooner (docs/small_models.md).

    Args:
      output: Folder for the text, the records and both runs. What an earlier
        call has finished there is not repeated.

    Returns:
      The folder of the finished run, a checkpoint with its tokenizer.

    Raises:
      KeyboardInterrupt: if the training is interrupted.
    """
    folder = pathlib.Path(output)
    if not (folder / "data" / MANIFEST_NAME).exists():
        _write_records(folder)
    tokenizer = albert_tf.AlbertTokenizer.from_pretrained(folder / "data")
    common: dict[str, Any] = {
        "input": str(folder / "data"),
        "train_batch_size": 64,
        "optimizer": "adamw",
        "learning_rate": 1e-3,
        "log_steps": 200,
        "eval_steps": 0,
    }
    one_layer = albert_tf.AlbertConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=128,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=512,
        max_position_embeddings=128,
        initializer_range=0.04,
    )
    _pretrain(
        albert_tf.PretrainConfig(
            **common,
            model=one_layer,
            output=folder / "one_layer",
            num_train_steps=_STEPS[0],
            num_warmup_steps=_STEPS[0] // 10,
        )
    )
    _pretrain(
        albert_tf.PretrainConfig(
            **common,
            init_from=folder / "one_layer",
            config_overrides={"num_hidden_layers": 2},
            output=folder / "run",
            num_train_steps=_STEPS[1],
            num_warmup_steps=_STEPS[1] // 10,
        )
    )
    return str(folder / "run")


def _write_records(folder: pathlib.Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = write_stories(folder / "stories.txt", _DOCUMENTS)
    vocabulary = train_vocabulary(
        (line for story in stories(_DOCUMENTS) for line in story),
        folder / "spiece",
        VocabularyConfig(vocab_size=900, model_type="bpe"),
        overwrite=True,  # It may be that of an interrupted call.
    )
    albert_tf.create_pretraining_data(
        albert_tf.PretrainingDataConfig(
            input=[str(text)],
            output=folder / "data",
            tokenizer=albert_tf.AlbertTokenizer.from_file(vocabulary),
            max_seq_length=32,
            max_predictions_per_seq=5,
            pack=False,
            ngram=1,
            short_seq_prob=0.3,
            heldout_fraction=0.05,
        )
    )


def _pretrain(config: albert_tf.PretrainConfig) -> None:
    """Trains, or resumes, a run that is not finished."""
    if max(run_checkpoints(config.output), default=0) < config.num_train_steps:
        if albert_tf.pretrain(config).interrupted:
            raise KeyboardInterrupt
