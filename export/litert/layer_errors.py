"""How far a quantized encoder is from its float32 original, at each depth."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from albert_tf.export.litert.conversion import Example, convert
from albert_tf.export.litert.interpreter import signature_runner
from albert_tf.export.litert.program import ConstantGraph, LiteRtProgram
from albert_tf.models.encoder import AlbertEncoder


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayerError:
    """The difference of hidden states after a block, over all real tokens.

    Attributes:
      block: from 1; layers times blocks of a layer is the last.
      largest: the largest absolute difference of two values.
      relative: the norm of all differences, over that of the float32 states.
      cosine: the smallest cosine between the two states of a token.
    """

    block: int
    largest: float
    relative: float
    cosine: float


def layer_errors(
    model: AlbertEncoder,
    quantization: str,
    examples: Sequence[Example],
    *,
    calibration: Sequence[Example] | None = None,
) -> list[LayerError]:
    """Compares a quantization with float32, block by block.

    Shared layers make one rounding of the weights count at every depth: the
    differences may add up.

    Args:
      model: the encoder.
      quantization: see `convert`.
      examples: rows of one length to run both on.
      calibration: see `convert`.

    Returns:
      The error after each block.
    """
    program = LiteRtProgram(
        model=model,
        forward=_all_states,
        seq_length=examples[0]["input_word_ids"].shape[1],
    )
    graph = ConstantGraph(program)
    exact = _states(convert(graph), examples)
    rough = _states(convert(graph, quantization, calibration), examples)
    return [
        LayerError(
            block=block,
            largest=float(np.abs(ours - theirs).max()),
            relative=float(
                np.linalg.norm(ours - theirs) / np.linalg.norm(theirs)
            ),
            cosine=float(_cosines(ours, theirs).min()),
        )
        for block, (ours, theirs) in enumerate(
            zip(rough, exact, strict=True), start=1
        )
    ]


def _all_states(encoder, inputs):
    states = encoder(inputs)["encoder_outputs"]
    return {f"block_{i:04}": x for i, x in enumerate(states)}


def _states(model: bytes, examples: Sequence[Example]) -> list[np.ndarray]:
    """Returns for each block the states of real tokens `[tokens, hidden]`."""
    run = signature_runner(model)
    outputs = [run(**example) for example in examples]
    return [
        np.concatenate(
            [
                output[name][example["input_mask"] == 1]
                for output, example in zip(outputs, examples, strict=True)
            ]
        )
        for name in sorted(outputs[0])
    ]


def _cosines(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    return np.sum(ours * theirs, axis=1) / lengths
