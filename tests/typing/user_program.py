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
    albert_tf.finetune(
        albert_tf.FinetuneConfig(
            task="sst2",
            train="train.tsv",
            dev="dev.tsv",
            init_from="run",
            output="sst2",
            num_train_epochs=2.0,
        )
    )
    scores: dict[str, float] = albert_tf.evaluate(
        albert_tf.EvaluateConfig(model="sst2", input="test.tsv")
    )
    print(scores["accuracy"])
    albert_tf.export(
        albert_tf.ExportConfig(
            model="sst2", output="exported", kind="task", overwrite=True
        )
    )
    albert_tf.convert(albert_tf.ConvertConfig(input="run", output="model"))
    return albert_tf.Predictor("sst2")(["A quiet, lovely film."])


def embed(texts: list[str]) -> np.ndarray:
    encoder = albert_tf.AlbertEncoder.from_pretrained("albert/albert-base-v2")
    preprocessor = albert_tf.AlbertPreprocessor("run/spiece.model")
    return np.asarray(encoder(preprocessor(texts))["pooled_output"])


def count(text: str) -> int:
    return len(albert_tf.load_tokenizer("run").encode(text))
