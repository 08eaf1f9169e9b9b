"""The systems that are compared, each as its documentation uses it.

A system is a function of a workload that returns the versions of its libraries
and, by task name, a function that does the task once and returns an array:

- `forward`: last hidden states `[batch, length, hidden]`, no dropout
- `step`: a pretraining step (loss of masked tokens and of sentence order,
  gradients, clipping to global norm 1, AdamW); returns the loss, a scalar

Each runs in a process of its own, so the libraries are imported inside.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
from workload import Workload

Tasks = dict[str, Callable[[], np.ndarray]]

_LEARNING_RATE = 1e-4


def albert_tf(workload: Workload) -> tuple[dict[str, str], Tasks]:
    """Ours: a `tf.function` of the encoder, and the training loop's step."""
    tf = _tensorflow(workload.threads)
    import keras

    from albert_tf.models.base import ENCODER_INPUTS
    from albert_tf.models.encoder import AlbertEncoder
    from albert_tf.models.pretrainer import AlbertPretrainer
    from albert_tf.pretraining.loss import PretrainingLoss
    from albert_tf.training.config import TrainingConfig
    from albert_tf.training.optimizers import AdamW
    from albert_tf.training.train_step import TrainStep

    examples = {
        name: tf.constant(value) for name, value in workload.examples().items()
    }
    inputs = {name: examples[name] for name in ENCODER_INPUTS}
    encoder = AlbertEncoder(workload.config)

    @tf.function
    def encode(inputs):
        return encoder(inputs)["sequence_output"]

    pretrainer = AlbertPretrainer(workload.config)
    optimizer = AdamW()
    optimizer.build(pretrainer.trainable_variables)
    train_step = tf.function(
        TrainStep(
            TrainingConfig(num_train_steps=1, log_update_norms=False),
            pretrainer,
            PretrainingLoss(),
            optimizer,
            micro_batch_size=workload.batch,
        )
    )
    arguments = (tf.constant(_LEARNING_RATE), tf.constant([0, 1]), tf.ones([]))

    def step():
        rows = train_step(examples, *arguments)
        return rows[0, 0].numpy()  # The first row is the loss.

    versions = {"tensorflow": tf.__version__, "keras": keras.__version__}
    return versions, {"forward": lambda: encode(inputs).numpy(), "step": step}


def transformers(workload: Workload) -> tuple[dict[str, str], Tasks]:
    """Hugging Face: PyTorch's eager mode; MLM logits of all positions."""
    return _transformers(workload, all_logits=True)


def transformers_masked(workload: Workload) -> tuple[dict[str, str], Tasks]:
    """Hugging Face's parts, put together for MLM logits of masked tokens."""
    return _transformers(workload, all_logits=False)


def keras_hub(workload: Workload) -> tuple[dict[str, str], Tasks]:
    """KerasHub on TensorFlow under XLA; it has no pretraining heads."""
    tf = _tensorflow(workload.threads)
    import keras
    import keras_hub as library

    config = workload.config
    if config.sharing != "all" or config.hidden_act != "gelu_tanh":
        raise SystemExit("KerasHub has only sharing='all' and tanh GELU")
    backbone = library.models.AlbertBackbone(
        vocabulary_size=config.vocab_size,
        num_layers=config.num_hidden_layers,
        num_heads=config.num_attention_heads,
        embedding_dim=config.embedding_size,
        hidden_dim=config.hidden_size,
        intermediate_dim=config.intermediate_size,
        num_groups=config.num_hidden_groups,
        num_inner_repetitions=config.inner_group_num,
        max_sequence_length=config.max_position_embeddings,
        num_segments=config.type_vocab_size,
    )
    examples = workload.examples()
    inputs = {
        "token_ids": tf.constant(examples["input_word_ids"]),
        "segment_ids": tf.constant(examples["input_type_ids"]),
        "padding_mask": tf.constant(examples["input_mask"]),
    }

    @tf.function(jit_compile=True)
    def encode(inputs):
        return backbone(inputs, training=False)["sequence_output"]

    versions = {
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "keras_hub": library.__version__,
    }
    return versions, {"forward": lambda: encode(inputs).numpy()}


SYSTEMS = {
    system.__name__: system
    for system in (albert_tf, transformers, transformers_masked, keras_hub)
}


def _tensorflow(threads):
    os.environ["KERAS_BACKEND"] = "tensorflow"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    return tf


def _transformers(workload, all_logits):
    import torch
    import transformers as library

    torch.set_num_threads(workload.threads)
    torch.set_num_interop_threads(workload.threads)
    config = _huggingface_config(library, workload.config)
    examples = {
        name: torch.from_numpy(value).long()
        for name, value in workload.examples().items()
    }
    inputs = {
        "input_ids": examples["input_word_ids"],
        "attention_mask": examples["input_mask"],
        "token_type_ids": examples["input_type_ids"],
    }
    positions = examples["masked_lm_positions"]
    masked_ids = examples["masked_lm_ids"]
    order = examples["sentence_order_labels"]
    # Hugging Face's way to say which tokens count.
    labels = torch.full_like(inputs["input_ids"], -100)
    labels.scatter_(1, positions, masked_ids)

    encoder = library.AlbertModel(config).eval()

    def forward():
        with torch.inference_mode():
            return encoder(**inputs).last_hidden_state.numpy()

    pretrainer = library.AlbertForPreTraining(config).train()
    optimizer = torch.optim.AdamW(
        pretrainer.parameters(), lr=_LEARNING_RATE, weight_decay=0.01
    )

    def loss_of_all_logits():
        outputs = pretrainer(
            **inputs, labels=labels, sentence_order_label=order
        )
        return outputs.loss

    def loss_of_masked_logits():
        outputs = pretrainer.albert(**inputs)
        rows = torch.arange(workload.batch)[:, None]
        states = outputs.last_hidden_state[rows, positions]
        logits = pretrainer.predictions(states)
        cross_entropy = torch.nn.functional.cross_entropy
        return cross_entropy(
            logits.flatten(0, 1), masked_ids.flatten()
        ) + cross_entropy(
            pretrainer.sop_classifier(outputs.pooler_output), order
        )

    loss_of = loss_of_all_logits if all_logits else loss_of_masked_logits

    def step():
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(pretrainer.parameters(), 1.0)
        optimizer.step()
        return loss.detach().numpy()

    versions = {
        "torch": torch.__version__,
        "transformers": library.__version__,
    }
    return versions, {"forward": forward, "step": step}


def _huggingface_config(library, config):
    if config.sharing != "all":
        raise SystemExit("Hugging Face's ALBERT has only sharing='all'")
    activations = {"gelu_tanh": "gelu_new", "gelu_erf": "gelu", "relu": "relu"}
    values = config.to_dict()
    del values["sharing"]
    values["hidden_act"] = activations[config.hidden_act]
    # The head's dropout would be there although the encoder has none.
    return library.AlbertConfig(**values, classifier_dropout_prob=0.0)
