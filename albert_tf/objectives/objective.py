"""The base class of pretraining objectives."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.interop.checkpoint import Checkpoint
from albert_tf.interop.names import COMPONENTS
from albert_tf.layers.dropout import dropout_seeds, evaluation_seed
from albert_tf.layers.token_rows import take_rows
from albert_tf.models.base import AlbertModel
from albert_tf.models.inputs import SEQUENCE_INPUTS
from albert_tf.settings import check_settings, settings_of
from albert_tf.training.loss import TOKENS, WEIGHTS, sparse_cross_entropy

# Key in batches, float32 `[batch]` or, of rows of several sequences,
# `[batch, sequences]`: 1.0 where `sentence_order_labels` has a label, else 0.0.
SEQUENCE_WEIGHTS = "sentence_order_weights"

Batch = Mapping[str, Any]
# Values and their weights, in the same shape.
Weighted = tuple[Any, Any]


class Term(NamedTuple):
    """A term of the loss: a weighted mean over items of the global batch.

    Attributes:
      losses: float32 loss of each item, in the shape of its `weights`.
      metrics: name -> float32 values, in the same shape; or values and their
        own weights, such as the hits and the number of hits that a recall is
        the ratio of.
      factor: weight of the term in the loss.
      epsilon: number added to the denominator of the mean.
    """

    losses: Any
    metrics: Mapping[str, Any | Weighted]
    factor: float = 1.0
    epsilon: float = 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Objective(abc.ABC):
    """What a pretraining run trains: heads, corruption, loss and metrics.

    An objective is a frozen dataclass, registered under its `name` by
    `register_objective`. Fields that are declared with `settings.setting` are
    its settings, as given by `albert pretrain --objective_settings`. Methods
    use `keras.ops` only, so an objective trains with any backend: in `albert
    pretrain`, and in `fit` as a `PretrainingModel`.

    The loss is the sum of its terms, each a weighted mean over the items of
    the GLOBAL batch, such as masked tokens. So it depends neither on the number
    of replicas and micro-batches, nor on which sequences share a row.

    Random draws take their seed from `layers.dropout.random_seed`, and are then
    a function of the seed and the step of the run.

    Batches are those of `pretraining_dataset`, whose tokens are masked already.
    `original_ids` restores them.

    Attributes:
      pair_task: task of sentence pairs: "sop", "nsp" or "none".
      mask_id: id of [MASK]; None if it is unknown, as for records without a
        tokenizer.
    """

    pair_task: str = "sop"
    mask_id: int | None = None

    # Name for `--objective`.
    name: ClassVar[str]
    # Components of the model besides the encoder: first parts of the paths of
    # its variables. "sop_head" is that of sentence pairs.
    heads: ClassVar[tuple[str, ...]]
    # Names of the terms and their metrics: `mlm_loss` is the loss of the term
    # "mlm". `loss` is known, and so are the metrics of sentence pairs.
    metrics: ClassVar[tuple[str, ...]]
    # Metric -> name of the score of guessing, in `Records.baselines` or another
    # metric, and its label.
    baselines: ClassVar[Mapping[str, tuple[str, str]]] = {}

    def __post_init__(self) -> None:
        if self.pair_task not in ("sop", "nsp", "none"):
            raise InputError(
                f"pair_task={self.pair_task!r} must be sop, nsp or none"
            )
        check_settings(self)

    @property
    def heads_of_fixed_depth(self) -> tuple[str, ...]:
        """Those of `heads` that keep all layers in phases of fewer layers."""
        return ()

    @classmethod
    def trained_heads(cls, checkpoint: Checkpoint) -> tuple[str, ...]:
        """Returns the heads to take from a checkpoint, if they are its own.

        Heads of tasks, such as "token_head", may be those of another objective
        or of a fine-tuned model, and do something else.
        """
        same = checkpoint.objective.get("objective") == cls.name
        return cls.heads if same else ()

    @abc.abstractmethod
    def make_model(self, config: AlbertConfig, **options: Any) -> AlbertModel:
        """Creates the model: an encoder as `model.encoder`, and the heads.

        Each of `heads` is a layer of this name, which is built in the
        constructor of the model. Others call `create_model`.

        Args:
          config: the architecture of the encoder.
          **options: further arguments of the encoder, such as `rematerialize`.
        """

    def create_model(self, config: AlbertConfig, **options: Any) -> AlbertModel:
        """Creates the model by `make_model`, with the checks of `attach`."""
        model = self.make_model(config, **options)
        self.attach(model)
        return model

    def attach(self, model: AlbertModel) -> None:
        """Checks the heads of a model, and notes in it whose they are.

        A head that is not declared, or is built by its first call, would be
        trained but not saved. `save_pretrained` reads the note.

        Raises:
          InputError: if the model does not have the heads of the objective.
        """
        found = {v.path.partition("/")[0] for v in model.weights}
        needed = {*self.heads}
        if self.pair_task == "none":
            needed.discard("sop_head")
        if missing := sorted(needed - found):
            raise InputError(
                f"objective {self.name}: its model has no weights of the head "
                f"{missing[0]!r}; give the layer name={missing[0]!r}, and "
                "build it in the constructor of the model, with "
                "layer.build(shape)"
            )
        if unknown := sorted(found - {*self.heads, *COMPONENTS}):
            raise InputError(
                f"objective {self.name}: its model has weights of "
                f"{unknown[0]!r}, which is not one of heads={self.heads}"
            )
        for layer in model._flatten_layers(include_self=False):
            has_weights = type(layer).build is not keras.layers.Layer.build
            if not layer.built and has_weights:
                raise InputError(
                    f"objective {self.name}: its model has a layer that is not "
                    f"built, {layer.name!r}; build it in the constructor of "
                    "the model, with layer.build(shape)"
                )
        noted = (getattr(model, "objective", None) or {}).get("objective")
        if self.name not in ("mlm", noted):
            changed = {
                declared.name: getattr(self, declared.name)
                for declared in settings_of(type(self))
                if getattr(self, declared.name) != declared.default
            }
            model.objective = {
                "objective": self.name,
                "objective_settings": changed,
            }

    @abc.abstractmethod
    def weights(self, batch: Batch) -> dict[str, Any]:
        """Returns the weights of the items of each term.

        Args:
          batch: a batch of `pretraining_dataset`.

        Returns:
          Name of the term -> float32 weights, the sum of which is the
          denominator of the term.
        """

    @abc.abstractmethod
    def terms(
        self, model: AlbertModel, batch: Batch, training: bool
    ) -> dict[str, Term]:
        """Computes the terms of the loss.

        Args:
          model: the model of `create_model`.
          batch: a batch of `pretraining_dataset`.
          training: whether to apply dropout.

        Returns:
          The terms, with the names of `weights`.
        """

    def step_flops(
        self,
        config: AlbertConfig,
        length: int,
        predictions: int,
        sequences: int = 1,
    ) -> int | None:
        """Returns the operations of an example in a training step.

        Args:
          config: the architecture.
          length: number of tokens, including padding.
          predictions: number of masked positions.
          sequences: maximum number of sequences per row.

        Returns:
          The operations of the matrix products; None if they are not known.
        """
        return None

    def normalizers(self, batch: Batch) -> dict[str, Any]:
        """Returns the denominators of the terms; see `training.loss.Loss`."""
        return {name: ops.sum(x) for name, x in self.weights(batch).items()}

    def __call__(
        self,
        model: AlbertModel,
        batch: Batch,
        normalizers: Mapping[str, Any],
        seed: Any,
    ) -> tuple[Any, dict[str, Any]]:
        """Computes a micro-batch's part of loss and metrics.

        Args:
          model: the model of `make_model`.
          batch: a batch of `pretraining_dataset`.
          normalizers: `normalizers` of the global batch.
          seed: int32 `[2]`, seed of dropout and other draws; None in
            evaluation, which draws the same in every batch.

        Returns:
          The loss, a float32 scalar, and the metrics by name, float32 `[2]`:
          weighted sum and weight; `"tokens"` counts the real tokens. Both are
          summed over all micro-batches and replicas.
        """
        training = seed is not None
        with dropout_seeds(seed if training else evaluation_seed()):
            terms = self.terms(model, batch, training)
        weights = self.weights(batch)
        tokens = ops.sum(ops.cast(batch["input_mask"], "float32"))
        loss, metrics = 0.0, {TOKENS: ops.stack([tokens, 1.0])}
        if missing := terms.keys() - weights.keys():
            raise InputError(
                f"objective={self.name}: `terms` has {', '.join(missing)}, and "
                "`weights` must have it, too"
            )
        for name, term in terms.items():
            total = _sum(f"{name}_loss", term.losses, weights[name])
            count = ops.sum(weights[name])
            part = ops.divide_no_nan(total, normalizers[name] + term.epsilon)
            loss = loss + (part if term.factor == 1 else term.factor * part)
            metrics[f"{name}_loss"] = ops.stack([total, count])
            for metric, values in term.metrics.items():
                of_items = not isinstance(values, tuple)
                x, w = (values, weights[name]) if of_items else values
                metric = f"{name}_{metric}"
                total = _sum(metric, x, w)
                metrics[metric] = ops.stack(
                    [total, count if of_items else ops.sum(w)]
                )
        undeclared = {TOKENS, *self.metric_names} ^ {"loss", *metrics}
        if undeclared:
            raise InputError(
                f"objective={self.name}: {', '.join(sorted(undeclared))} must "
                "be both in `metrics` and a loss or metric of `terms`"
            )
        return loss, metrics

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Names of all metrics, `loss` first."""
        has_pairs = self.pair_task != "none" and "sop_head" in self.heads
        pairs = ("loss", "accuracy") if has_pairs else ()
        return (
            "loss",
            *self.metrics,
            *(f"{self.pair_task}_{metric}" for metric in pairs),
        )

    def sentence_order_weights(self, batch: Batch) -> dict[str, Any]:
        """Returns the weights of `sentence_order_terms`."""
        if self.pair_task == "none":
            return {}
        rows = row_weights(batch)
        weights = batch.get(SEQUENCE_WEIGHTS)
        if weights is None:
            return {self.pair_task: rows}
        axes = (slice(None), *[None] * (len(weights.shape) - 1))
        return {self.pair_task: weights * rows[axes]}

    def sentence_order_terms(
        self, logits: Any, batch: Batch
    ) -> dict[str, Term]:
        """Returns the term of `pair_task`, if any.

        Args:
          logits: `sop_logits`, float32 `[batch, 2]` or, of rows of several
            sequences, `[batch, sequences, 2]`.
          batch: the batch.
        """
        if self.pair_task == "none":
            return {}
        losses, hits = sparse_cross_entropy(
            batch["sentence_order_labels"], logits
        )
        return {self.pair_task: Term(losses, {"accuracy": hits})}

    def known_mask_id(self) -> int:
        """Returns the id of [MASK].

        Raises:
          InputError: if it is unknown.
        """
        if self.mask_id is None:
            raise InputError(
                f"objective={self.name}: needs the id of [MASK], which records "
                "without a tokenizer do not tell; make records with "
                "create-data, or give mask_id in Python"
            )
        return self.mask_id


def encoder_inputs(batch: Batch) -> dict[str, Any]:
    """Returns the encoder's inputs in a batch."""
    names = (*AlbertModel.INPUTS, *SEQUENCE_INPUTS)
    return {name: batch[name] for name in names if name in batch}


def row_weights(batch: Batch) -> Any:
    """Returns the weights of rows, float32 `[batch]`: 0 for padding rows."""
    if WEIGHTS in batch:
        return batch[WEIGHTS]
    return ops.ones(ops.shape(batch["input_mask"])[:1], "float32")


def prediction_weights(batch: Batch) -> Any:
    """Returns the weights of masked tokens, float32 `[batch, predictions]`."""
    return batch["masked_lm_weights"] * row_weights(batch)[:, None]


def token_weights(batch: Batch) -> Any:
    """Returns the weights of tokens, float32 `[batch, seq]`: 0 for padding."""
    mask = ops.cast(batch["input_mask"], "float32")
    return mask * row_weights(batch)[:, None]


def original_ids(batch: Batch) -> Any:
    """Returns the ids of a batch without masks, int32 `[batch, seq]`."""
    return replace_masked(batch, batch["masked_lm_ids"])


def replace_masked(batch: Batch, ids: Any) -> Any:
    """Returns the ids of a batch with others at the masked positions.

    Args:
      batch: the batch.
      ids: int32 `[batch, predictions]`; those of unused predictions are
        ignored.

    Returns:
      int32 `[batch, seq]`.
    """
    before = ops.cast(batch["input_word_ids"], "int32")
    positions = ops.cast(batch["masked_lm_positions"], "int32")
    # Unused predictions write what is there already.
    current = take_rows(before, positions, batch_dims=1)
    used = ops.cast(batch["masked_lm_weights"], "float32") > 0
    ids = ops.where(used, ops.cast(ids, "int32"), current)
    rows, picks = ops.shape(positions)
    row = ops.broadcast_to(
        ops.expand_dims(ops.arange(rows, dtype="int32"), 1), (rows, picks)
    )
    cells = ops.stack([row, positions], axis=-1)
    return ops.scatter_update(
        before, ops.reshape(cells, (-1, 2)), ops.reshape(ids, (-1,))
    )


def _sum(name: str, values: Any, weights: Any) -> Any:
    """Returns the weighted sum; broadcasting would hide a missing axis."""
    if len(values.shape) != len(weights.shape):
        raise InputError(
            f"{name} has the shape {tuple(values.shape)}, but its weights have "
            f"{tuple(weights.shape)}; both must have the same"
        )
    return ops.sum(weights * values)
