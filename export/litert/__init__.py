"""Models for LiteRT (TensorFlow Lite): phones, browsers, small machines."""

from albert_tf.export.litert.layer_errors import layer_errors
from albert_tf.export.litert.program import LiteRtProgram, encoder_program
from albert_tf.export.litert.writer import MODEL_FILE, export_litert

__all__ = [
    "MODEL_FILE",
    "LiteRtProgram",
    "encoder_program",
    "export_litert",
    "layer_errors",
]
