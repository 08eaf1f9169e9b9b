"""albert_tf, KerasHub, and the rate of TensorFlow's matrix products."""

from __future__ import annotations

import os
import time

import numpy as np

from cpu_systems.task import Task

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # as in `albert`

import keras
import tensorflow as tf

_INPUTS = ("input_word_ids", "input_mask", "input_type_ids")
_LEARNING_RATE = 1e-4


def _start(threads: int, precision: str) -> dict[str, str]:
    """Sets threads and precision and returns versions."""
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    policy = {"bfloat16": "mixed_bfloat16"}.get(precision, precision)
    keras.config.set_dtype_policy(policy)
    return {"tensorflow": tf.__version__, "keras": keras.__version__}


def _tensors(work, names) -> dict[str, tf.Tensor]:
    return {name: tf.constant(work[name]) for name in names if name in work}


class AlbertTf:
    """albert_tf's models.

    Args:
      folder: Folder of the model.
      threads: Number of threads.
      precision: "float32", or "bfloat16" for Keras's mixed_bfloat16.
      form: "call" (the Keras model in a `tf.function`), "xla" (the same with
        XLA) or "saved_model" (the export).
    """

    def __init__(self, folder, threads, precision, form):
        self.versions = _start(threads, precision)
        self._folder, self._form = folder, form

    def forward(self, work):
        """Prepares the last hidden states for ids `[batch, length]`."""
        inputs = _tensors(work, _INPUTS)
        if self._form == "saved_model":
            loaded = tf.saved_model.load(self._folder / "saved_model")
            serve = loaded.signatures["serving_default"]
            return Task(
                lambda: {
                    "sequence_output": serve(**inputs)[
                        "sequence_output"
                    ].numpy()
                }
            )
        from albert_tf.models.encoder import AlbertEncoder

        encoder = AlbertEncoder.from_pretrained(self._folder / "checkpoint")

        @tf.function(jit_compile=self._form == "xla" or None)
        def encode(inputs):
            states = encoder(inputs)["sequence_output"]
            return tf.cast(states, tf.float32)

        return Task(lambda: {"sequence_output": encode(inputs).numpy()})

    def text(self, work):
        """Prepares the pooled outputs for texts, batched by length."""
        if self._form == "saved_model":
            return self._exported_text(work)
        from albert_tf.finetuning.predictor import BatchPredictor
        from albert_tf.models.encoder import AlbertEncoder

        encoder = AlbertEncoder.from_pretrained(
            self._folder / "checkpoint", packed=True
        )
        predict = BatchPredictor(
            tf.distribute.get_strategy(),
            encoder,
            lambda model, batch: {
                "pooled_output": tf.cast(model.pooled_output(batch), tf.float32)
            },
            batch_size=work["batch"],
        )

        def run():
            features = _features(work, encoder.tokenizer)
            rows = predict(features)
            return {
                "pooled_output": np.stack([x["pooled_output"] for x in rows])
            }

        return Task(run)

    def _exported_text(self, work):
        import tensorflow_text  # noqa: F401  The graph's operations.

        from cpu_systems.task import in_batches, in_order

        model = tf.saved_model.load(self._folder / "text_model")
        texts, pairs = np.array(work["texts"]), work.get("pairs")
        parts = [texts] if pairs is None else [texts, np.array(pairs)]
        letters = [sum(map(len, row)) for row in zip(*parts, strict=True)]

        @tf.function(
            input_signature=[[tf.TensorSpec([None], tf.string)] * len(parts)]
        )
        def embed(parts):
            inputs = parts[0] if len(parts) == 1 else parts
            outputs = model(inputs, seq_length=tf.constant(work["length"]))
            return outputs["pooled_output"]

        def run():
            batches = in_batches(letters, work["batch"])
            outputs = [
                embed([tf.constant(x[rows]) for x in parts]).numpy()
                for rows in batches
            ]
            return {"pooled_output": in_order(outputs, batches)}

        return Task(run)

    def step(self, work):
        """Prepares a step of `albert pretrain`."""
        from albert_tf.models.pretrainer import AlbertPretrainer
        from albert_tf.objectives.masked_language_modeling import (
            MaskedLanguageModeling,
        )

        examples = {
            name: tf.constant(value)
            for name, value in work.items()
            if isinstance(value, np.ndarray)
        }
        model = AlbertPretrainer.from_pretrained(self._folder / "checkpoint")
        step = self._train_step(model, MaskedLanguageModeling(), work["batch"])
        train_step = tf.function(step, autograph=False)
        arguments = (
            tf.constant(_LEARNING_RATE),
            tf.constant([0, 1]),
            tf.ones([]),
        )

        def run():
            rows = train_step(examples, *arguments).numpy()
            values = dict(
                zip(step.row_names, rows[:, 0] / rows[:, 1], strict=True)
            )
            return {
                name: np.asarray(values[name], "float32")
                for name in ("mlm_loss", "sop_loss", "gradient_norm")
            }

        return Task(run)

    def finetune(self, work):
        """Prepares an epoch of `albert finetune`."""
        from albert_tf.finetuning.batches import training_batches
        from albert_tf.finetuning.losses import CrossEntropyLoss
        from albert_tf.finetuning.text_classification.model import (
            AlbertClassifier,
        )
        from albert_tf.training.train_step import make_train_loop

        model = AlbertClassifier.from_pretrained(
            self._folder / "classifier", packed=True
        )
        step = self._train_step(model, CrossEntropyLoss(), work["batch"])
        loop = make_train_loop(
            tf.distribute.get_strategy(),
            step,
            lambda step: tf.constant(_LEARNING_RATE),
        )
        steps = len(work["texts"]) // work["batch"]

        tokenizer = model.tokenizer
        assert tokenizer is not None

        def check():
            batch = tokenizer(work["texts"][:8], max_length=work["length"])
            return {"logits": tf.cast(model(batch), tf.float32).numpy()}

        features = _features(work, tokenizer, labels=("0", "1"))
        batches = iter(
            training_batches(features, batch_size=work["batch"], seed=0)
        )

        def run():
            rows, _ = loop(batches, tf.constant(0), tf.constant(steps))
            return {"loss": rows[-1, 0, 0].numpy()}

        return Task(run, check)

    @staticmethod
    def _train_step(model, loss, batch):
        from albert_tf.training.config import TrainingConfig
        from albert_tf.training.optimizers import AdamW
        from albert_tf.training.train_step import TrainStep

        optimizer = AdamW()
        optimizer.build(model.trainable_variables)
        config = TrainingConfig(num_train_steps=1, log_update_norms=False)
        return TrainStep(config, model, loss, optimizer, micro_batch_size=batch)


def _features(work, tokenizer, labels=None):
    from albert_tf.finetuning.text_classification.examples import TextExample
    from albert_tf.finetuning.text_classification.features import text_features

    pairs = work.get("pairs") or [None] * len(work["texts"])
    classes = work.get("labels") or [None] * len(pairs)
    examples = [
        TextExample(
            id=str(i),
            text=text,
            pair=pair,
            label=None if label is None else str(label),
            location=f"text {i}",
        )
        for i, (text, pair, label) in enumerate(
            zip(work["texts"], pairs, classes, strict=True)
        )
    ]
    return text_features(
        examples,
        tokenizer,
        max_seq_length=work["length"],
        labels=labels,
        labelled=labels is not None,
    )


class KerasHub:
    """`AlbertBackbone`, and `AlbertMaskedLM`, which has no sentence order.

    Args:
      folder: Folder of the model.
      threads: Number of threads.
      precision: "float32".
      form: "graph" or "XLA".
    """

    def __init__(self, folder, threads, precision, form):
        self.versions = _start(threads, precision)
        import keras_hub

        self.versions["keras_hub"] = keras_hub.__version__
        self._models = keras_hub.models
        self._folder = str(folder / "keras_hub")
        self._jit = form == "XLA"

    def forward(self, work):
        """Prepares the last hidden states for ids `[batch, length]`."""
        backbone = self._models.AlbertBackbone.from_preset(self._folder)
        inputs = self._inputs(work)

        @tf.function(jit_compile=self._jit or None)
        def encode(inputs):
            return backbone(inputs, training=False)["sequence_output"]

        return Task(lambda: {"sequence_output": encode(inputs).numpy()})

    def step(self, work):
        """Prepares a step: MLM loss, gradients, clipping and AdamW."""
        model = self._models.AlbertMaskedLM.from_preset(
            self._folder, preprocessor=None
        )
        inputs = self._inputs(work)
        inputs["mask_positions"] = tf.constant(work["masked_lm_positions"])
        labels = tf.constant(work["masked_lm_ids"])
        optimizer = keras.optimizers.AdamW(_LEARNING_RATE, weight_decay=0.01)
        variables = model.trainable_variables
        optimizer.build(variables)

        @tf.function
        def train_step():
            with tf.GradientTape() as tape:
                scores = model(inputs, training=True)
                loss = tf.reduce_mean(
                    keras.losses.sparse_categorical_crossentropy(
                        labels, scores, from_logits=True
                    )
                )
            gradients = tape.gradient(loss, [v.value for v in variables])
            gradients, _ = tf.clip_by_global_norm(gradients, 1.0)
            optimizer.apply(
                [
                    tf.zeros_like(v.value) if g is None else g
                    for g, v in zip(gradients, variables, strict=True)
                ],
                variables,
            )
            return loss

        return Task(lambda: {"mlm_loss": train_step().numpy()})

    @staticmethod
    def _inputs(work):
        return {
            "token_ids": tf.constant(work["input_word_ids"]),
            "padding_mask": tf.constant(work["input_mask"]),
            "segment_ids": tf.constant(work["input_type_ids"]),
        }


class ProductRate:
    """Operations per second of large square products."""

    def __init__(self, folder, threads, precision):
        del folder
        self.versions = _start(threads, "float32")
        self._precision = precision

    def rate(self, work):
        """Prepares the best rate of five products."""
        size = work["size"]
        left, right = (
            tf.cast(tf.random.normal([size, size]), self._precision)
            for _ in "ab"
        )
        product = tf.function(tf.matmul, autograph=False)

        def run():
            best = 0.0
            for _ in range(5):
                start = time.perf_counter()
                product(left, right)[0, 0].numpy()  # waits for the product
                seconds = time.perf_counter() - start
                best = max(best, 2.0 * size**3 / seconds)
            return {"rate": np.asarray(best)}

        return Task(run)
