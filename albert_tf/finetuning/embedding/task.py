"""Task type of sentence embeddings."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from albert_tf.errors import InputError
from albert_tf.finetuning.embedding.examples import (
    EMBEDDING,
    EmbeddingExample,
    read_embedding_examples,
)
from albert_tf.finetuning.embedding.scores import (
    CORRELATIONS,
    METRICS,
    RETRIEVAL,
    bag_of_words_scores,
    check_metrics,
    embedding_scores,
    mean_embeddings,
)
from albert_tf.finetuning.task_type import TaskType


class Embedding(TaskType):
    """Embeddings of sentences, compared by their cosine.

    A prediction is the embeddings of an example's texts, of length 1, float32
    `[texts, hidden]`.
    """

    name = "embedding"
    metric_names = METRICS
    loss_settings = ("temperature",)
    has_head = False
    has_ensembles = False  # Models have different vector spaces.
    known_tasks = (EMBEDDING,)
    default_settings: ClassVar = EMBEDDING.settings
    optional_texts = ("pair",)
    layout = "vector"

    @property
    def min_seq_length(self):
        """Makes room for two pieces."""
        return 4

    # Examples and features.

    def read_examples(self, source, *, bad, labelled, training=False):
        """Reads texts, pairs or triplets; see `read_embedding_examples`."""
        return read_embedding_examples(source, bad=bad, labelled=labelled)

    def example(self, texts, id, location):
        """Makes an example from `text` and optionally `pair`."""
        given = tuple(texts[x] for x in ("text", "pair") if x in texts)
        return EmbeddingExample(id=id, texts=given, location=location)

    def features(self, examples, *, labelled):
        """Returns a sequence, and without labels an example, for each text."""
        from albert_tf.finetuning.embedding import features

        make = (
            features.training_features if labelled else features.text_features
        )
        return make(
            examples, self.tokenizer, max_seq_length=self.max_seq_length
        )

    def describe_examples(self, features):
        """Returns "pairs", "pairs with scores", "triplets" or "texts"."""
        from albert_tf.finetuning.embedding.features import KINDS

        has_scores = "labels" in features.columns
        return KINDS[features.sequences_per_example, has_scores]

    # Model and loss.

    def prepare_model(self, model, features, micro_batch_size):
        """Checks that batches have negatives, and texts alone have dropout."""
        config = model.config
        if "labels" in features.columns:
            return
        if micro_batch_size < 2:
            raise InputError(
                "the contrastive loss needs at least 2 examples in each "
                f"replica's micro-batch, not {micro_batch_size}; raise "
                "train_batch_size or lower gradient_accumulation_steps"
            )
        dropout = (
            config.hidden_dropout_prob or config.attention_probs_dropout_prob
        )
        if features.sequences_per_example == 1 and not dropout:
            raise InputError(
                "the model has no dropout, so the two embeddings of a text "
                "would be equal; train with --config_overrides="
                "hidden_dropout_prob=0.1,attention_probs_dropout_prob=0.1, or "
                "on pairs of texts"
            )

    @property
    def model_class(self):
        """`AlbertSentenceEncoder`."""
        from albert_tf.finetuning.embedding.model import AlbertSentenceEncoder

        return AlbertSentenceEncoder

    def make_loss(self, **settings):
        """Returns the contrastive loss, or the error of cosines."""
        from albert_tf.finetuning.embedding.model import EmbeddingLoss

        return EmbeddingLoss(**settings)

    def baselines(self, training, examples, word_embeddings=None):
        """Returns the scores of means of word embeddings and bags of words."""
        scores = {}
        table = word_embeddings() if word_embeddings is not None else None
        if table is not None:
            features = self.features(examples, labelled=False)
            means = mean_embeddings(table, features)
            scores["mean of word embeddings"] = embedding_scores(
                examples, means
            )
        return scores | bag_of_words_scores(training, examples)

    def forward(self, model, batch):
        """Returns the `embedding` of texts, of length 1."""
        import tensorflow as tf

        vectors = model({name: batch[name] for name in self.model_inputs})
        return {"embedding": tf.math.l2_normalize(vectors, axis=-1)}

    # Predictions and scores.

    def predictions(self, examples, features, outputs):
        """Returns the embeddings of each example's texts."""
        vectors = iter([output["embedding"] for output in outputs])
        return [np.stack([next(vectors) for _ in x.texts]) for x in examples]

    def record(self, example, prediction):
        """Returns the embedding of a text, or the similarity of two."""
        if len(example.texts) == 1:
            embedding = [round(x, 6) for x in prediction[0].tolist()]
            return {"id": example.id, "embedding": embedding}
        cosine = float(prediction[0] @ prediction[1])
        return {"id": example.id, "similarity": round(cosine, 6)}

    def scores(self, examples, predictions):
        """Returns correlations of cosines, or the accuracy of retrieval."""
        scores = embedding_scores(examples, np.concatenate(predictions))
        return {name: scores[name] for name in self.task_config.metrics}

    def metrics_for(self, examples):
        """Returns the task's metrics or, if none fits the pairs, others."""
        scored = any(x.label is not None for x in examples)
        fitting = CORRELATIONS if scored else (RETRIEVAL,)
        metrics = self.task_config.metrics
        return metrics if {*metrics} & {*fitting} else fitting

    def check_scores(self, examples):
        """Checks that the examples can be scored with the metrics."""
        check_metrics(self.task_config.metrics, examples)

    # Exports.

    def serve(self, preprocessor, model, inputs):
        """Returns the `embedding` of each `text`, `[batch, hidden]`."""
        import tensorflow as tf

        from albert_tf.finetuning.serving import text_sequences

        sequences = text_sequences(
            preprocessor, [inputs["text"]], self.max_seq_length
        )
        return {"embedding": tf.math.l2_normalize(model(sequences), axis=-1)}

    def served(self, prediction):
        """Returns the `embedding` of a text."""
        return {"embedding": prediction[0]}
