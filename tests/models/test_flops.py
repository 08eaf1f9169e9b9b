import numpy as np
import pytest
import tensorflow as tf
from architectures import SMALL

from albert_tf.models.flops import pretraining_step_flops
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.objectives.masked_language_modeling import MaskedLanguageModeling

BATCH, LENGTH, PREDICTIONS = 3, 24, 5
CONFIG = SMALL.replace(max_position_embeddings=LENGTH)


def graph_of(function):
    graph = tf.function(function, autograph=False).get_concrete_function().graph
    # Neither count includes it.
    assert "Einsum" not in {o.type for o in graph.get_operations()}
    return graph


def profiled_flops(graph):
    """Returns TensorFlow's own count of a graph's products."""
    options = tf.compat.v1.profiler.ProfileOptionBuilder(
        tf.compat.v1.profiler.ProfileOptionBuilder.float_operation()
    )
    options.with_accounted_types([".*MatMul.*"]).with_empty_output()
    return tf.compat.v1.profiler.profile(
        graph, cmd="op", options=options.build()
    ).total_float_ops


def flops_by_shapes(graph):
    """Sums the products of a graph, including those of transposed factors.

    TensorFlow's profiler takes the wrong axis of a transposed factor of a
    BatchMatMul, which gradients have.
    """
    total = 0
    for operation in graph.get_operations():
        if "MatMul" in operation.type:
            plain = operation.type == "MatMul"
            left = operation.inputs[0].shape
            transposed = operation.get_attr("transpose_a" if plain else "adj_x")
            inner = left[-2] if transposed else left[-1]
            total += 2 * operation.outputs[0].shape.num_elements() * inner
    return total


def batch(sequences=None):
    ids = np.arange(BATCH * LENGTH).reshape(BATCH, LENGTH) % CONFIG.vocab_size
    positions = tf.tile(tf.range(1, PREDICTIONS + 1)[None], [BATCH, 1])
    return {
        "input_word_ids": tf.constant(ids, tf.int32),
        "input_mask": tf.ones([BATCH, LENGTH], tf.int32),
        "input_type_ids": tf.zeros([BATCH, LENGTH], tf.int32),
        "masked_lm_positions": positions,
        "masked_lm_ids": positions,
        "masked_lm_weights": tf.ones([BATCH, PREDICTIONS]),
        "sentence_order_labels": tf.zeros([BATCH], tf.int32),
    } | ({} if sequences is None else packing(sequences))


def packing(sequences):
    shape = [BATCH, sequences]
    return {
        "sequence_ids": tf.ones([BATCH, LENGTH], tf.int32),
        "sequence_starts": tf.zeros(shape, tf.int32),
        "sentence_order_labels": tf.zeros(shape, tf.int32),
        "sentence_order_weights": tf.ones(shape),
    }


@pytest.mark.parametrize(
    ("changes", "sentence_order"),
    [
        ({}, True),
        ({}, False),
        ({"num_hidden_groups": 2, "inner_group_num": 2}, True),
        ({"embedding_size": 32}, True),
        ({"embedding_size": 32, "project_equal_sizes": True}, True),
        ({"num_hidden_layers": 3}, 4),  # sequences a row
    ],
)
def test_formula_counts_what_the_graph_computes(changes, sentence_order):
    config = CONFIG.replace(**changes)
    model = AlbertPretrainer(
        config, sop_head=sentence_order, pooler=sentence_order
    )
    loss_fn = MaskedLanguageModeling(
        pair_task="sop" if sentence_order else "none"
    )
    packed = sentence_order if sentence_order > 1 else None
    examples = batch(packed)

    def loss():
        normalizers = loss_fn.normalizers(examples)
        return loss_fn(model, examples, normalizers, tf.constant([1, 2]))[0]

    def gradients():
        with tf.GradientTape() as tape:
            value = loss()
        return tape.gradient(
            value, [v.value for v in model.trainable_variables]
        )

    sizes = (config, LENGTH, PREDICTIONS, sentence_order, packed or 1)
    forward = graph_of(loss)
    step = BATCH * pretraining_step_flops(*sizes)
    assert profiled_flops(forward) == step / 3
    assert flops_by_shapes(forward) == step / 3
    if packed or not changes:  # Tracing the gradients takes a second.
        assert flops_by_shapes(graph_of(gradients)) == step
