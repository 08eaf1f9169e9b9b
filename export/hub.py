"""A replacement of tensorflow_hub for programs in Keras 3.

`import tensorflow_hub as hub` becomes `from albert_tf.export import hub`, and
the rest of the program stays as it is: tensorflow_hub's own layer fails in
Keras 3.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from albert_tf.export.hub_layer import HubLayer


def KerasLayer(
    handle: str | os.PathLike[str],
    trainable: bool = False,
    arguments: Mapping[str, Any] | None = None,
    **kwargs,
) -> HubLayer:
    """Makes a `HubLayer` with the arguments and defaults of `hub.KerasLayer`.

    Args:
      handle: the folder of the SavedModel; URLs are not downloaded.
      trainable: whether its weights are trained. As in `hub.KerasLayer`,
        False by default.
      arguments: passed by keyword in every call.
      **kwargs: further arguments of `HubLayer`, such as `endpoint="mlm"` in
        place of `hub.KerasLayer(loaded.mlm)`.

    Raises:
      InputError: there is no SavedModel at `handle`, or it lacks the endpoint.
    """
    return HubLayer(handle, trainable=trainable, arguments=arguments, **kwargs)
