"""Checkpoints of Hugging Face: transformers 5.23, torch 2.13 (CPU)."""

import json
import shutil

import numpy as np
import torch
import transformers
from example import (
    SIZES,
    VOCABULARY,
    fresh_folder,
    inputs,
    random_weight,
    write_outputs,
)


def make(kind, **settings):
    config = transformers.AlbertConfig(
        **SIZES, layer_norm_eps=1e-12, classifier_dropout_prob=0.2, **settings
    )
    model = getattr(transformers, kind)(config).eval()
    rng = np.random.default_rng(1)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            values = random_weight(rng, name, tuple(weight.shape))
            weight.copy_(torch.from_numpy(values))
    return model


def run(model):
    batch = {k: torch.from_numpy(v).long() for k, v in inputs().items()}
    with torch.no_grad():
        return batch, model(
            input_ids=batch["input_word_ids"],
            attention_mask=batch["input_mask"],
            token_type_ids=batch["input_type_ids"],
            output_hidden_states=True,
        )


def pretraining():
    model = make("AlbertForPreTraining", hidden_act="gelu_new")
    folder = fresh_folder("huggingface")
    model.save_pretrained(folder)
    shutil.copy(VOCABULARY, folder)
    settings = {"tokenizer_class": "AlbertTokenizer", "do_lower_case": False}
    text = json.dumps(settings)
    (folder / "tokenizer_config.json").write_text(text)
    batch, outputs = run(model)
    picks = batch["masked_lm_positions"][:, :, None]
    encoded = model.albert(
        input_ids=batch["input_word_ids"],
        attention_mask=batch["input_mask"],
        token_type_ids=batch["input_type_ids"],
    )
    logits = outputs.prediction_logits
    write_outputs(
        "huggingface",
        {
            "sequence_output": outputs.hidden_states[-1],
            "pooled_output": encoded.pooler_output.detach(),
            "mlm_logits": torch.take_along_dim(logits, picks, 1),
            "sop_logits": outputs.sop_logits,
        },
    )


def classifier():
    """The same weights as safetensors and in PyTorch's formats; exact GELU."""
    labels = ["contradiction", "entailment", "neutral"]
    model = make(
        "AlbertForSequenceClassification",
        hidden_act="gelu",
        id2label=dict(enumerate(labels)),
        label2id={label: i for i, label in enumerate(labels)},
    )
    model.save_pretrained(fresh_folder("huggingface_classifier"))
    for name, zipped in (("torch_zip", True), ("torch_legacy", False)):
        folder = fresh_folder(name)
        model.config.architectures = [type(model).__name__]
        model.config.save_pretrained(folder)
        torch.save(
            model.state_dict(),
            folder / "pytorch_model.bin",
            _use_new_zipfile_serialization=zipped,
        )
    _, outputs = run(model)
    write_outputs(
        "torch",
        {
            "sequence_output": outputs.hidden_states[-1],
            "logits": outputs.logits,
        },
    )


pretraining()
classifier()
