"""A Keras 3 layer around a TF-Hub text SavedModel."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import keras
import tensorflow as tf
import tensorflow_text  # noqa: F401  Registers the ops of tokenizers.

from albert_tf.backend import check_backend
from albert_tf.errors import InputError
from albert_tf.input_files import check_not_web_address

# A folder, or what was loaded from it.
Source = str | os.PathLike[str] | Callable[..., Any]


@keras.saving.register_keras_serializable(package="albert_tf")
class HubLayer(keras.layers.Layer):
    """Calls a SavedModel and trains its weights, as `hub.KerasLayer` does.

    `hub.KerasLayer` is a layer of tf_keras. In a Keras 3 functional model it
    fails, and in a subclassed model its weights are silently not trained. This
    layer follows the same contract
    (https://www.tensorflow.org/hub/reusable_saved_models): it trains
    `trainable_variables` and no other `variables`, adds
    `regularization_losses` while it is trainable, and calls the SavedModel with
    `training=True` (dropout) if it is trainable and its model is training.

    Inputs and outputs are those of the SavedModel. An encoder maps a dict of
    integer `[batch, seq]` named `input_word_ids`, `input_mask` and
    `input_type_ids` to a dict with `pooled_output` `[batch, hidden]` and
    `sequence_output` `[batch, seq, hidden]`. A preprocessor maps strings
    `[batch]` to the encoder's inputs.

    Args:
      path: folder of the SavedModel, local or on a file system that TensorFlow
        reads (`gs://...`). Web addresses are not downloaded. Or what
        `tf.saved_model.load` returned, or an endpoint of that; a Keras model
        with the layer can then not be saved as a `.keras` file.
      trainable: whether the weights are trained.
      endpoint: name of an attribute of the loaded object to call, such as "mlm"
        of an encoder; None to call the object itself.
      arguments: keyword arguments of every call, such as `{"seq_length": 64}`
        for a preprocessor.
      output_key: name of the output to return, such as "pooled_output"; None
        for all of them.
      **kwargs: `name` and `dtype` of `keras.layers.Layer`. The SavedModel
        computes in its own precision, whatever `dtype` is.

    Raises:
      InputError: if `path` is not a SavedModel, or it lacks the endpoint.

    Example:
      >>> strings = keras.Input((), dtype="string")
      >>> inputs = HubLayer("albert_preprocess")(strings)
      >>> pooled = HubLayer("albert_base")(inputs)["pooled_output"]
      >>> model = keras.Model(strings, keras.layers.Dense(1)(pooled))
    """

    def __init__(
        self,
        path: Source,
        trainable: bool = True,
        endpoint: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        output_key: str | None = None,
        **kwargs,
    ):
        check_backend("HubLayer")
        super().__init__(**kwargs)
        self.endpoint = endpoint
        self.arguments = dict(arguments or {})
        self.output_key = output_key
        self.saved_model_path = None if callable(path) else os.fspath(path)
        # Kept, as variables and resources live as long as this object.
        self._loaded = path if callable(path) else _load(path)
        self._target: Any = self._loaded
        if endpoint is not None:
            self._target = getattr(self._loaded, endpoint, None)
        if not callable(self._target):
            raise InputError(
                f"the SavedModel {self.saved_model_path or 'that was loaded'} "
                f"has no callable {endpoint or 'root'}; is it one of TF-Hub's "
                "text contract?"
            )
        trained = list(getattr(self._target, "trainable_variables", ()))
        seen = {id(variable) for variable in trained}
        untrained = [
            variable
            for variable in getattr(self._target, "variables", ())
            if id(variable) not in seen
        ]
        # Keras tracks the variables in these attributes.
        self._trained_weights = _keras_variables(trained, trainable=True)
        self._other_weights = _keras_variables(untrained, trainable=False)
        self.trainable = trainable  # Sets it for each weight, too.
        self.built = True

    @property
    def resolved_object(self):
        """The loaded SavedModel, for its other attributes."""
        return self._loaded

    def call(self, inputs, training=False):
        """Calls the SavedModel."""
        arguments = dict(self.arguments)
        if "training" in _parameters(self._target):
            arguments["training"] = bool(training and self.trainable)
        if self.trainable:
            for loss in getattr(self._target, "regularization_losses", ()):
                self.add_loss(loss())
        outputs = self._target(inputs, **arguments)
        if self.output_key is None:
            return outputs
        named = outputs if isinstance(outputs, Mapping) else {}
        if self.output_key not in named:
            raise InputError(
                f"output_key={self.output_key} must be one of the outputs of "
                f"the SavedModel: {', '.join(named) or 'they have no names'}"
            )
        return named[self.output_key]

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the layer: the path, not the SavedModel.

        Raises:
          InputError: if the layer was created of a loaded object.
        """
        if self.saved_model_path is None:
            raise InputError(
                "a HubLayer of a loaded object cannot be saved; give it the "
                "path of the SavedModel"
            )
        return {
            **super().get_config(),
            "path": self.saved_model_path,
            "endpoint": self.endpoint,
            "arguments": dict(self.arguments),
            "output_key": self.output_key,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None, safe_mode=None):
        """Creates the layer from `get_config()`.

        Raises:
          ValueError: if Keras is in safe mode. Like `TFSMLayer`, this layer
            loads a graph from a path, and a graph can run arbitrary code.
        """
        # There is no public API; TFSMLayer and Lambda use this as well.
        from keras.src.saving.serialization_lib import in_safe_mode

        if (in_safe_mode() if safe_mode is None else safe_mode) is not False:
            raise ValueError(
                f"a HubLayer loads the SavedModel {config['path']}, whose "
                "graph can read and write files; if you trust it, pass "
                "safe_mode=False or call "
                "keras.config.enable_unsafe_deserialization()"
            )
        return cls(**config)


def _load(path: str | os.PathLike[str]) -> Any:
    check_not_web_address(
        path,
        "a folder written by `albert export --model=albert/albert-base-v2 "
        "--kind=encoder`, or --kind=preprocessor",
    )
    try:
        return tf.saved_model.load(os.fspath(path))
    except (OSError, tf.errors.OpError) as error:
        raise InputError(f"cannot load {os.fspath(path)}: {error}") from None


def _keras_variables(
    variables: Iterable[tf.Variable], trainable: bool
) -> list[keras.Variable]:
    """Wraps variables without copying them."""
    return [
        keras.Variable(
            variable,
            dtype=variable.dtype.name,
            trainable=trainable,
            autocast=False,
            # Names of Keras variables have no slashes. The whole path is kept,
            # as optimizers exclude variables from weight decay by name.
            name=variable.name.removesuffix(":0").replace("/", "_"),
        )
        for variable in variables
    ]


def _parameters(function) -> Mapping[str, Any]:
    """Returns the parameters of a loaded function or callable object."""
    if not hasattr(function, "function_type"):
        function = function.__call__
    return function.function_type.parameters
