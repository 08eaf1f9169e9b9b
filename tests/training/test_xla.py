"""The train step compiled by XLA, as on a TPU."""

import functools
import re

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import kernels

from albert_tf.config import AlbertConfig
from albert_tf.finetuning.embedding.model import (
    AlbertSentenceEncoder,
    EmbeddingLoss,
)
from albert_tf.finetuning.losses import CrossEntropyLoss
from albert_tf.finetuning.multiple_choice.model import AlbertMultipleChoice
from albert_tf.finetuning.question_answering.model import (
    AlbertQuestionAnswering,
    JointSpanLoss,
    SpanLoss,
)
from albert_tf.finetuning.text_classification.model import (
    AlbertClassifier,
    AlbertPairClassifier,
)
from albert_tf.finetuning.token_classification.model import (
    AlbertTokenClassifier,
    TokenClassificationLoss,
)
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.objectives.masked_language_modeling import MaskedLanguageModeling
from albert_tf.pretraining.config import PretrainConfig
from albert_tf.pretraining.train import pretrain
from albert_tf.training.checkpoint_files import read_checkpoint
from albert_tf.training.config import TrainingConfig
from albert_tf.training.distribution import set_precision
from albert_tf.training.optimizers import AdamW, Lamb
from albert_tf.training.train_step import TrainStep

BATCH, LENGTH, PREDICTIONS, CHOICES, CLASSES = 4, 8, 3, 2, 5
POSITIONS = {
    "start_positions": (LENGTH // 2, []),
    "end_positions": (LENGTH // 2, []),
}

# Its outputs, axes of shapes, differ in length; XLA computes them while it
# compiles, and refuses where it cannot.
COMPILE_TIME = {"BroadcastGradientArgs"}


# Name -> model of a config, its loss, shape of the tokens, and the labels:
# name -> number of values and shape.
MODELS = {
    "pretrainer": (
        AlbertPretrainer,
        MaskedLanguageModeling(),
        [LENGTH],
        {"sentence_order_labels": (2, [])},
    ),
    "classifier": (
        lambda config: AlbertClassifier(config, CLASSES),
        CrossEntropyLoss(),
        [LENGTH],
        {"labels": (CLASSES, [])},
    ),
    "token_classifier": (
        lambda config: AlbertTokenClassifier(config, CLASSES),
        TokenClassificationLoss(),
        [LENGTH],
        {"labels": (CLASSES, [LENGTH])},
    ),
    "multiple_choice": (
        AlbertMultipleChoice,
        CrossEntropyLoss(),
        [CHOICES, LENGTH],
        {"labels": (CHOICES, [])},
    ),
    "pair_classifier": (
        lambda config: AlbertPairClassifier(config, CLASSES),
        CrossEntropyLoss(),
        [LENGTH],
        {"labels": (CLASSES, [])},
    ),
    "embedding": (
        AlbertSentenceEncoder,
        EmbeddingLoss(),
        [3, LENGTH],
        {"text_hashes": (99, [3])},
    ),
    "span_v1": (
        lambda config: AlbertQuestionAnswering(config, "v1"),
        SpanLoss(),
        [LENGTH],
        POSITIONS,
    ),
    "span_joint": (
        lambda config: AlbertQuestionAnswering(config, "joint"),
        JointSpanLoss(),
        [LENGTH],
        POSITIONS | {"is_impossible": (2, [])},
    ),
}


def random_batch(name, vocab_size, length=LENGTH):
    """Examples of a model; the second half of some rows is padding."""
    *_, shape, labels = MODELS[name]
    shape = [BATCH, *shape[:-1], length]
    rng = np.random.default_rng(0)
    mask = np.ones(shape, np.int32)
    mask[1::2, ..., length // 2 :] = 0
    batch = {
        "input_word_ids": rng.integers(5, vocab_size, shape) * mask,
        "input_mask": mask,
        "input_type_ids": mask * (np.arange(length) > 2),
    }
    for label, (values, label_shape) in labels.items():
        batch[label] = rng.integers(0, values, [BATCH, *label_shape])
    if name == "pretrainer":
        predictions = [BATCH, PREDICTIONS]
        batch |= {
            "masked_lm_positions": rng.integers(0, length // 2, predictions),
            "masked_lm_ids": rng.integers(5, vocab_size, predictions),
            "masked_lm_weights": np.float32([[1, 1, 0]] * BATCH),
        }
    if name == "span_joint":
        batch["p_mask"] = 1 - mask
    return {
        name: tf.constant(x, tf.float32 if x.dtype == np.float32 else tf.int32)
        for name, x in batch.items()
    }


def make_step(name, config, optimizer=Lamb, accumulation=1, length=LENGTH):
    """Returns the model, the compiled step and its arguments."""
    make_model, loss, *_ = MODELS[name]
    model = make_model(config)
    optimizer = optimizer()
    optimizer.build(model.trainable_variables)
    step = TrainStep(
        TrainingConfig(
            num_train_steps=1, gradient_accumulation_steps=accumulation
        ),
        model,
        loss,
        optimizer,
        micro_batch_size=BATCH // accumulation,
    )
    arguments = (
        random_batch(name, config.vocab_size, length),
        tf.constant(1e-3),
        tf.constant([3, 4]),
        tf.constant(1.0),
    )

    @tf.function(jit_compile=True, autograph=False)
    def compiled(batch, rate, seed, scale):
        return step(batch, rate, seed, scale)

    return model, compiled, arguments


def graph_problems(function, arguments):
    """Says what in a traced function a TPU could not run.

    All functions are searched that the graph calls, such as the bodies of its
    loops. TensorFlow's table of kernels says which operations XLA has one for:
    what CPU and GPU share is of XLA's common part, which the TPU has too.
    """
    graph = function.get_concrete_function(*arguments).graph
    graph_def = graph.as_graph_def(add_shapes=True)
    nodes = [("", node) for node in graph_def.node]
    for body in graph_def.library.function:
        nodes += [(body.signature.name, node) for node in body.node_def]
    problems, seen = set(), set()
    for where, node in nodes:
        seen.add(node.op)
        if node.op in COMPILE_TIME:
            continue
        if node.op != "Placeholder" and not has_xla_kernel(node.op):
            problems.add(f"{node.op} has no XLA kernel")
        for shape in node.attr["_output_shapes"].list.shape:
            if shape.unknown_rank or any(d.size < 0 for d in shape.dim):
                problems.add(f"{where} {node.name} ({node.op}): dynamic shape")
        for name in ("T", "dtype", "DstT"):
            if node.attr[name].type in (tf.string, tf.float64):
                problems.add(f"{where} {node.name}: {node.attr[name]}")
    return problems, seen


@functools.cache
def has_xla_kernel(operation):
    found = kernels.get_registered_kernels_for_op(operation).kernel
    return {"XLA_CPU_JIT", "XLA_GPU_JIT"} <= {k.device_type for k in found}


def check_step(
    name, config, optimizer, accumulation, *, execute, length=LENGTH
):
    """Traces, searches and lowers a step; compiles and runs it if asked to."""
    model, step, arguments = make_step(
        name, config, optimizer, accumulation, length
    )
    problems, seen = graph_problems(step, arguments)
    assert not problems
    assert {"MatMul", "StatelessRandomUniformV2"} <= seen
    assert ("While" in seen) == (accumulation > 1)
    # What a TPU would be given: fails on operations without a translation and
    # on shapes that are not known then.
    hlo = step.experimental_get_compiler_ir(*arguments)(stage="hlo")
    assert " dot(" in hlo
    assert not re.search(r" (infeed|outfeed|send|recv)\(|callback|<=", hlo)
    if not execute:
        return
    before = [v.numpy() for v in model.trainable_variables]
    assert np.isfinite(step(*arguments)).all()
    for variable, old in zip(model.trainable_variables, before, strict=True):
        # A softmax does not depend on the keys' bias: its gradient is rounding,
        # and now and then that is zero.
        if not variable.path.endswith("key/bias"):
            assert (variable.numpy() != old).any(), variable.path


@pytest.fixture(params=["float32", "mixed_bfloat16"])
def precision(request):
    set_precision(request.param)
    yield request.param
    set_precision("float32")


@pytest.fixture
def bfloat16():
    set_precision("mixed_bfloat16")
    yield
    set_precision("float32")


@pytest.mark.long
@pytest.mark.usefixtures("bfloat16")
@pytest.mark.parametrize(
    "name", ["pretrainer", "classifier", "token_classifier", "span_joint"]
)
def test_steps_can_be_compiled(name, small_config):
    accumulates = name in ("pretrainer", "span_joint")
    check_step(
        name,
        small_config.replace(num_hidden_layers=1 + (name == "pretrainer")),
        Lamb if accumulates else AdamW,
        2 if accumulates else 1,
        execute=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("accumulation", [1, 2])
def test_steps_compile_and_run(name, accumulation, precision, small_config):
    config = small_config.replace(num_hidden_layers=2)
    # So any two of precision, optimizer and accumulation meet.
    lamb = (precision == "float32") == (accumulation == 1)
    optimizer = Lamb if lamb else AdamW
    check_step(name, config, optimizer, accumulation, execute=True)


@pytest.mark.slow
def test_runs_with_and_without_xla_agree(records, small_config, tmp_path):
    values = []
    for jit_compile in (False, True):
        output = tmp_path / str(jit_compile)
        pretrain(
            PretrainConfig(
                input=str(records),
                output=output,
                model=small_config.replace(
                    vocab_size=600,
                    max_position_embeddings=32,
                    # XLA's generator draws other masks from the same seeds.
                    hidden_dropout_prob=0.0,
                    attention_probs_dropout_prob=0.0,
                ),
                num_train_steps=5,
                seed=3,
                jit_compile=jit_compile,
                train_batch_size=8,
                learning_rate=2e-3,
                num_warmup_steps=2,
                max_eval_steps=1,
                distribution="one_device",
            )
        )
        values.append(read_checkpoint(output / "checkpoints/step-00000005"))
    # XLA fuses and sums in another order, over five updates.
    for name, value in values[0].items():
        np.testing.assert_allclose(
            value, values[1][name], rtol=0, atol=1e-5, err_msg=name
        )


def official_sizes():
    """Names of official architectures, one of each size.

    What is left out changes neither the operations nor, by much, the memory.
    """
    names = {}
    for name in AlbertConfig.official_names():
        config = AlbertConfig.from_official(name)
        size = config.num_hidden_layers, config.hidden_size, config.hidden_act
        names.setdefault(size, name)
    return [*names.values()]


@pytest.mark.slow
@pytest.mark.usefixtures("bfloat16")
@pytest.mark.parametrize("name", official_sizes())
def test_official_sizes(name):
    config = AlbertConfig.from_official(name).replace(
        hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1
    )
    # Larger ones are lowered, which is what TPU and CPU have in common, but
    # not compiled for and run on this machine.
    execute = config.hidden_size <= 768
    check_step("pretrainer", config, Lamb, 2, execute=execute, length=128)


def through_python(x):
    y = tf.py_function(lambda value: value + 1.0, [x], tf.float32)
    return tf.ensure_shape(y, x.shape)


def printed(x):
    with tf.control_dependencies([tf.print(x)]):
        return tf.identity(x)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (through_python, "EagerPyFunc has no XLA kernel"),
        (lambda x: tf.numpy_function(np.sin, [x], tf.float32), "PyFunc has no"),
        (printed, "PrintV2 has no XLA kernel"),
        (
            lambda x: x + tf.reduce_sum(tf.boolean_mask(x, x > 0.0)),
            "dynamic shape",
        ),
        (lambda x: tf.cast(tf.cast(x, tf.float64), tf.float32), "DT_DOUBLE"),
    ],
)
def test_unsupported_operations_in_a_loop_are_found(body, problem):
    @tf.function(jit_compile=True, autograph=False)
    def loop(x):
        return tf.while_loop(
            lambda i, _: i < 2,
            lambda i, y: (i + 1, tf.ensure_shape(body(y), [3])),
            (0, x),
        )[1]

    problems, _ = graph_problems(loop, (tf.ones([3]),))
    assert any(problem in found for found in problems), problems
