"""Exports a model, run by an interpreter with another TensorFlow than ours.

Usage: export_small_model.py VERSION MODEL SPIECE.model FOLDER
"""

import pathlib
import sys

import tensorflow as tf

from albert_tf.exporting.config import ExportConfig
from albert_tf.exporting.encoder import export_encoder
from albert_tf.exporting.preprocessor import export_preprocessor
from albert_tf.exporting.runtimes import export_for_runtime
from albert_tf.exporting.text_encoder import export_text_encoder
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.runtimes.ids_program import encoder_program
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer

LITERT_LENGTH = 12


def main(version, model_path, tokenizer_model, folder):
    assert tf.__version__.startswith(version), tf.__version__
    folder = pathlib.Path(folder)
    model = AlbertPretrainer.from_pretrained(model_path)
    tokenizer = AlbertTokenizer.from_file(tokenizer_model)
    export_encoder(model, folder / "encoder", tokenizer=tokenizer)
    export_encoder(model, folder / "packed", tokenizer=None, packed=True)
    export_preprocessor(tokenizer, folder / "preprocessor", seq_length=20)
    export_text_encoder(model, folder / "text_encoder", tokenizer=tokenizer)
    export_for_runtime(
        encoder_program(model.encoder, seq_length=LITERT_LENGTH),
        ExportConfig(
            model=model_path,
            output=folder / "litert",
            kind="litert",
            quantization="dynamic",
        ),
        tokenizer=tokenizer,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
