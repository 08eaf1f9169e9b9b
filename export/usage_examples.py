"""Examples of how an export is used, for its model card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from albert_tf.exporting.runtime_formats import format_of

_ENCODER = """\
import tensorflow as tf

encoder = tf.saved_model.load(".")
row = tf.constant([[2, 5, 6, 3, 0]])  # As the preprocessor returns them.
outputs = encoder(
    {
        "input_word_ids": row,
        "input_mask": tf.constant([[1, 1, 1, 1, 0]]),
        "input_type_ids": tf.zeros_like(row),
    }
)
print(outputs["pooled_output"].shape)  # [batch, hidden]
print(outputs["sequence_output"].shape)  # [batch, seq, hidden]"""

_PREPROCESSOR = """\
import tensorflow as tf
import tensorflow_text  # Registers the operations of tokenizers.

preprocess = tf.saved_model.load(".")
inputs = preprocess(tf.constant(["A sentence.", "And another."]))
print(inputs["input_word_ids"].shape)  # [batch, seq]"""

_STRINGS = """\
import tensorflow as tf
import tensorflow_text  # Registers the operations of tokenizers.

model = tf.saved_model.load(".")
{inputs}
for name, values in model.signatures["serving_default"](**inputs).items():
    print(name, values.shape)"""

_TF_KERAS = """\
import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"  # tensorflow-hub is for tf_keras.
import tensorflow as tf
import tensorflow_hub as hub
{text}
layer = hub.KerasLayer("."{trainable})
{call}"""

_KERAS_3 = """\
import keras
from albert_tf import HubLayer

layer = HubLayer("."{trainable})
{call}"""

_LITERT = """\
import numpy as np
import tensorflow as tf

# Without TensorFlow: ai_edge_litert.interpreter.Interpreter.
interpreter = tf.lite.Interpreter("{file}")
run = interpreter.get_signature_runner()
inputs = {{
    name: np.ones(details["shape"], details["dtype"])
    for name, details in run.get_input_details().items()
}}
for name, values in run(**inputs).items():
    print(name, values.shape)"""

_MEDIAPIPE = """\
from mediapipe.tasks.python import text

with text.{task}.create_from_model_path("{file}") as model:
    print(model.{method}("A sentence."))"""

# [CLS], a piece and [SEP], as `albert_tf.load_tokenizer(".")` returns them.
_ROW = {
    "input_word_ids": "[[2, 5, 3]]",
    "input_mask": "[[1, 1, 1]]",
    # Hugging Face's names.
    "input_ids": "[[2, 5, 3]]",
    "attention_mask": "[[1, 1, 1]]",
}

_ENCODER_CALL = """\
inputs = {
    name: keras.Input((None,), dtype="int32", name=name)
    for name in ("input_word_ids", "input_mask", "input_type_ids")
}
logits = keras.layers.Dense(1)(layer(inputs)["pooled_output"])
model = keras.Model(inputs, logits)  # To compile and fit."""

_TEXT_CALL = 'print(layer(tf.constant(["A sentence."])))'
_EXAMPLES = {
    "question": "Who wrote it?",
    "context": "Ada wrote it. Bob read it.",
}


def usage(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns (library, Python code) pairs that show how to load an export.

    The code runs in the folder of the export.

    Args:
      values: the contents of `export.json`.
    """
    kind = values["kind"]
    if kind == "litert":
        programs = [("LiteRT", _LITERT.format(file=values["file"]))]
        if task := values.get("mediapipe_task"):
            method = "embed" if task == "TextEmbedder" else "classify"
            code = _MEDIAPIPE.format(
                task=task, file=values["file"], method=method
            )
            programs.append(("MediaPipe", code))
        return programs
    if model_format := format_of(kind):
        names = values["signatures"]["serving_default"]["inputs"]
        dtype = "int64" if "input_ids" in names else "int32"
        lines = (
            f'    "{x}": np.array({_ROW.get(x, "[[0, 0, 0]]")}, "{dtype}"),'
            for x in names
        )
        inputs = "\n".join(["inputs = {", *lines, "}"])
        code = model_format.usage.format(file=values["file"], inputs=inputs)
        return [(model_format.runtime, code)]
    if kind == "encoder":
        return [
            ("TensorFlow", _ENCODER),
            *_layers(_ENCODER_CALL, trainable=True),
        ]
    if kind == "preprocessor":
        return [
            ("TensorFlow", _PREPROCESSOR),
            *_layers(_TEXT_CALL, trainable=False),
        ]
    return [("TensorFlow", _STRINGS.format(inputs=_string_inputs(values)))]


def _layers(call: str, *, trainable: bool) -> list[tuple[str, str]]:
    argument = ", trainable=True" if trainable else ""
    text = "" if trainable else "import tensorflow_text\n"
    in_tf_keras = call.replace("keras.", "tf.keras.")
    in_keras_3 = _KERAS_3.format(trainable=argument, call=call)
    if "tf." in call:
        in_keras_3 = in_keras_3.replace(
            "import keras\n", "import tensorflow as tf\n"
        )
    return [
        (
            "tf_keras",
            _TF_KERAS.format(text=text, trainable=argument, call=in_tf_keras),
        ),
        ("Keras 3", in_keras_3),
    ]


def _string_inputs(values: Mapping[str, Any]) -> str:
    signatures = values.get("signatures", {})
    names = signatures.get("serving_default", {}).get("inputs", ["text"])
    lines = ["inputs = {"]
    for name in names:
        if name == "options":
            text = '[["Ada", "Bob"]]'
        else:
            text = f'["{_EXAMPLES.get(name, "A sentence.")}"]'
        lines.append(f'    "{name}": tf.constant({text}),')
    return "\n".join([*lines, "}"])
