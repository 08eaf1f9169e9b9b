"""A user's program, for the type checker: every line must pass."""

import numpy as np

import albert_tf


def train(data: str) -> list[dict[str, object]]:
    config = albert_tf.AlbertConfig(hidden_size=256, num_attention_heads=4)
    albert_tf.pretrain(
        albert_tf.PretrainConfig(
            input=data, output="run", model=config, learning_rate=1e-3
        )
    )
    task = albert_tf.known_task("sst2")
    files = albert_tf.TaskFiles(train=["train.tsv"], dev=["dev.tsv"])
    albert_tf.finetune(
        albert_tf.FinetuneConfig(
            init_from="run", output="sst2", num_train_epochs=2.0
        ),
        task,
        files,
    )
    scores: dict[str, float] = albert_tf.evaluate("sst2", "test.tsv")
    print(scores["accuracy"])
    albert_tf.export(
        "sst2",
        "exported",
        kind="task",
        config=albert_tf.ExportConfig(overwrite=True),
    )
    return albert_tf.Predictor("sst2")(["A quiet, lovely film."])


def embed(texts: list[str]) -> np.ndarray:
    encoder = albert_tf.AlbertEncoder.from_pretrained("albert/albert-base-v2")
    preprocessor = albert_tf.AlbertPreprocessor("run/spiece.model")
    return np.asarray(encoder(preprocessor(texts))["pooled_output"])


def count(text: str) -> int:
    return len(albert_tf.load_tokenizer("run").encode(text))
