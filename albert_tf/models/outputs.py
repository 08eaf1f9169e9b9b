"""Attentions beside the outputs of models, and outputs that have labels."""

from __future__ import annotations

from collections.abc import Mapping


def with_attentions(outputs, attentions):
    """Returns a model's outputs with its attentions, unless these are None.

    Logits alone become a dict with the key `logits`.
    """
    if attentions is None:
        return outputs
    if not isinstance(outputs, Mapping):
        outputs = {"logits": outputs}
    return {**outputs, "attentions": attentions}


def without_attentions(outputs):
    """Returns what `with_attentions` was given."""
    if not isinstance(outputs, Mapping) or "attentions" not in outputs:
        return outputs
    outputs = {k: v for k, v in outputs.items() if k != "attentions"}
    return outputs["logits"] if list(outputs) == ["logits"] else outputs


def outputs_with_labels(outputs, labels):
    """Drops outputs without labels: Keras asks for one for each output."""
    if not isinstance(labels, dict):
        return without_attentions(outputs)
    if not isinstance(outputs, dict):
        return outputs
    return {name: value for name, value in outputs.items() if name in labels}
