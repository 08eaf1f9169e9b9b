"""Masked language modeling, with sentence order as an option."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from albert_tf.config import AlbertConfig
from albert_tf.models.base import MASKED_LM_POSITIONS, AlbertModel
from albert_tf.models.flops import pretraining_step_flops
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.objectives.objective import (
    Batch,
    Objective,
    Term,
    encoder_inputs,
    prediction_weights,
)
from albert_tf.training.loss import sparse_cross_entropy

# Added to the denominator by the original, for batches without predictions.
_EPSILON = 1e-5


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskedLanguageModeling(Objective):
    """ALBERT's pretraining (paper, section 3.1).

    loss = sum(weight * nll) / (sum(weight) + 1e-5) over the masked tokens of
    the GLOBAL batch + mean cross-entropy of the sentence order. The original
    divides by the weights of each replica's batch instead, so its result
    depends on the number of replicas.
    """

    name: ClassVar[str] = "mlm"
    heads: ClassVar[tuple[str, ...]] = ("mlm_head", "sop_head")
    metrics: ClassVar[tuple[str, ...]] = ("mlm_loss", "mlm_accuracy")
    baselines: ClassVar[Mapping[str, tuple[str, str]]] = {
        "mlm_accuracy": ("mlm_unigram_accuracy", "most frequent token")
    }

    def make_model(self, config: AlbertConfig, **options: Any) -> AlbertModel:
        """Creates an `AlbertPretrainer`."""
        return AlbertPretrainer(config, **options)

    def weights(self, batch: Batch) -> dict[str, Any]:
        """Returns the weights of masked tokens and sentence pairs."""
        return {
            "mlm": prediction_weights(batch),
            **self.sentence_order_weights(batch),
        }

    def terms(
        self, model: AlbertModel, batch: Batch, training: bool
    ) -> dict[str, Term]:
        """Computes the cross-entropy of masked tokens and sentence pairs."""
        inputs = encoder_inputs(batch)
        inputs[MASKED_LM_POSITIONS] = batch[MASKED_LM_POSITIONS]
        outputs = model(inputs, training=training)
        losses, hits = sparse_cross_entropy(
            batch["masked_lm_ids"], outputs["mlm_logits"]
        )
        term = Term(losses, {"accuracy": hits}, epsilon=_EPSILON)
        return {
            "mlm": term,
            **self.sentence_order_terms(outputs.get("sop_logits"), batch),
        }

    def step_flops(
        self,
        config: AlbertConfig,
        length: int,
        predictions: int,
        sequences: int = 1,
    ) -> int:
        """Returns the operations of an example in a training step."""
        return pretraining_step_flops(
            config, length, predictions, self.pair_task != "none", sequences
        )
