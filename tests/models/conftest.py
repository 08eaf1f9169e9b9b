import dataclasses
import importlib.util
import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.finetuning.multiple_choice.model import AlbertMultipleChoice
from albert_tf.finetuning.question_answering.model import (
    AlbertQuestionAnswering,
)
from albert_tf.finetuning.text_classification.model import AlbertClassifier
from albert_tf.finetuning.token_classification.model import (
    AlbertTokenClassifier,
)
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrainer import AlbertPretrainer

_MODELS = {
    "encoder": AlbertEncoder,
    "encoder alone": lambda c, **k: AlbertEncoder(c, pooler=False, **k),
    "pretrainer": AlbertPretrainer,
    "masked language model": lambda c, **k: AlbertPretrainer(
        c, sop_head=False, pooler=False, **k
    ),
    "classifier": lambda c, **k: AlbertClassifier(c, 3, **k),
    "token classifier": lambda c, **k: AlbertTokenClassifier(c, 3, **k),
    "multiple choice": AlbertMultipleChoice,
    "spans": lambda c, **k: AlbertQuestionAnswering(c, "v1", **k),
    "joint spans": lambda c, **k: AlbertQuestionAnswering(c, "joint", **k),
}


@pytest.fixture(scope="module", params=_MODELS)
def name(request):
    """The name of each model."""
    return request.param


@pytest.fixture(scope="module")
def make(name):
    """Returns `make(config, **arguments)`, which creates the model `name`."""
    return _MODELS[name]


@pytest.fixture(params=["jax", "torch"])
def backend(request):
    """Each backend but TensorFlow."""
    if importlib.util.find_spec(request.param) is None:
        pytest.skip(f"{request.param} is absent: run `make test-backends`")
    return request.param


@pytest.fixture
def inputs(name, batch):
    """Inputs of the model `name`."""
    if name in ("pretrainer", "masked language model"):
        return {**batch, "masked_lm_positions": np.array([[1, 5]] * 4, "int32")}
    if name == "multiple choice":
        return {k: np.stack([x, x[::-1]], axis=1) for k, x in batch.items()}
    if name == "joint spans":
        return {**batch, "p_mask": 1 - batch["input_mask"]}
    return batch


# Our variable path -> the original's name. Repeated here, so that parity with
# the original does not depend on the code that opens checkpoints.
_GOOGLE_NAMES = (
    (r"^encoder/embeddings/layer_norm/", "bert/embeddings/LayerNorm/"),
    (r"^encoder/embeddings/", "bert/embeddings/"),
    (r"^encoder/(embedding_projection|transformer)/", r"bert/encoder/\1/"),
    (r"/embedding_projection/", "/embedding_hidden_mapping_in/"),
    (r"/inner_(\d+)/", r"/inner_group_\1/"),
    (r"/attention/(query|key|value)/", r"/attention_1/self/\1/"),
    (r"/attention/output/", "/attention_1/output/dense/"),
    (r"/attention/layer_norm/", "/LayerNorm/"),
    (r"/feed_forward/intermediate/", "/ffn_1/intermediate/dense/"),
    (r"/feed_forward/output/", "/ffn_1/intermediate/output/dense/"),
    (r"/feed_forward/layer_norm/", "/LayerNorm_1/"),
    (r"^encoder/pooler/", "bert/pooler/dense/"),
    (r"^mlm_head/dense/", "cls/predictions/transform/dense/"),
    (r"^mlm_head/layer_norm/", "cls/predictions/transform/LayerNorm/"),
    (r"^mlm_head/output_bias", "cls/predictions/output_bias"),
    (r"^sop_head/kernel", "cls/seq_relationship/output_weights"),
    (r"^sop_head/bias", "cls/seq_relationship/output_bias"),
    (r"^(classifier|choice)_head/kernel", "output_weights"),
    (r"^(classifier|choice)_head/bias", "output_bias"),
    (r"^span_head/kernel", "cls/squad/output_weights"),
    (r"^span_head/bias", "cls/squad/output_bias"),
    (r"^joint_span_head/start/", "start_logits/dense/"),
    (r"^joint_span_head/end/dense/", "end_logits/dense_0/"),
    (r"^joint_span_head/end/layer_norm/", "end_logits/LayerNorm/"),
    (r"^joint_span_head/end/output/", "end_logits/dense_1/"),
    (r"^joint_span_head/answerability/dense/", "answer_class/dense_0/"),
    (r"^joint_span_head/answerability/output/", "answer_class/dense_1/"),
)


class GoogleWeights:
    """Weights and gradients under the original's names, in its shapes."""

    @staticmethod
    def name(path):
        for pattern, replacement in _GOOGLE_NAMES:
            path = re.sub(pattern, replacement, path)
        return path

    @classmethod
    def load(cls, model, checkpoint):
        """Sets every weight of the model from a checkpoint."""
        reader = tf.train.load_checkpoint(str(checkpoint))
        for variable in model.trainable_variables:
            name = cls.name(variable.path)
            variable.assign(cls.turn(name, reader.get_tensor(name)))
        return model

    @classmethod
    def gradients(cls, model, gradients):
        """Returns the original's name -> gradient."""
        named = {}
        for variable, gradient in zip(
            model.trainable_variables, gradients, strict=True
        ):
            name = cls.name(variable.path)
            gradient = tf.convert_to_tensor(gradient).numpy()
            named[name] = cls.turn(name, gradient)
        return named

    @staticmethod
    def turn(name, value):
        # [outputs, hidden] there, [hidden, outputs] here.
        return value.T if name.endswith("output_weights") else value


@pytest.fixture(scope="session")
def google_weights():
    return GoogleWeights


# The original's names of our inputs.
_INPUTS = {
    "input_ids": "input_word_ids",
    "segment_ids": "input_type_ids",
    "label_ids": "labels",
}


@dataclasses.dataclass
class GoogleHead:
    """A fine-tuned model of the original, a batch of ours, and outputs."""

    config: AlbertConfig
    checkpoint: pathlib.Path
    batch: dict
    outputs: dict

    def load(self, model):
        return GoogleWeights.load(model, self.checkpoint)


@pytest.fixture
def google_head(shared):
    def find(task):
        folder = shared("golden", "google", "heads", task)
        case = shared("golden", "google", "model", "a_base")
        inputs = dict(np.load(folder / "inputs.npz"))
        return GoogleHead(
            AlbertConfig.from_json(case / "albert_config.json"),
            folder / "model.ckpt",
            {_INPUTS.get(x, x): tf.constant(y) for x, y in inputs.items()},
            dict(np.load(folder / "outputs.npz")),
        )

    return find
