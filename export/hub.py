"""A replacement of tensorflow_hub's layer for Keras 3.

Replace `import tensorflow_hub as hub` by `from albert_tf.exporting import hub`:
the layer of tensorflow_hub fails in Keras 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from albert_tf.errors import InputError
from albert_tf.exporting.hub_layer import HubLayer, Source

# Further arguments of `hub.KerasLayer`.
_NOT_TAKEN = (
    *("tags", "signature", "signature_outputs_as_dict"),
    *("output_shape", "load_options"),
)


def KerasLayer(
    handle: Source,
    trainable: bool = False,
    arguments: Mapping[str, Any] | None = None,
    **kwargs,
) -> HubLayer:
    """Creates a `HubLayer` with the arguments and defaults of `hub.KerasLayer`.

    Args:
      handle: folder of the SavedModel, or the loaded object or one of its
        endpoints, such as `loaded.mlm`. URLs are not downloaded.
      trainable: whether the weights are trained.
      arguments: keyword arguments of every call.
      **kwargs: `output_key`, `name` and further arguments of `HubLayer`.
        `tags`, `signature`, `signature_outputs_as_dict`, `output_shape` and
        `load_options` must be None.

    Raises:
      InputError: if `handle` is not a SavedModel, or it lacks the endpoint, or
        an argument is not supported.
    """
    for name in _NOT_TAKEN:
        if (value := kwargs.pop(name, None)) is not None:
            raise InputError(
                f"{name}={value!r} is not supported: this KerasLayer calls the "
                "SavedModel itself, not a signature; remove it. output_key "
                "chooses one of several outputs"
            )
    return HubLayer(handle, trainable=trainable, arguments=arguments, **kwargs)
