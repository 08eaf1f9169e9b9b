"""SavedModels that TF-Hub's text contract describes, and a layer to load them.

The contract is
https://www.tensorflow.org/hub/common_saved_model_apis/text, on top of
https://www.tensorflow.org/hub/reusable_saved_models.
"""

from albert_tf.export.encoder import export_encoder
from albert_tf.export.hub_layer import HubLayer
from albert_tf.export.preprocessor import export_preprocessor

__all__ = ["HubLayer", "export_encoder", "export_preprocessor"]
