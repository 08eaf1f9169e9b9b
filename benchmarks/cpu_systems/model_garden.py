"""TensorFlow Model Garden's ALBERT, which runs in its own environment."""

from __future__ import annotations

import json
import os

from cpu_systems.task import Task

os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf
from official.legacy.albert import configs
from official.nlp.tools import (
    tf2_albert_encoder_checkpoint_converter as converter,
)

CONFIG = "albert_config.json"


def make(folder, output, threads):
    """Converts Google's checkpoint with Model Garden's program."""
    del threads
    output.mkdir()
    config = configs.AlbertConfig.from_json_file(
        str(folder / "google" / CONFIG)
    )
    converter.convert_checkpoint(
        config,
        str(output / "converted"),
        str(folder / "google" / "model.ckpt-best"),
        checkpoint_model_name="model",
        converted_model="encoder",
    )


class ModelGarden:
    """The encoder network in a `tf.function`.

    Args:
      folder: Folder of the model.
      threads: Number of threads.
      precision: "float32".
    """

    def __init__(self, folder, threads, precision):
        del precision
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
        config = configs.AlbertConfig.from_dict(
            json.loads((folder / "google" / CONFIG).read_text())
        )
        self._encoder = converter._create_albert_model(config)
        path = tf.train.latest_checkpoint(str(folder / "model_garden"))
        tf.train.Checkpoint(model=self._encoder).restore(
            path
        ).assert_existing_objects_matched()
        self.versions = {"model garden's tensorflow": tf.__version__}

    def forward(self, work):
        """Prepares the last hidden states for ids `[batch, length]`."""
        inputs = {
            name: tf.constant(work[name])
            for name in ("input_word_ids", "input_mask", "input_type_ids")
        }

        @tf.function
        def encode(inputs):
            sequence_output, _ = self._encoder(
                [inputs[name] for name in inputs], training=False
            )
            return sequence_output

        return Task(lambda: {"sequence_output": encode(inputs).numpy()})
