"""Model Garden's ALBERT, run by an interpreter that has it; nothing of ours.

    model_garden.py write JOBS.json
        makes pretrainers with random weights, and writes for each an exported
        SavedModel, TF2 checkpoints, and what it computes; with "train", also
        checkpoints of a training.
    model_garden.py convert JOBS.json
        converts Google's checkpoints as Model Garden does, and writes what the
        models that come of them compute.

A job has "config": Google's keys; "output": a folder to make; "inputs": .npz;
to write, "vocabulary": a SentencePiece model, and "train": a bool; to convert,
"checkpoint": of Google's.
"""

import json
import os
import pathlib
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf
import tf_keras
from official.legacy.albert import configs
from official.nlp.configs import encoders
from official.nlp.modeling import layers, models
from official.nlp.tools import export_tfhub_lib
from official.nlp.tools import (
    tf2_albert_encoder_checkpoint_converter as converter,
)


def write(job):
    output = pathlib.Path(job["output"])
    config = encoder_config(job["config"])
    exported, pretrainer = export_tfhub_lib._create_model(
        encoder_config=config, with_mlm=True
    )
    rng = np.random.default_rng(0)
    for variable in pretrainer.weights:
        mean = 1.0 if "gamma" in variable.name else 0.0
        variable.assign(rng.normal(mean, 0.15, variable.shape))
    encoder = pretrainer.encoder_network
    inputs = read_inputs(job)
    if job["train"]:
        write_training(pretrainer, inputs, output)
    # The ways in which people save: the trainer's, the encoder alone, and all.
    path = tf.train.Checkpoint(**pretrainer.checkpoint_items).save(
        str(output / "pretrainer")
    )
    tf.train.Checkpoint(encoder=encoder).write(str(output / "encoder"))
    tf.train.Checkpoint(model=pretrainer).write(str(output / "model"))
    export_tfhub_lib.export_model(
        str(output / "saved_model"),
        encoder_config=config,
        model_checkpoint_path=path,
        with_mlm=True,
        sp_model_file=job["vocabulary"],
    )
    write_outputs(job, exported.mlm(inputs, training=False))


def write_training(pretrainer, inputs, output):
    """Steps, and saves as Model Garden's trainer does, by either optimizer."""
    for name, optimizer in (
        ("trainer", tf_keras.optimizers.Adam()),
        ("trainer_legacy", tf_keras.optimizers.legacy.Adam()),
    ):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(pretrainer(inputs)["mlm_logits"] ** 2)
        variables = pretrainer.trainable_variables
        gradients = tape.gradient(loss, variables)
        optimizer.apply_gradients(
            (gradient, variable)
            for gradient, variable in zip(gradients, variables, strict=True)
            if gradient is not None  # The pooler has no part in it.
        )
        tf.train.Checkpoint(
            model=pretrainer,
            optimizer=optimizer,
            global_step=optimizer.iterations,
            **pretrainer.checkpoint_items,
        ).write(str(output / name))
    head = layers.ClassificationHead(
        inner_dim=8, num_classes=2, name="next_sentence"
    )
    with_head = models.BertPretrainerV2(
        pretrainer.encoder_network, classification_heads=[head]
    )
    with_head(inputs)
    tf.train.Checkpoint(model=with_head).write(str(output / "next_sentence"))


def convert(job):
    output = pathlib.Path(job["output"])
    config_file = output / "albert_config.json"
    config_file.write_text(json.dumps(job["config"]))
    config = configs.AlbertConfig.from_json_file(str(config_file))
    converter.convert_checkpoint(
        config,
        str(output / "converted"),
        job["checkpoint"],
        checkpoint_model_name="model",
        converted_model="pretrainer",
    )
    pretrainer = converter._create_pretrainer_model(config)
    converted = tf.train.latest_checkpoint(str(output))
    tf.train.Checkpoint(model=pretrainer).restore(
        converted
    ).assert_existing_objects_matched()
    write_outputs(job, pretrainer(read_inputs(job), training=False))


def encoder_config(values):
    config = encoders.EncoderConfig(type="albert")
    config.albert.override(
        {
            "vocab_size": values["vocab_size"],
            "embedding_width": values["embedding_size"],
            "hidden_size": values["hidden_size"],
            "num_layers": values["num_hidden_layers"],
            "num_attention_heads": values["num_attention_heads"],
            "intermediate_size": values["intermediate_size"],
            "hidden_activation": values["hidden_act"],
            "dropout_rate": values["hidden_dropout_prob"],
            "attention_dropout_rate": values["attention_probs_dropout_prob"],
            "max_position_embeddings": values["max_position_embeddings"],
            "type_vocab_size": values["type_vocab_size"],
        }
    )
    return config


def read_inputs(job):
    with np.load(job["inputs"]) as arrays:
        return {name: tf.constant(arrays[name]) for name in arrays}


def write_outputs(job, outputs):
    names = ("sequence_output", "pooled_output", "mlm_logits")
    arrays = {name: outputs[name] for name in names}
    for number, layer in enumerate(outputs.get("encoder_outputs", ())):
        arrays[f"layer_{number}"] = layer
    np.savez(pathlib.Path(job["output"]) / "outputs.npz", **arrays)


if __name__ == "__main__":
    command, jobs = sys.argv[1:]
    for each in json.loads(pathlib.Path(jobs).read_text()):
        os.makedirs(each["output"], exist_ok=True)
        {"write": write, "convert": convert}[command](each)
