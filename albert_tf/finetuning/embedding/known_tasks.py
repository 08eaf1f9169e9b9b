"""The task of sentence embeddings, whose files are the user's own."""

from __future__ import annotations

from albert_tf.finetuning.embedding.scores import CORRELATIONS
from albert_tf.finetuning.task_config import TaskConfig

EMBEDDING = TaskConfig(
    name="embedding",
    task_type="embedding",
    metrics=CORRELATIONS,
    settings={"max_seq_length": 128},
)
