"""Training of an objective with Keras's `fit`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import keras

from albert_tf.models.base import AlbertModel
from albert_tf.objectives.objective import Objective
from albert_tf.objectives.registry import objective_class

if TYPE_CHECKING:
    from typing import Self  # new in Python 3.11


@keras.saving.register_keras_serializable(package="albert_tf")
class PretrainingModel(keras.Model):
    """A model and its objective, to be trained with `fit` on any backend.

        objective = make_objective("rtd", pair_task="none", mask_id=4)
        model = PretrainingModel(objective.create_model(config), objective)
        model.compile("adam")
        model.fit(pretraining_dataset("data", global_batch_size=32), ...)
        model.model.encoder.save_pretrained("encoder")

    `fit` and `evaluate` take batches of `pretraining_dataset`; all labels are
    part of them. With several replicas, `fit` averages over each replica's
    batch, unlike `albert pretrain`. All models of a process must share one
    strategy, such as that of `training.distribution.make_strategy`: TensorFlow
    mixes up the collectives of two ("Shape mismatch in the collective").

    Args:
      model: a model of `objective.create_model`.
      objective: the objective.
      **kwargs: arguments of `keras.Model`.

    Raises:
      InputError: if the model does not have the heads of the objective.
    """

    def __init__(self, model: AlbertModel, objective: Objective, **kwargs):
        # float32 batches, such as weights, stay what they are.
        policy = {"dtype": model.dtype_policy, "autocast": False}
        super().__init__(**{**policy, **kwargs})
        objective.attach(model)
        self.model = model
        self.objective = objective
        self._seeds = keras.random.SeedGenerator()
        self._means = {
            name: keras.metrics.Mean(name)
            for name in objective.metric_names
            if name != "loss"  # Keras has its own.
        }
        self.built = True

    def call(self, inputs, training=False):
        """Returns `loss`, and the sum and the weight of each metric."""
        loss, metrics = self.objective(
            self.model,
            inputs,
            self.objective.normalizers(inputs),
            self._seeds.next() if training else None,
        )
        return {**metrics, "loss": loss}

    def compute_loss(
        self, x=None, y=None, y_pred=None, sample_weight=None, training=True
    ):
        """Returns the loss of `call`, which Keras adds up over replicas."""
        assert y_pred is not None  # Keras calls the model first.
        loss = y_pred["loss"]
        for regularization in self.losses:
            loss = loss + regularization
        return self._aggregate_additional_loss(loss)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of `from_config`."""
        return {
            **super().get_config(),
            "model": keras.saving.serialize_keras_object(self.model),
            "objective": self.objective.name,
            "objective_settings": dataclasses.asdict(self.objective),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects=None) -> Self:
        """Creates a model from the output of `get_config`.

        Raises:
          InputError: if the class of the objective was not imported.
        """
        config = dict(config)
        objective = objective_class(config.pop("objective"))
        return cls(
            keras.saving.deserialize_keras_object(
                config.pop("model"), custom_objects
            ),
            objective(**config.pop("objective_settings")),
            **config,
        )

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """Returns the means of the metrics so far in this epoch."""
        for name, mean in self._means.items():
            total, weight = y_pred[name][0], y_pred[name][1]
            mean.update_state(
                keras.ops.divide_no_nan(total, weight), sample_weight=weight
            )
        return self.get_metrics_result()
