"""What other programs load: SavedModels, LiteRT, and a layer for SavedModels.

Encoders and preprocessors follow TF-Hub's text contract,
https://www.tensorflow.org/hub/common_saved_model_apis/text, on top of
https://www.tensorflow.org/hub/reusable_saved_models.
"""

from albert_tf.export.encoder import export_encoder
from albert_tf.export.hub_layer import HubLayer
from albert_tf.export.preprocessor import export_preprocessor
from albert_tf.export.task import export_task
from albert_tf.export.text_encoder import export_text_encoder

__all__ = [
    "HubLayer",
    "export_encoder",
    "export_preprocessor",
    "export_task",
    "export_text_encoder",
]
