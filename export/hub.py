"""A drop-in replacement of tensorflow_hub for Keras 3.

Replace `import tensorflow_hub as hub` by `from albert_tf.exporting import hub`:
the layer of tensorflow_hub fails in Keras 3.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from albert_tf.exporting.hub_layer import HubLayer


def KerasLayer(
    handle: str | os.PathLike[str],
    trainable: bool = False,
    arguments: Mapping[str, Any] | None = None,
    **kwargs,
) -> HubLayer:
    """Creates a `HubLayer` with the arguments and defaults of `hub.KerasLayer`.

    Args:
      handle: folder of the SavedModel. URLs are not downloaded.
      trainable: whether the weights are trained.
      arguments: keyword arguments of every call.
      **kwargs: further arguments of `HubLayer`, such as `endpoint="mlm"` in
        place of `hub.KerasLayer(loaded.mlm)`.

    Raises:
      InputError: If `handle` is not a SavedModel, or it lacks the endpoint.
    """
    return HubLayer(handle, trainable=trainable, arguments=arguments, **kwargs)
