"""ALBERT for TensorFlow 2 and Keras 3, from raw text to TF-Hub.

Public names are imported lazily, on first use, so that `import albert_tf` and
`albert --help` do not wait for TensorFlow.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from typing import TYPE_CHECKING

import wrapt

if TYPE_CHECKING:
    from albert_tf.config import AlbertConfig as AlbertConfig
    from albert_tf.data.create_data import (
        create_pretraining_data as create_pretraining_data,
    )
    from albert_tf.data.data_config import (
        PretrainingDataConfig as PretrainingDataConfig,
    )
    from albert_tf.errors import InputError as InputError
    from albert_tf.evaluation.config import EvaluateConfig as EvaluateConfig
    from albert_tf.evaluation.evaluate import evaluate as evaluate
    from albert_tf.exporting.config import ExportConfig as ExportConfig
    from albert_tf.exporting.export import export as export
    from albert_tf.exporting.hub_layer import HubLayer as HubLayer
    from albert_tf.finetuning.config import FinetuneConfig as FinetuneConfig
    from albert_tf.finetuning.embedding.model import (
        AlbertSentenceEncoder as AlbertSentenceEncoder,
    )
    from albert_tf.finetuning.finetune import finetune as finetune
    from albert_tf.finetuning.multiple_choice.model import (
        AlbertMultipleChoice as AlbertMultipleChoice,
    )
    from albert_tf.finetuning.predictor import Predictor as Predictor
    from albert_tf.finetuning.question_answering.model import (
        AlbertQuestionAnswering as AlbertQuestionAnswering,
    )
    from albert_tf.finetuning.text_classification.model import (
        AlbertClassifier as AlbertClassifier,
    )
    from albert_tf.finetuning.token_classification.model import (
        AlbertTokenClassifier as AlbertTokenClassifier,
    )
    from albert_tf.interop.convert import convert as convert
    from albert_tf.interop.convert_config import ConvertConfig as ConvertConfig
    from albert_tf.interop.open_checkpoint import (
        load_tokenizer as load_tokenizer,
    )
    from albert_tf.models.encoder import AlbertEncoder as AlbertEncoder
    from albert_tf.models.pretrainer import AlbertPretrainer as AlbertPretrainer
    from albert_tf.pipelines.fill_mask import FillMask as FillMask
    from albert_tf.pipelines.sentence_embedder import (
        SentenceEmbedder as SentenceEmbedder,
    )
    from albert_tf.pipelines.sentence_order import (
        SentenceOrder as SentenceOrder,
    )
    from albert_tf.pretraining.config import PretrainConfig as PretrainConfig
    from albert_tf.pretraining.train import pretrain as pretrain
    from albert_tf.text.preprocessor_layer import (
        AlbertPreprocessor as AlbertPreprocessor,
    )
    from albert_tf.text.sentencepiece_tokenizer import (
        AlbertTokenizer as AlbertTokenizer,
    )
    from albert_tf.text.wordpiece_tokenizer import (
        AlbertWordPieceTokenizer as AlbertWordPieceTokenizer,
    )

__version__ = "0.2.0"

# The module that defines each name. The imports above tell type checkers and
# editors the same; a test compares the two.
_MODULES = {
    "AlbertClassifier": "finetuning.text_classification.model",
    "AlbertConfig": "config",
    "AlbertEncoder": "models.encoder",
    "AlbertMultipleChoice": "finetuning.multiple_choice.model",
    "AlbertPreprocessor": "text.preprocessor_layer",
    "AlbertPretrainer": "models.pretrainer",
    "AlbertQuestionAnswering": "finetuning.question_answering.model",
    "AlbertSentenceEncoder": "finetuning.embedding.model",
    "AlbertTokenClassifier": "finetuning.token_classification.model",
    "AlbertTokenizer": "text.sentencepiece_tokenizer",
    "AlbertWordPieceTokenizer": "text.wordpiece_tokenizer",
    "ConvertConfig": "interop.convert_config",
    "EvaluateConfig": "evaluation.config",
    "ExportConfig": "exporting.config",
    "FillMask": "pipelines.fill_mask",
    "FinetuneConfig": "finetuning.config",
    "HubLayer": "exporting.hub_layer",
    "InputError": "errors",
    "Predictor": "finetuning.predictor",
    "PretrainConfig": "pretraining.config",
    "PretrainingDataConfig": "data.data_config",
    "SentenceEmbedder": "pipelines.sentence_embedder",
    "SentenceOrder": "pipelines.sentence_order",
    "convert": "interop.convert",
    "create_pretraining_data": "data.create_data",
    "evaluate": "evaluation.evaluate",
    "export": "exporting.export",
    "finetune": "finetuning.finetune",
    "load_tokenizer": "interop.open_checkpoint",
    "pretrain": "pretraining.train",
}

__all__ = [*_MODULES]

# Old names -> names, until version 0.3.
_RENAMED = {"AlbertSpanLabeler": "AlbertQuestionAnswering"}


# Classes that a `.keras` file may contain.
_KERAS_CLASSES = (
    "AlbertClassifier",
    "AlbertEncoder",
    "AlbertMultipleChoice",
    "AlbertPreprocessor",
    "AlbertPretrainer",
    "AlbertQuestionAnswering",
    "AlbertSentenceEncoder",
    "AlbertTokenClassifier",
    "HubLayer",
)
# Those without a public name -> their module.
_OTHER_KERAS_CLASSES = {
    "AlbertPairClassifier": "finetuning.text_classification.model",
    "PretrainingModel": "objectives.fit",
    "ReplacedTokenDetector": "objectives.replaced_token_detection",
}


class _Deferred:
    """Placeholder in Keras's registry, which imports a class on first use."""

    def __init__(self, name: str):
        self._name = name

    def from_config(self, config):
        """Calls `from_config` of the class."""
        name = _RENAMED.get(self._name, self._name)
        path = (_MODULES | _OTHER_KERAS_CLASSES)[name]
        module = importlib.import_module(f"albert_tf.{path}")
        return getattr(module, name).from_config(config)


def _register_classes(keras) -> None:
    """Lets Keras load `.keras` files whose classes are not imported yet."""
    registry = keras.saving.get_custom_objects()
    old = (x for x in _RENAMED if _RENAMED[x] in _KERAS_CLASSES)
    for name in (*_KERAS_CLASSES, *_OTHER_KERAS_CLASSES, *old):
        registry.setdefault(f"albert_tf>{name}", _Deferred(name))


# On import, as Keras may be imported later or never.
wrapt.register_post_import_hook(_register_classes, "keras")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


# Type checkers would otherwise accept any name.
if not TYPE_CHECKING:

    def __getattr__(name):
        if name in _RENAMED:
            warnings.warn(
                f"albert_tf.{name} is now albert_tf.{_RENAMED[name]}; the old "
                "name will be removed in version 0.3",
                DeprecationWarning,
                stacklevel=2,
            )
            return getattr(sys.modules[__name__], _RENAMED[name])
        if name not in _MODULES:
            raise AttributeError(
                f"module 'albert_tf' has no attribute {name!r}"
            )
        from albert_tf.quiet_import import quiet_by_default

        with quiet_by_default():
            module = importlib.import_module(f"albert_tf.{_MODULES[name]}")
        return getattr(module, name)
