"""Model Garden's checkpoint and SavedModel: tf-models-official 2.20."""

import os
import pathlib
import shutil
import tempfile

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import json

import numpy as np
import tensorflow as tf
from example import (
    SIZES,
    VOCABULARY,
    archive,
    fresh_folder,
    inputs,
    random_weight,
    write_outputs,
)
from official.nlp.configs import encoders
from official.nlp.tools import export_tfhub_lib

config = encoders.EncoderConfig(type="albert")
config.albert.override(
    {
        "vocab_size": SIZES["vocab_size"],
        "embedding_width": SIZES["embedding_size"],
        "hidden_size": SIZES["hidden_size"],
        "num_layers": 3,  # all of one group: it has no more
        "num_attention_heads": SIZES["num_attention_heads"],
        "intermediate_size": SIZES["intermediate_size"],
        "max_position_embeddings": SIZES["max_position_embeddings"],
        "type_vocab_size": SIZES["type_vocab_size"],
        "hidden_activation": "gelu",
        "dropout_rate": 0.1,
        "attention_dropout_rate": 0.1,
    }
)
google_config = {
    **SIZES,
    "num_hidden_layers": 3,
    "num_hidden_groups": 1,
    "inner_group_num": 1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
}
encoder, pretrainer = export_tfhub_lib._create_model(
    encoder_config=config, with_mlm=True
)
rng = np.random.default_rng(4)
for weight in pretrainer.weights:
    weight.assign(random_weight(rng, weight.name, weight.shape))
features = {k: tf.constant(v) for k, v in inputs().items()}
outputs = pretrainer(features)
write_outputs(
    "model_garden",
    {
        "sequence_output": outputs["sequence_output"],
        "pooled_output": outputs["pooled_output"],
        "mlm_logits": outputs["mlm_logits"],
    },
)
folder = fresh_folder("model_garden")
checkpoint = tf.train.Checkpoint(**pretrainer.checkpoint_items)
prefix = checkpoint.save(str(folder / "pretrainer"))
(folder / "checkpoint").unlink()
(folder / "albert_config.json").write_text(json.dumps(google_config))
with tempfile.TemporaryDirectory() as temporary:
    # The vocabulary becomes an asset under the name it has.
    vocabulary = shutil.copy(VOCABULARY, pathlib.Path(temporary) / "30k.model")
    export_tfhub_lib.export_model(
        f"{temporary}/saved_model",
        encoder_config=config,
        model_checkpoint_path=prefix,
        with_mlm=True,
        sp_model_file=str(vocabulary),
    )
    archive(f"{temporary}/saved_model", "tf_hub_2")
    export_tfhub_lib.export_preprocessing(
        f"{temporary}/preprocessor",
        sp_model_file=str(vocabulary),
        do_lower_case=True,
        tokenize_with_offsets=False,  # With SentencePiece, it cannot.
        default_seq_length=12,
    )
    archive(f"{temporary}/preprocessor", "tf_hub_2_preprocessor")
