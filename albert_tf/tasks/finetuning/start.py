"""Where fine-tuning starts: architecture, tokenizer and weights."""

from __future__ import annotations

import dataclasses
import os

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.interop.checkpoint import Checkpoint
from albert_tf.interop.opening import open_checkpoint
from albert_tf.models.base import AlbertModel
from albert_tf.tasks.evaluate_pretraining import load_run_config
from albert_tf.tasks.finetuning.config import FinetuneConfig
from albert_tf.tasks.finetuning.kinds.base import TaskKind
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.tokenizer_files import load_tokenizer
from albert_tf.training.checkpoint_files import FOLDER, list_checkpoints


@dataclasses.dataclass(frozen=True, kw_only=True)
class Start:
    """What a run starts from.

    Attributes:
      architecture: of the model.
      tokenizer: of the model.
      checkpoint: the weights; None: the run has checkpoints of its own.
    """

    architecture: AlbertConfig
    tokenizer: Tokenizer
    checkpoint: Checkpoint | None

    def make_model(self, kind: TaskKind, config: FinetuneConfig) -> AlbertModel:
        """Makes the model, with a new head; call it under the scope.

        Args:
          kind: of the task.
          config: the settings.

        Raises:
          InputError: the checkpoint lacks a part of the encoder.
        """
        arguments = {
            **kind.model_arguments(),
            "dropout": config.head_dropout,
            "packed": not config.fixed_length,
            "rematerialize": config.rematerialize,
        }
        if self.checkpoint is None:
            return kind.model_class(self.architecture, **arguments)
        return kind.model_class.from_checkpoint(
            self.checkpoint, new_head=True, **arguments
        )


def open_start(config: FinetuneConfig) -> Start:
    """Opens what a run starts from.

    A run that has a checkpoint of its own goes on from that, and does not need
    what it once started from.

    Raises:
      InputError: it cannot be opened, or has no tokenizer.
    """
    run_dir = os.fspath(config.output_dir)
    if list_checkpoints(os.path.join(run_dir, FOLDER)):
        return Start(
            architecture=load_run_config(run_dir).replace(
                **config.model_changes
            ),
            tokenizer=load_tokenizer(run_dir),
            checkpoint=None,
        )
    # Whose head it is does not matter: it is not used.
    checkpoint = open_checkpoint(
        config.init_from,
        head="classifier_head",
        config_overrides=config.model_changes,
    )
    if checkpoint.tokenizer is None:
        raise InputError(
            f"init_from={config.init_from}: holds no tokenizer that can be used"
            f"{checkpoint.vocabulary.problem and ': '}"
            f"{checkpoint.vocabulary.problem}; put its files into the folder"
        )
    return Start(
        architecture=checkpoint.config,
        tokenizer=checkpoint.tokenizer,
        checkpoint=checkpoint,
    )
