"""Replaced-token detection (ELECTRA), with sentence order as an option.

Source: Clark et al. 2020, arXiv:2003.10555. A small generator fills in masked
tokens; the model learns, for every token, whether the generator replaced it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.layers.core import activation, dense
from albert_tf.layers.dropout import random_seed
from albert_tf.models.base import AlbertModel
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.flops import (
    encoder_flops,
    mlm_head_flops,
    sentence_order_flops,
)
from albert_tf.models.pretrainer import MaskedLMHead
from albert_tf.objectives.objective import (
    Batch,
    Objective,
    Term,
    encoder_inputs,
    original_ids,
    prediction_weights,
    replace_masked,
    token_weights,
)
from albert_tf.settings import setting
from albert_tf.training.loss import sparse_cross_entropy

if TYPE_CHECKING:
    from typing import Self  # new in Python 3.11


class ReplacedTokenHead(keras.layers.Layer):
    """Scores tokens as replaced: dense layer H -> H, projection to a logit."""

    def __init__(self, config: AlbertConfig, **kwargs):
        super().__init__(**kwargs)
        size = config.hidden_size
        self.dense = dense(
            config, size, "dense", self.dtype_policy, activation("gelu_tanh")
        )
        # Logits are float32 in any precision.
        self.output_projection = dense(config, 1, "output", "float32")
        self._size = size

    def build(self, input_shape=None):
        """Creates the weights."""
        self.dense.build((None, self._size))
        self.output_projection.build((None, self._size))

    def call(self, states):
        """Maps states `[..., hidden]` to float32 logits `[...]`."""
        return self.output_projection(self.dense(states))[..., 0]


@keras.saving.register_keras_serializable(package="albert_tf")
class ReplacedTokenDetector(AlbertModel):
    """An ALBERT as discriminator, and a generator that shares its embeddings.

    Inputs are those of `AlbertEncoder`. Outputs are a dict:

    - `rtd_logits`, float32 `[batch, seq]`: positive for tokens that seem to be
      replaced
    - `sop_logits` and `pooled_output`, as those of `AlbertPretrainer`

    `encoder` is an ordinary ALBERT; generator and heads are dropped when a run
    is converted, exported or fine-tuned.

    Args:
      config: the architecture of the discriminator.
      generator_hidden_size: hidden size of the generator.
      generator_num_hidden_layers: number of layers of the generator.
      rematerialize: see `AlbertEncoder`.
      **kwargs: `name`, `dtype` and `trainable` of `keras.Model`.
    """

    def __init__(
        self,
        config: AlbertConfig,
        generator_hidden_size: int,
        generator_num_hidden_layers: int,
        rematerialize: bool = False,
        **kwargs,
    ):
        super().__init__(config, **{"name": "detector", **kwargs})
        self.encoder = AlbertEncoder(
            config, rematerialize=rematerialize, dtype=self.dtype_policy
        )
        self.rtd_head = ReplacedTokenHead(
            config, name="rtd_head", dtype=self.dtype_policy
        )
        self.sop_head = dense(config, 2, "sop_head", "float32")
        sizes = generator_config(
            config, generator_hidden_size, generator_num_hidden_layers
        )
        self.generator = AlbertEncoder(
            sizes,
            pooler=False,
            rematerialize=rematerialize,
            embeddings=self.encoder.embeddings,
            name="generator",
            dtype=self.dtype_policy,
        )
        self.generator_head = MaskedLMHead(
            sizes, name="generator_head", dtype=self.dtype_policy
        )
        # The objective, saved with the model by `save_pretrained`.
        self.objective: dict[str, Any] = {
            "objective": "rtd",
            "objective_settings": self._sizes,
        }
        # Not in `build`, whose scope would be part of the variables' paths.
        self.rtd_head.build()
        self.sop_head.build((None, config.hidden_size))
        self.generator_head.build()
        self.complete()

    def call(self, inputs, training=False):
        """Maps the input dict to the output dict (see the class)."""
        outputs = self.encoder(inputs, training=training)
        pooled = outputs["pooled_output"]
        return {
            "rtd_logits": self.rtd_head(outputs["sequence_output"]),
            "sop_logits": self.sop_head(pooled),
            "pooled_output": pooled,
        }

    def generate(self, inputs, positions, training=False):
        """Returns the generator's logits, float32 `[batch, picks, vocab_size]`.

        Args:
          inputs: the input dict, with [MASK] at the positions.
          positions: int32 `[batch, picks]`.
          training: whether to apply dropout.
        """
        states = self.generator.states_at(inputs, positions, training=training)
        batch, picks, size = ops.shape(states)
        logits = self.generator_head(
            ops.reshape(states, (-1, size)), self.encoder.word_embeddings
        )
        return ops.reshape(logits, (batch, picks, self.config.vocab_size))

    @property
    def _sizes(self) -> dict[str, int]:
        sizes = self.generator.config
        return {
            "generator_hidden_size": sizes.hidden_size,
            "generator_num_hidden_layers": sizes.num_hidden_layers,
        }

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of `from_config`."""
        return {
            **super().get_config(),
            **self._sizes,
            "rematerialize": self.encoder.rematerialize,
            "objective": self.objective,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects=None) -> Self:
        """Creates a model from the output of `get_config`."""
        config = dict(config)
        objective = config.pop("objective", None)  # Older files have none.
        model = super().from_config(config, custom_objects)
        model.objective = objective or model.objective
        return model


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReplacedTokenDetection(Objective):
    """Replaced-token detection (arXiv:2003.10555, section 2).

    The generator is trained on the masked tokens, all of which it sees as
    [MASK]. A sample of its predictions replaces them; the discriminator is
    trained on all tokens. A sample that is equal to the original token counts
    as original. No gradient flows through the samples.
    """

    name: ClassVar[str] = "rtd"
    heads: ClassVar[tuple[str, ...]] = (
        "rtd_head",
        "sop_head",
        "generator",
        "generator_head",
    )
    metrics: ClassVar[tuple[str, ...]] = (
        "generator_loss",
        "generator_accuracy",
        "rtd_loss",
        "rtd_accuracy",
        "rtd_chance",
        "rtd_precision",
        "rtd_recall",
        "rtd_replaced",
    )
    baselines: ClassVar[Mapping[str, tuple[str, str]]] = {
        "generator_accuracy": ("mlm_unigram_accuracy", "most frequent token"),
        "rtd_accuracy": ("rtd_chance", "all tokens original"),
        "rtd_precision": ("rtd_replaced", "chance"),
    }

    generator_hidden_size: int = setting(
        0,
        "Hidden size of the generator; 0: a quarter of the model's.",
        bounds="[0, 65536]",
    )
    generator_num_hidden_layers: int = setting(
        0,
        "Number of layers of the generator; 0: as many as the model has.",
        bounds="[0, 1000]",
    )
    discriminator_weight: float = setting(
        50.0,
        "Weight of the discriminator's loss; that of the generator is 1.",
        bounds="[0, 1e6]",
    )

    @property
    def heads_of_fixed_depth(self) -> tuple[str, ...]:
        """The generator, unless it has as many layers as the model."""
        return ("generator",) if self.generator_num_hidden_layers else ()

    def make_model(self, config: AlbertConfig, **options: Any) -> AlbertModel:
        """Creates a `ReplacedTokenDetector`."""
        hidden, layers = self._generator_sizes(config)
        model = ReplacedTokenDetector(config, hidden, layers, **options)
        model.objective["objective_settings"]["discriminator_weight"] = (
            self.discriminator_weight
        )
        return model

    def weights(self, batch: Batch) -> dict[str, Any]:
        """Returns the weights of masked tokens, all tokens, sentence pairs."""
        return {
            "generator": prediction_weights(batch),
            "rtd": token_weights(batch),
            **self.sentence_order_weights(batch),
        }

    def terms(
        self, model: AlbertModel, batch: Batch, training: bool
    ) -> dict[str, Term]:
        """Computes the losses of generator, discriminator and pairs."""
        labels = batch["masked_lm_ids"]
        masked = replace_masked(
            batch, ops.full_like(labels, self.known_mask_id())
        )
        logits = model.generate(
            encoder_inputs({**batch, "input_word_ids": masked}),
            batch["masked_lm_positions"],
            training=training,
        )
        losses, hits = sparse_cross_entropy(labels, logits)
        corrupted = replace_masked(batch, sample_tokens(logits))
        outputs = model(
            encoder_inputs({**batch, "input_word_ids": corrupted}),
            training=training,
        )
        scores = outputs["rtd_logits"]
        replaced = ops.cast(
            ops.not_equal(corrupted, original_ids(batch)), "float32"
        )
        flagged = ops.cast(scores > 0, "float32")
        tokens = token_weights(batch)
        found = flagged * replaced
        return {
            "generator": Term(losses, {"accuracy": hits}),
            "rtd": Term(
                # The cross-entropy of a logit and a label of 0 or 1.
                ops.softplus(scores) - scores * replaced,
                {
                    "accuracy": 1 - ops.abs(flagged - replaced),
                    "chance": 1 - replaced,
                    "precision": (found, flagged * tokens),
                    "recall": (found, replaced * tokens),
                    "replaced": replaced,
                },
                factor=self.discriminator_weight,
            ),
            **self.sentence_order_terms(outputs["sop_logits"], batch),
        }

    def step_flops(
        self,
        config: AlbertConfig,
        length: int,
        predictions: int,
        sequences: int = 1,
    ) -> int:
        """Returns the operations of an example in a training step."""
        generator = generator_config(config, *self._generator_sizes(config))
        h = config.hidden_size
        forward = encoder_flops(generator, length, predictions)
        forward += mlm_head_flops(generator, predictions)
        forward += encoder_flops(config, length, length)
        forward += 2 * length * (h * h + h)
        if self.pair_task != "none":
            forward += sentence_order_flops(config, sequences)
        return 3 * forward

    def _generator_sizes(self, config: AlbertConfig) -> tuple[int, int]:
        return (
            self.generator_hidden_size or max(1, config.hidden_size // 4),
            self.generator_num_hidden_layers or config.num_hidden_layers,
        )


def generator_config(
    config: AlbertConfig, hidden_size: int, num_hidden_layers: int
) -> AlbertConfig:
    """Returns the architecture of a generator.

    Heads are as wide as the discriminator's, as in ELECTRA, and the
    feed-forward network is as many times wider than the hidden size. All
    layers share their weights.

    Args:
      config: the architecture of the discriminator.
      hidden_size: hidden size of the generator.
      num_hidden_layers: number of layers of the generator.
    """
    width = config.hidden_size // config.num_attention_heads
    heads = hidden_size // width if hidden_size % width == 0 else 1
    return config.replace(
        hidden_size=hidden_size,
        num_hidden_layers=num_hidden_layers,
        num_hidden_groups=1,
        inner_group_num=1,
        sharing="all",
        num_attention_heads=heads,
        intermediate_size=max(
            1, config.intermediate_size * hidden_size // config.hidden_size
        ),
    )


def sample_tokens(logits: Any) -> Any:
    """Samples tokens from a distribution, by Gumbel noise.

    Args:
      logits: float32 `[..., vocab_size]`.

    Returns:
      int32 `[...]`, without a gradient.
    """
    logits = ops.stop_gradient(logits)
    # The smallest number keeps the inner logarithm finite.
    noise = keras.random.uniform(
        ops.shape(logits), 1e-9, 1.0, dtype="float32", seed=random_seed()
    )
    gumbel = -ops.log(-ops.log(noise))
    return ops.cast(ops.argmax(logits + gumbel, axis=-1), "int32")
