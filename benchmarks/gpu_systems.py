"""Systems of gpu_speed.py: ours with JAX, Hugging Face's with PyTorch."""

import contextlib
import functools
import os
import sys
import time

os.environ["KERAS_BACKEND"] = "jax"
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax  # noqa: E402
import keras  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from keras import ops  # noqa: E402

from albert_tf.layers.attention import SelfAttention  # noqa: E402
from albert_tf.models.pretrainer import AlbertPretrainer  # noqa: E402
from albert_tf.text.packing import ENCODER_INPUTS  # noqa: E402

BF16 = "mixed_bfloat16"
FIT_BATCHES = 10
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
OWN_ATTEND = SelfAttention._attend


def wait(result=None):
    """Waits until the GPU has finished the work of both libraries."""
    jax.block_until_ready(result)
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def once(task, calls=1):
    """Returns the seconds per call, after an untimed call."""
    wait(task())
    start = time.perf_counter()
    result = None
    for _ in range(calls):
        result = task()
    wait(result)
    return (time.perf_counter() - start) / calls


def in_turns(tasks, repeats):
    """Times every task in each turn; failing tasks have a message instead."""
    calls, seconds = {}, {}
    for name, task in tasks.items():
        try:
            once(task)
            calls[name] = int(np.clip(0.2 / once(task), 1, 50))
            seconds[name] = []
            print(name, once(task), file=sys.stderr, flush=True)
        except Exception as error:  # such as any kind of out of memory
            seconds[name] = f"{type(error).__name__}: {error}"[:160]
            print(f"{name}: {seconds[name]}", file=sys.stderr)
    for _ in range(repeats):
        for name, count in calls.items():
            seconds[name].append(once(tasks[name], count))
    return seconds


def flash_attend(self, query, key, value, bias, training):
    """`SelfAttention._attend` with Keras's operation, which may be fused."""
    batch, _, length, _ = query.shape
    if length != key.shape[2]:  # the last block: masked tokens only
        return OWN_ATTEND(self, query, key, value, bias, training)
    mask = ops.broadcast_to(ops.equal(bias, 0), (batch, 1, length, length))
    q, k, v = (ops.transpose(x, (0, 2, 1, 3)) for x in (query, key, value))
    context = ops.dot_product_attention(q, k, v, mask=mask, scale=1.0)
    return ops.reshape(context, (batch, length, -1)), None


@contextlib.contextmanager
def switched(flash):
    """Replaces attention by Keras's operation while a model is traced."""
    SelfAttention._attend = flash_attend if flash else OWN_ATTEND
    try:
        yield
    finally:
        SelfAttention._attend = OWN_ATTEND


def loss_of(outputs, examples):
    """Returns the sum of MLM and sentence-order losses."""
    loss = keras.losses.sparse_categorical_crossentropy
    mlm, sop = examples["masked_lm_ids"], examples["sentence_order_labels"]
    return ops.mean(
        loss(mlm, outputs["mlm_logits"], from_logits=True)
    ) + ops.mean(loss(sop, outputs["sop_logits"], from_logits=True))


def gradient_of(model, inputs):
    """Returns a function of weights and examples: (loss, state), gradients."""

    def loss(trainable, fixed, examples):
        inputs_now = {name: examples[name] for name in inputs}
        outputs, fixed = model.stateless_call(
            trainable, fixed, inputs_now, training=True
        )
        return loss_of(outputs, examples), fixed

    return jax.value_and_grad(loss, has_aux=True)


def weights_of(model):
    """Returns copies of the weights for stateless calls."""
    return [
        [jax.numpy.copy(v.value) for v in group]
        for group in (model.trainable_variables, model.non_trainable_variables)
    ]


def our_tasks(config, examples, flash=False):
    """Returns jitted `forward` and `step`."""
    inputs = {k: jax.numpy.asarray(v) for k, v in examples.items()}
    model = AlbertPretrainer(config, dtype=BF16)
    encoder_inputs = {k: inputs[k] for k in ENCODER_INPUTS}
    optimizer = keras.optimizers.AdamW(
        1e-4, weight_decay=0.01, global_clipnorm=1.0
    )
    optimizer.build(model.trainable_variables)
    gradient = gradient_of(model, AlbertPretrainer.INPUTS)

    @jax.jit
    def encode(weights, inputs):
        with switched(flash):
            outputs, _ = model.encoder.stateless_call(*weights, inputs)
        return outputs["sequence_output"]

    @functools.partial(jax.jit, donate_argnums=0)
    def train(state, examples):
        trainable, fixed, slots = state
        with switched(flash):
            (loss, fixed), grads = gradient(trainable, fixed, examples)
        trainable, slots = optimizer.stateless_apply(slots, grads, trainable)
        return (trainable, fixed, slots), loss

    encoder_weights = weights_of(model.encoder)
    slots = [jax.numpy.copy(v.value) for v in optimizer.variables]
    held = [(*weights_of(model), slots)]

    def step():
        held[0], loss = train(held[0], inputs)
        return loss

    return {
        "forward": lambda: encode(encoder_weights, encoder_inputs),
        "step": step,
    }


def keras_tasks(config, examples):
    """Returns a step by `train_on_batch`, and several by `fit`."""
    model = AlbertPretrainer(config, dtype=BF16)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(
        keras.optimizers.AdamW(1e-4, weight_decay=0.01, global_clipnorm=1.0),
        loss={"mlm_logits": loss, "sop_logits": loss},
    )
    x = {name: examples[name] for name in AlbertPretrainer.INPUTS}
    y = {
        "mlm_logits": examples["masked_lm_ids"],
        "sop_logits": examples["sentence_order_labels"],
    }
    many = keras.tree.map_structure(
        lambda a: np.concatenate([a] * FIT_BATCHES), (x, y)
    )
    size = len(y["sop_logits"])

    def fit():
        model.fit(*many, batch_size=size, shuffle=False, verbose=0)

    return {"train_on_batch": lambda: model.train_on_batch(x, y), "fit": fit}


def huggingface_config(config, attention):
    """Returns the config for transformers, with the tanh GELU."""
    values = config.to_dict()
    del values["sharing"]
    values |= {"hidden_act": "gelu_new", "classifier_dropout_prob": 0.0}
    return transformers.AlbertConfig(**values, attn_implementation=attention)


def torch_inputs(examples):
    """Returns the examples as tensors, and the encoder's arguments."""
    tensors = {
        name: torch.from_numpy(value).long().to(DEVICE)
        for name, value in examples.items()
    }
    names = ("input_ids", "attention_mask", "token_type_ids")
    return tensors, dict(
        zip(names, (tensors[k] for k in ENCODER_INPUTS), strict=True)
    )


def torch_tasks(config, examples, attention="sdpa", compiled=False):
    """Returns `forward` and `step` under bfloat16 autocast."""
    config = huggingface_config(config, attention)
    model = transformers.AlbertForPreTraining(config).to(DEVICE).train()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=1e-4, weight_decay=0.01, fused=True
    )
    tensors, inputs = torch_inputs(examples)
    rows = torch.arange(len(tensors["input_mask"]), device=DEVICE)[:, None]
    cast = functools.partial(torch.autocast, DEVICE, dtype=torch.bfloat16)
    cross_entropy = torch.nn.functional.cross_entropy

    def encode():
        return model.albert(**inputs).last_hidden_state

    def loss():  # logits of masked tokens only, as ours
        outputs = model.albert(**inputs)
        states = outputs.last_hidden_state[rows, tensors["masked_lm_positions"]]
        mlm = model.predictions(states).flatten(0, 1).float()
        sop = model.sop_classifier(outputs.pooler_output).float()
        return cross_entropy(
            mlm, tensors["masked_lm_ids"].flatten()
        ) + cross_entropy(sop, tensors["sentence_order_labels"])

    if compiled:
        encode, loss = torch.compile(encode), torch.compile(loss)

    def forward():
        with torch.inference_mode(), cast():
            encode()

    def step():
        optimizer.zero_grad()
        with cast():
            value = loss()
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return {"forward": forward, "step": step}
