"""What all ALBERT models have in common."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import keras
from absl import logging

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.interop.checkpoint import Checkpoint
from albert_tf.interop.opening import open_checkpoint
from albert_tf.interop.vocabularies import Vocabulary
from albert_tf.models.pretrained import (
    assign_weights,
    checkpoint_of,
    write_pretrained,
)
from albert_tf.text.base_tokenizer import Tokenizer


class AlbertModel(keras.Model):
    """A Keras model with an architecture.

    Every model is built when it is constructed, takes a dict, and has
    variables whose `path` is a stable public name.

    Attributes:
      config: the architecture.
      vocabulary: what came with the checkpoint, saved with the model.
      load_report: what `from_pretrained` read, left and made; else "".

    Args:
      config: the architecture.
      **kwargs: `name`, `dtype` and `trainable` of `keras.Model`.
    """

    # The task head in the words of `interop.names`, for checkpoints that do not
    # say what theirs is.
    HEAD: str | None = None

    # The arguments that say what the head is to be.
    HEAD_ARGUMENTS: tuple[str, ...] = ()

    def __init__(self, config: AlbertConfig, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.head_dropout = 0.1
        self.vocabulary = Vocabulary()
        self.load_report = ""

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer that came with the checkpoint, or None."""
        return self.vocabulary.tokenizer

    @classmethod
    def from_pretrained(
        cls,
        path: str | os.PathLike[str],
        *,
        new_head: bool = False,
        config: AlbertConfig | None = None,
        config_overrides: Mapping[str, Any] | None = None,
        revision: str | None = None,
        **arguments,
    ):
        """Makes a model from a checkpoint of any system.

        Every tensor of the checkpoint is accounted for, and every weight of the
        model must be there. `load_report` of the model says what was read, and
        what the model does not have, such as the pretraining heads of a
        checkpoint that a classifier is made from.

        Args:
          path: a folder, an archive, a file or a name; see
            `interop.opening.open_checkpoint`.
          new_head: make the task head anew; of an `AlbertPretrainer`, the heads
            that the checkpoint lacks. A classifier whose `num_labels` is given
            gets a new head where the checkpoint has none, too.
          config: the architecture of a TensorFlow checkpoint that has no config
            file beside it.
          config_overrides: fields of the config to replace, such as
            `{"hidden_dropout_prob": 0.1}`.
          revision: of a name on the Hugging Face hub.
          **arguments: of the model, such as `num_labels`, `packed` or `dtype`.

        Raises:
          InputError: the checkpoint cannot be opened, or does not fit.
        """
        checkpoint = open_checkpoint(
            path,
            # Whose head it is does not matter to a model without one.
            head=cls.HEAD or "classifier_head",
            config=config,
            config_overrides=config_overrides,
            revision=revision,
        )
        return cls.from_checkpoint(checkpoint, new_head=new_head, **arguments)

    @classmethod
    def from_checkpoint(
        cls, checkpoint: Checkpoint, *, new_head: bool = False, **arguments
    ):
        """Makes a model from an open checkpoint; see `from_pretrained`."""
        decided = cls._arguments_of(checkpoint, new_head, arguments)
        for name in cls.HEAD_ARGUMENTS:
            if name not in decided | arguments:
                raise InputError(
                    f"{checkpoint.source} ({checkpoint.format}) has no head of "
                    f"an {cls.__name__}; give {name}=... for a new one"
                )
        model = cls(checkpoint.config, **decided | arguments)
        # Who says what head it is to be asks for one.
        asked = bool(set(cls.HEAD_ARGUMENTS) - set(decided))
        report = assign_weights(model, checkpoint, new_head or asked)
        model.vocabulary = checkpoint.vocabulary
        if model.vocabulary.problem:
            logging.warning("no tokenizer: %s", model.vocabulary.problem)
        model.load_report = report
        return model

    def save_pretrained(
        self,
        folder: str | os.PathLike[str],
        tokenizer: Tokenizer | None = None,
    ) -> None:
        """Writes a folder that `from_pretrained` and transformers open.

        `config.json`, `model.safetensors` and the tokenizer's files, in
        Hugging Face's names and shapes. What its ALBERT cannot express is
        written in the same scheme: `sharing` other than "all" so that it
        refuses the folder.

        Args:
          folder: it may exist; these files are replaced, each as a whole.
          tokenizer: saved with the model; by default the one that the model
            was loaded with, if any.

        Raises:
          InputError: the folder cannot be written to.
        """
        if tokenizer is not None:
            self.vocabulary = Vocabulary(tokenizer)
        write_pretrained(checkpoint_of(self), folder)

    @classmethod
    def _arguments_of(
        cls, checkpoint: Checkpoint, new_head: bool, given: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Returns the constructor's arguments that a checkpoint decides.

        Args:
          checkpoint: what the model is made from.
          new_head: whether its task head is not to be read.
          given: the arguments that the caller gives; they win.
        """
        return {}

    def compute_loss(
        self, x=None, y=None, y_pred=None, sample_weight=None, training=True
    ):
        """Returns the loss, as Keras does, of the outputs that have labels."""
        return super().compute_loss(
            x, y, _with_labels(y_pred, y), sample_weight, training
        )

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """Returns the metrics, as Keras does, of the outputs with labels."""
        return super().compute_metrics(
            x, y, _with_labels(y_pred, y), sample_weight
        )

    def get_config(self) -> dict[str, Any]:
        """Returns what `from_config` needs."""
        return {**super().get_config(), "config": self.config.to_dict()}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects=None):
        """Makes the model that `get_config` described."""
        architecture = AlbertConfig.from_dict(config["config"])
        return cls(**{**config, "config": architecture})


def _with_labels(outputs, labels):
    """Leaves out what has no label: Keras asks for one for each output."""
    if not (isinstance(outputs, dict) and isinstance(labels, dict)):
        return outputs
    return {name: value for name, value in outputs.items() if name in labels}
