"""Functions of token ids, as other runtimes than TensorFlow run them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from albert_tf.errors import InputError
from albert_tf.layers.pooling import mean_pooling
from albert_tf.models.base import AlbertModel
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.text.packing import ENCODER_INPUTS
from albert_tf.text.preprocessor import DEFAULT_LENGTH

Tensors = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class IdsProgram:
    """A function of token ids, and the model whose weights it reads.

    Attributes:
      model: the model with the weights.
      forward: maps a model and named inputs to named outputs; runs in a graph,
        without dropout.
      inputs: names of the inputs, each int32 `[batch, seq]`.
      seq_length: number of tokens in a row; of a resizable program, in a row of
        the calibration data.
      resizable: whether the batch size and the length may vary. The graph then
        has unknown dimensions, -1 in `shape_signature`, and interpreters
        compute shapes when they first see them. Otherwise a batch is one row.
      has_pairs: whether a row has two texts.

    Raises:
      InputError: if the model does not support `seq_length`.
    """

    model: AlbertModel
    forward: Callable[[AlbertModel, Tensors], Tensors]
    inputs: tuple[str, ...] = ENCODER_INPUTS
    seq_length: int = DEFAULT_LENGTH
    resizable: bool = False
    has_pairs: bool = False

    def __post_init__(self):
        longest = self.model.config.max_position_embeddings
        if not 2 <= self.seq_length <= longest:
            raise InputError(
                f"seq_length={self.seq_length} must be at least 2, to hold "
                f"[CLS] and [SEP], and at most {longest}, the model's "
                "max_position_embeddings"
            )


def encoder_program(
    model: AlbertEncoder,
    *,
    seq_length: int | None = None,
    resizable: bool = False,
) -> IdsProgram:
    """Returns a program that computes vectors of texts and tokens.

    Its outputs are `mean_output`, which is what `SentenceEmbedder` returns with
    `pooling="mean"`, `pooled_output` and `sequence_output`.

    Args:
      model: the encoder. Without a pooler, there is no `pooled_output`.
      seq_length: see `IdsProgram`; None for 128, or the length of the model if
        that is shorter.
      resizable: see `IdsProgram`.
    """
    if seq_length is None:
        seq_length = min(DEFAULT_LENGTH, model.config.num_trained_positions)

    def forward(encoder, inputs):
        outputs = dict(encoder(inputs))
        del outputs["encoder_outputs"]
        states, mask = outputs["sequence_output"], inputs["input_mask"]
        return {**outputs, "mean_output": mean_pooling(states, mask)}

    return IdsProgram(
        model=model,
        forward=forward,
        seq_length=seq_length,
        resizable=resizable,
    )
