"""What a LiteRT model computes, before it is converted."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.export.model_graph import ModelGraph
from albert_tf.models.base import AlbertModel
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.inputs import ENCODER_INPUTS

Tensors = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LiteRtProgram:
    """A function of rows of ids, and the model whose weights it reads.

    Attributes:
      model: gives the weights; any of our models.
      forward: maps a model like it and the inputs by name to outputs by name;
        runs in a graph, with dropout off.
      inputs: names of the inputs, each int32 `[batch, seq]`.
      seq_length: the length of a row; where it is resizable, that of the rows
        of the calibration, which have one length.
      resizable: whether batches of any size and length are taken. Both are then
        unknowns of the graph, -1 in `shape_signature`, and interpreters compute
        the shapes when one is first seen. Otherwise a batch is one row.

    Raises:
      InputError: the model does not take rows of `seq_length`.
    """

    model: AlbertModel
    forward: Callable[[AlbertModel, Tensors], Tensors]
    inputs: tuple[str, ...] = ENCODER_INPUTS
    seq_length: int = 128
    resizable: bool = False

    def __post_init__(self):
        longest = self.model.config.max_position_embeddings
        if not 2 <= self.seq_length <= longest:
            raise InputError(
                f"seq_length={self.seq_length} must be at least 2, to hold "
                f"[CLS] and [SEP], and at most {longest}, the model's "
                "max_position_embeddings"
            )


def encoder_program(
    model: AlbertEncoder, *, seq_length: int = 128, resizable: bool = False
) -> LiteRtProgram:
    """Returns the encoder: ids -> `sequence_output` and `pooled_output`.

    Args:
      model: the encoder; without a pooler there is no `pooled_output`.
      seq_length, resizable: see `LiteRtProgram`.
    """

    def forward(encoder, inputs):
        outputs = dict(encoder(inputs))
        del outputs["encoder_outputs"]
        return outputs

    return LiteRtProgram(
        model=model,
        forward=forward,
        seq_length=seq_length,
        resizable=resizable,
    )


class ConstantGraph(ModelGraph):
    """A program as a `tf.function` in which weights are constants.

    The converter folds what depends on constants only (the joint kernel of
    query, key and value), lays matrices out for `FULLY_CONNECTED`, and keeps
    one buffer of equal constants: so shared layers are stored once. Variables
    would stay variables, and their products would be `BATCH_MATMUL`s.

    Attributes:
      serve: the function, of keyword arguments; its only signature.

    Args:
      program: what to compute.
    """

    def __init__(self, program: LiteRtProgram):
        super().__init__(program.model, packed=False)
        fixed = [1, program.seq_length]
        shape = [None, None] if program.resizable else fixed
        signature = [
            tf.TensorSpec(shape, tf.int32, name) for name in program.inputs
        ]

        values = [np.asarray(weight) for weight in self._copy.weights]

        def serve(*rows):
            constants = zip(
                self._copy.weights, map(tf.constant, values), strict=True
            )
            inputs = dict(zip(program.inputs, rows, strict=True))
            with keras.StatelessScope(state_mapping=list(constants)):
                return dict(program.forward(self._copy, inputs))

        self.serve = tf.function(
            serve, input_signature=signature, autograph=False
        )
