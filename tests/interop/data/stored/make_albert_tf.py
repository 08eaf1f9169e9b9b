"""Checkpoints of albert_tf itself: `save_pretrained`, a run, an export."""

import pathlib
import shutil
import tempfile

import numpy as np
import tensorflow as tf
from example import (
    FOLDER,
    SIZES,
    VOCABULARY,
    archive,
    fresh_folder,
    inputs,
    random_weight,
    write_outputs,
)

from albert_tf.config import AlbertConfig
from albert_tf.data.create_data import create_pretraining_data
from albert_tf.data.data_config import PretrainingDataConfig
from albert_tf.exporting.encoder import export_encoder
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.pretraining.config import PretrainConfig
from albert_tf.pretraining.train import pretrain
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer

CONFIG = AlbertConfig(
    **SIZES, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1
)
TOKENIZER = AlbertTokenizer.from_file(VOCABULARY, digit_comma="corrected")


def outputs_of(model):
    batch = {k: tf.constant(v) for k, v in inputs().items()}
    outputs = dict(model(batch))
    del batch["masked_lm_positions"]
    outputs["sequence_output"] = model.encoder(batch)["sequence_output"]
    return outputs


def model_and_export():
    model = AlbertPretrainer(CONFIG)
    rng = np.random.default_rng(5)
    for weight in model.weights:
        weight.assign(random_weight(rng, weight.path, weight.shape))
    model.save_pretrained(fresh_folder("albert_tf"), TOKENIZER)
    write_outputs("albert_tf", outputs_of(model))
    with tempfile.TemporaryDirectory() as temporary:
        tokenizer = AlbertTokenizer.from_file(VOCABULARY)
        export_encoder(model, f"{temporary}/export", tokenizer=tokenizer)
        archive(f"{temporary}/export", "albert_tf_export")


def unshared_model():
    """An architecture that only we have."""
    model = AlbertPretrainer(
        CONFIG.replace(num_hidden_groups=1, sharing="ffn"), sop_head=False
    )
    rng = np.random.default_rng(6)
    for weight in model.weights:
        weight.assign(random_weight(rng, weight.path, weight.shape))
    model.save_pretrained(fresh_folder("albert_tf_unshared"))
    write_outputs("albert_tf_unshared", outputs_of(model))


def run():
    with tempfile.TemporaryDirectory() as temporary:
        temporary = pathlib.Path(temporary)
        lines = ["the cat sat on the mat", "a dog sees the cat", "rats run"]
        text = temporary / "text.txt"
        text.write_text("\n".join(lines * 10) + "\n\n" + "\n".join(lines * 9))
        create_pretraining_data(
            PretrainingDataConfig(
                input=str(text),
                output=temporary / "data",
                tokenizer=TOKENIZER,
                max_seq_length=16,
                max_predictions_per_seq=3,
                masking="static",
                dupe_factor=1,
            )
        )
        pretrain(
            PretrainConfig(
                input=str(temporary / "data"),
                output=temporary / "run",
                model=CONFIG.replace(initializer_range=0.3),
                num_train_steps=2,
                log_steps=1,
                train_batch_size=2,
                num_warmup_steps=0,
            )
        )
        folder = fresh_folder("albert_tf_run")
        for name in ("config.json", "spiece.model", "tokenizer_config.json"):
            shutil.copy(temporary / "run" / name, folder)
        record = (temporary / "run" / "run.json").read_text()
        record = record.replace(f"{temporary}/", "")
        (folder / "run.json").write_text(record)
        shutil.copytree(
            temporary / "run" / "checkpoints", folder / "checkpoints"
        )
        write_outputs(
            "albert_tf_run",
            outputs_of(AlbertPretrainer.from_pretrained(folder)),
        )


model_and_export()
unshared_model()
run()
print(sum(p.stat().st_size for p in FOLDER.rglob("*") if p.is_file()), "bytes")
