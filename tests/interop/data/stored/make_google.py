"""Google's TF1 checkpoint, tar.gz and TF-Hub module, by the original's code.

Ran with google-research/albert (`modeling.py`, `export_to_tfhub.py`, as the
package `albert`), tensorflow_hub 0.12.0 and TensorFlow 2.20 (`compat.v1`), with
PYTHONPATH naming the first two and PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION set
to python. `tf.contrib.layers.layer_norm` is all of TensorFlow 1 that is missing
in 2; it stands below.
"""

import contextlib
import json
import os
import pathlib
import shutil
import sys
import tempfile
import types

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf
from example import (
    SIZES,
    VOCABULARY,
    archive,
    fresh_folder,
    inputs,
    random_weight,
    write_outputs,
)

CONFIG = {
    **SIZES,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.2,
    "initializer_range": 0.02,
    "down_scale_factor": 1,
    "net_structure_type": 0,
    "gap_size": 0,
    "num_memory_blocks": 0,
}


def layer_norm(inputs, begin_norm_axis, begin_params_axis, scope):
    with tf.variable_scope(scope, "LayerNorm", [inputs]):
        shape = [inputs.shape[-1]]
        beta = tf.get_variable(
            "beta", shape, initializer=tf.zeros_initializer()
        )
        gamma = tf.get_variable(
            "gamma", shape, initializer=tf.ones_initializer()
        )
        mean, variance = tf.nn.moments(inputs, [-1], keep_dims=True)
        return tf.nn.batch_normalization(
            inputs, mean, variance, beta, gamma, 1e-12
        )


class Estimators:
    """TensorFlow 2.20 has no `tf.estimator`, which tensorflow_hub inherits."""

    def __getattr__(self, name):
        return object


tf.disable_eager_execution()
contrib = types.ModuleType("tensorflow.contrib")
contrib.layers = types.SimpleNamespace(layer_norm=layer_norm)
sys.modules["tensorflow.contrib"] = contrib
tf2.estimator = Estimators()
for module in (tf, tf2.compat.v1):
    # The objects differ from release to release in what they allow.
    with contextlib.suppress(TypeError):
        object.__setattr__(module, "estimator", Estimators())

from absl import flags  # noqa: E402
from albert import export_to_tfhub, modeling  # noqa: E402


def build():
    given = inputs()
    model = modeling.AlbertModel(
        modeling.AlbertConfig.from_dict(CONFIG),
        is_training=False,
        input_ids=tf.constant(given["input_word_ids"]),
        input_mask=tf.constant(given["input_mask"]),
        token_type_ids=tf.constant(given["input_type_ids"]),
    )
    config = modeling.AlbertConfig.from_dict(CONFIG)
    positions = tf.constant(given["masked_lm_positions"])
    mlm_logits = export_to_tfhub.get_mlm_logits(model, config, positions)
    sop_log_probs = export_to_tfhub.get_sop_log_probs(model, config)
    return {
        "sequence_output": model.get_sequence_output(),
        "pooled_output": model.get_pooled_output(),
        "mlm_logits": tf.reshape(mlm_logits, (*positions.shape, -1)),
        # What goes into the log-softmax.
        "sop_logits": sop_log_probs.op.inputs[0],
    }


def write_checkpoint(folder):
    rng = np.random.default_rng(3)
    with tf.Graph().as_default(), tf.Session() as session:
        outputs = build()
        tf.train.get_or_create_global_step()
        session.run(tf.global_variables_initializer())
        for variable in tf.trainable_variables():
            values = random_weight(rng, variable.op.name, variable.shape)
            variable.load(values, session)
        tf.train.Saver().save(session, str(folder / "model.ckpt-best"))
        write_outputs("google", session.run(outputs))
    (folder / "checkpoint").unlink()
    text = json.dumps(CONFIG, indent=2)
    (folder / "albert_config.json").write_text(text)
    shutil.copy(VOCABULARY, folder / "30k-clean.model")
    (folder / "30k-clean.vocab").write_text("")


with tempfile.TemporaryDirectory() as temporary:
    published = pathlib.Path(temporary) / "albert_tiny"
    published.mkdir()
    write_checkpoint(published)
    archive(published, "google_tf1")
    folder = fresh_folder("google_tf1")
    shutil.copytree(published, folder, dirs_exist_ok=True)
    (folder / "model.ckpt-best.meta").unlink()
    module = pathlib.Path(temporary) / "module"
    flags.FLAGS(
        ["", f"--albert_directory={published}", f"--export_path={module}"]
    )
    export_to_tfhub.main(None)
    archive(module, "tf_hub_1")
