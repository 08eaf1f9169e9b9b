"""What every system is given to compute."""

from __future__ import annotations

import dataclasses

import numpy as np

from albert_tf.config import AlbertConfig


@dataclasses.dataclass(frozen=True)
class Workload:
    """An architecture and the shape of a batch; same for all systems.

    Attributes:
      config: the architecture.
      batch: sequences a batch, all without padding.
      length: tokens a sequence.
      predictions: masked tokens a sequence.
      threads: threads that a system may use.
    """

    config: AlbertConfig
    batch: int
    length: int
    predictions: int
    threads: int

    def examples(self) -> dict[str, np.ndarray]:
        """Returns a random pretraining batch, as our input pipeline makes it.

        The dict of docs/design.md, "data": five int32 arrays `[batch, length]`
        or `[batch, predictions]`, float32 weights and int32 `[batch]` labels.
        """
        rng = np.random.default_rng(0)
        shape = (self.batch, self.length)
        ids = rng.integers(5, self.config.vocab_size, shape, dtype="int32")
        types = np.zeros(shape, "int32")
        types[:, self.length // 2 :] = 1
        # Each row picks its own positions, in order, never [CLS].
        order = rng.random((self.batch, self.length - 1)).argsort(axis=1)
        positions = np.sort(order[:, : self.predictions], axis=1) + 1
        return {
            "input_word_ids": ids,
            "input_mask": np.ones(shape, "int32"),
            "input_type_ids": types,
            "masked_lm_positions": positions.astype("int32"),
            "masked_lm_ids": np.take_along_axis(ids, positions, axis=1),
            "masked_lm_weights": np.ones(positions.shape, "float32"),
            "sentence_order_labels": rng.integers(
                0, 2, self.batch, dtype="int32"
            ),
        }
