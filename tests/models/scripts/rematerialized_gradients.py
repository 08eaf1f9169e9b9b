"""Prints as JSON what rematerialization changes under a backend: memory.

A program, because Keras chooses its backend when it is imported:
  KERAS_BACKEND=jax python rematerialized_gradients.py
"""

import json

import keras
import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.layers.dropout import dropout_seeds
from albert_tf.models.pretrainer import AlbertPretrainer

CONFIG = AlbertConfig(
    vocab_size=60,
    embedding_size=8,
    hidden_size=24,
    num_hidden_layers=4,
    num_hidden_groups=2,
    num_attention_heads=3,
    intermediate_size=40,
    max_position_embeddings=32,
    initializer_range=0.2,
    hidden_dropout_prob=0.1,
    attention_probs_dropout_prob=0.1,
)


def loss_of(outputs):
    logits = outputs["mlm_logits"]
    order = outputs["sop_logits"]
    return keras.ops.mean(logits**2) + keras.ops.mean(keras.ops.sin(order))


def with_torch(model, inputs, seed):
    """Gradients, and the bytes that autograd keeps."""
    import torch

    kept = {}

    def keep(tensor):
        kept[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x),
        dropout_seeds(seed),
    ):
        loss = loss_of(model(inputs, training=True))
    loss.backward()
    found = [v.value.grad for v in model.trainable_variables]
    return [keras.ops.convert_to_numpy(x) for x in found], sum(kept.values())


def with_jax(model, inputs, seed):
    """Gradients, and the bytes that the backward pass is given.

    What XLA makes of it is another matter: on CPUs it merges both computations
    of a block, and nothing is saved.
    """
    import jax

    trainable = [v.value for v in model.trainable_variables]
    fixed = [v.value for v in model.non_trainable_variables]

    def loss(trainable):
        with dropout_seeds(seed):
            outputs, _ = model.stateless_call(
                trainable, fixed, inputs, training=True
            )
        return loss_of(outputs)

    value, backward = jax.vjp(loss, trainable)
    kept = {id(x): x.nbytes for x in jax.tree.leaves(backward)}
    (found,) = backward(jax.numpy.ones_like(value))
    return [np.asarray(x) for x in found], sum(kept.values())


def main():
    rng = np.random.default_rng(0)
    mask = (np.arange(14) < np.array([14, 9, 3])[:, None]).astype("int32")
    mask = np.tile(mask, (40, 1))
    inputs = {
        "input_word_ids": rng.integers(5, 60, mask.shape, "int32") * mask,
        "input_mask": mask,
        "input_type_ids": (np.arange(14) > 5).astype("int32") * mask,
        "masked_lm_positions": rng.integers(0, 3, (len(mask), 2), "int32"),
    }
    run = {"jax": with_jax, "torch": with_torch}[keras.backend.backend()]
    seed = keras.random.SeedGenerator(5).next()
    plain = AlbertPretrainer(CONFIG)
    again = AlbertPretrainer(CONFIG, rematerialize=True)
    again.set_weights(plain.get_weights())
    expected, memory = run(plain, inputs, seed)
    found, less_memory = run(again, inputs, seed)
    scale = max(np.abs(x).max() for x in expected)
    difference = max(
        float(np.abs(a - b).max()) for a, b in zip(expected, found, strict=True)
    )

    # As a user trains: dropout draws from Keras's generators.
    again.compile(
        optimizer=keras.optimizers.Adam(0.01),
        loss={"mlm_logits": keras.losses.SparseCategoricalCrossentropy(True)},
    )
    labels = {"mlm_logits": rng.integers(0, 60, (len(mask), 2))}
    history = again.fit(inputs, labels, epochs=6, batch_size=40, verbose=0)
    print(
        json.dumps(
            {
                "difference": difference / float(scale),
                "memory": memory,
                "less_memory": less_memory,
                "losses": history.history["loss"],
            }
        )
    )


if __name__ == "__main__":
    main()
