"""The base class of all ALBERT models."""

from __future__ import annotations

import logging
import os
import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import keras
from keras.src.backend.common.name_scope import current_path

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.interop.checkpoint import (
    Checkpoint,
    Vocabulary,
    check_vocabulary,
)
from albert_tf.interop.names import ANY_HEAD
from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.layers.core import refuse_quantization
from albert_tf.models.arguments import check_config
from albert_tf.models.inputs import check_not_texts
from albert_tf.models.pretrained import (
    assign_weights,
    checkpoint_of,
    write_pretrained,
)
from albert_tf.models.public_names import public_path
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.packing import ENCODER_INPUTS
from albert_tf.text.tokenizer_files import (
    SETTINGS_FILE,
    load_tokenizer,
    tokenizer_files,
)

if TYPE_CHECKING:
    from typing import Self  # new in Python 3.11

_logger = logging.getLogger(__name__)

MASKED_LM_POSITIONS = "masked_lm_positions"


def with_attentions(outputs, attentions):
    """Adds attentions, unless they are None, to a model's outputs.

    A logits tensor becomes a dict with the key `logits`.
    """
    if attentions is None:
        return outputs
    if not isinstance(outputs, Mapping):
        outputs = {"logits": outputs}
    return {**outputs, "attentions": attentions}


def _without_attentions(outputs):
    """Reverts `with_attentions`."""
    if not isinstance(outputs, Mapping) or "attentions" not in outputs:
        return outputs
    outputs = {k: v for k, v in outputs.items() if k != "attentions"}
    return outputs["logits"] if list(outputs) == ["logits"] else outputs


def _outputs_with_labels(outputs, labels):
    """Drops outputs without labels, as Keras requires one for each output."""
    if not isinstance(labels, dict):
        return _without_attentions(outputs)
    if not isinstance(outputs, dict):
        return outputs
    return {name: value for name, value in outputs.items() if name in labels}


class AlbertModel(keras.Model):
    """Base class of the ALBERT models.

    Models are built by their constructor, which ends with `complete`; that of a
    subclass builds the layers that it adds (`layer.build(shape)`). They take
    a dict of inputs, a list of them in the same order, or ids alone, whose mask
    is then 0 where an id is 0, that of padding. The `path` of a variable,
    without `scope`, is its stable, public name.

    Attributes:
      config: the architecture.
      vocabulary: the checkpoint's tokenizer, saved with the model.
      load_report: after `from_pretrained`, a summary of the loaded, skipped and
        newly initialized tensors; else "".
      scope: the name scope that it was created in, "" if there was none.

    Args:
      config: the architecture.
      **kwargs: `name`, `dtype` and `trainable` of `keras.Model`.

    Raises:
      InputError: if `config` is not an `AlbertConfig`.
    """

    # The task head, one of `interop.names.HEADS`, for checkpoints whose head is
    # ambiguous.
    HEAD: ClassVar[str | None] = None

    # Constructor argument that determines the head -> its values, in words.
    HEAD_ARGUMENTS: ClassVar[Mapping[str, str]] = {}

    # Keys of the input dict, and the rank of their values.
    INPUTS: tuple[str, ...] = ENCODER_INPUTS
    INPUT_RANK: ClassVar[int] = 2

    def __init__(self, config: AlbertConfig, **kwargs):
        check_config(type(self).__name__, config)
        super().__init__(**kwargs)
        if self.dtype_policy.quantization_mode is not None:
            refuse_quantization(self.dtype_policy.quantization_mode)
        # Keras has no public API for this.
        self.scope = current_path()
        self.config = config
        self.head_dropout = 0.1
        self.multi_label = False
        self.vocabulary = Vocabulary()
        self.load_report = ""

    def __call__(self, inputs, *args, **kwargs):
        """Calls the model; raises a `ValueError` if the inputs are texts."""
        check_not_texts(inputs)
        return super().__call__(inputs, *args, **kwargs)

    @property
    def _default_save_signature(self):
        # TensorFlow would trace nested models with ids of the compute dtype.
        if self.compute_dtype in ("float16", "bfloat16"):
            return None
        return super()._default_save_signature

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer that came with the checkpoint, or None.

        It truncates texts to the model's length.
        """
        longest = self.config.num_trained_positions
        return self.vocabulary.for_length(longest).tokenizer

    @tokenizer.setter
    def tokenizer(self, tokenizer: Tokenizer | None) -> None:
        if tokenizer is not None:
            check_vocabulary(tokenizer, self.config)
        self.vocabulary = Vocabulary(tokenizer)

    @classmethod
    def from_pretrained(
        cls,
        path: str | os.PathLike[str],
        *,
        new_head: bool = False,
        config: AlbertConfig | None = None,
        config_overrides: Mapping[str, Any] | None = None,
        revision: str | None = None,
        **arguments,
    ) -> Self:
        """Creates a model from a checkpoint of any system.

        The checkpoint must have all weights of the model, and no unknown
        tensors. The model's `load_report` lists the tensors that were loaded,
        skipped (such as the pretraining heads, for a classifier) and newly
        initialized.

        Args:
          path: a folder (of `save_pretrained`, transformers, a training run, a
            KerasHub preset, a SavedModel, or with a TF1 or TF2 checkpoint), an
            archive of one, a weights file with its config beside it,
            "albert_tiny_en", which is part of the package, or a name on a hub,
            such as "albert/albert-base-v2" or
            "kaggle://keras/albert/keras/albert_base_en_uncased".
          new_head: whether to initialize a new task head; for an
            `AlbertPretrainer`, the heads that the checkpoint lacks. A
            classifier with `num_labels` also gets a new head if the checkpoint
            has none.
          config: the architecture, for a TensorFlow checkpoint without a config
            file.
          config_overrides: config fields to replace, such as
            `{"hidden_dropout_prob": 0.1}`.
          revision: a branch, tag or commit on the Hugging Face hub.
          **arguments: arguments of the model, such as `num_labels`, `packed` or
            `dtype`.

        Raises:
          InputError: if the checkpoint cannot be opened, or does not fit the
            model.
        """
        checkpoint = open_checkpoint(
            path,
            head=cls.HEAD or ANY_HEAD,
            config=config,
            config_overrides=config_overrides,
            revision=revision,
        )
        return cls.from_checkpoint(checkpoint, new_head=new_head, **arguments)

    @classmethod
    def from_checkpoint(
        cls, checkpoint: Checkpoint, *, new_head: bool = False, **arguments
    ) -> Self:
        """Creates a model from an open checkpoint; see `from_pretrained`."""
        from_file = cls._arguments_from(checkpoint, new_head, arguments)
        labels = arguments.get("labels")
        is_new = "num_labels" in set(cls.HEAD_ARGUMENTS) - set(from_file)
        if is_new and isinstance(labels, (list, tuple)):
            arguments.setdefault("num_labels", len(labels))
        for name, values in cls.HEAD_ARGUMENTS.items():
            if name not in from_file | arguments:
                raise InputError(
                    f"{checkpoint.source} ({checkpoint.format}) has no head "
                    f"for an {cls.__name__}; give {name}={values} for a new one"
                )
        model = cls(checkpoint.config, **from_file | arguments)
        # Head arguments that the checkpoint does not have imply a new head.
        implied = bool(set(cls.HEAD_ARGUMENTS) - set(from_file))
        new_head = new_head or implied
        report = assign_weights(model, checkpoint, new_head)
        model.multi_label = checkpoint.head.multi_label and not new_head
        model.vocabulary = checkpoint.vocabulary
        if model.vocabulary.problem:
            _logger.warning("no tokenizer: %s", model.vocabulary.problem)
        model.load_report = report
        return model

    def save_pretrained(
        self, folder: str | os.PathLike[str], tokenizer: Tokenizer | None = None
    ) -> None:
        """Saves the model to a folder that `from_pretrained` opens.

        Writes `config.json`, `model.safetensors` and the tokenizer's files with
        Hugging Face's names and shapes, so that transformers opens it as well.
        LoRA updates (`enable_lora` of the layers) are merged into the kernels.
        A model with `sharing` other than "all", which transformers does not
        support, is written such that transformers rejects the folder.

        Args:
          folder: the folder; it may exist, and its files are replaced at once.
          tokenizer: the tokenizer to save; by default, the one that the model
            was loaded with.

        Raises:
          InputError: if the folder cannot be written, a variable is not part of
            an ALBERT, or the tokenizer has more pieces than the model.
        """
        if tokenizer is not None:
            self.tokenizer = tokenizer
        write_pretrained(checkpoint_of(self), folder, self._extra_files())

    def _extra_files(self) -> dict[str, str]:
        """Returns further files of `save_pretrained`, name -> content."""
        return {}

    def quantize(self, mode=None, *args, **kwargs):
        """Raises an `InputError`: ALBERT models compute in floating point."""
        refuse_quantization(mode)

    def export(
        self,
        filepath: str | os.PathLike[str],
        format: str = "tf_saved_model",
        **kwargs: Any,
    ) -> None:
        """Exports the model for inference, like `keras.Model.export`.

        The model does not have to be called first. Inputs are int32 of any
        batch size and length; outputs are those of `call` except for lists of
        tensors such as `encoder_outputs`, which the formats do not support. For
        exports that take strings or follow TF-Hub's API, see
        `albert_tf.export`.

        Args:
          filepath: the folder or file to write.
          format: "tf_saved_model", "onnx", or another of Keras's formats.
          **kwargs: further arguments of `keras.Model.export`, such as
            `input_signature` and `verbose`.

        Raises:
          InputError: if Keras's backend is JAX, whose inputs would each have a
            length of their own, or PyTorch, but for `format="onnx"`.
        """
        backend = keras.backend.backend()
        if backend == "jax" or (backend, format) == ("torch", "tf_saved_model"):
            raise InputError(
                f"{type(self).__name__}.export: Keras cannot export a dict of "
                f"inputs of any length from {backend}; save the model, and "
                "export it with KERAS_BACKEND=tensorflow"
            )
        # Keras infers the inputs of functional models only.
        shape = (None,) * (self.INPUT_RANK - 1)
        inputs = {
            name: keras.Input(shape, dtype="int32", name=name)
            for name in self.INPUTS
        }
        outputs = _without_attentions(self.__call__(inputs))
        if isinstance(outputs, Mapping):
            outputs = {
                name: output
                for name, output in outputs.items()
                if not isinstance(output, (list, tuple))
            }
        # ONNX exports need the signature even of functional models.
        kwargs.setdefault("input_signature", [inputs])
        keras.Model(inputs, outputs, name=self.name).export(
            filepath, format, **kwargs
        )

    @classmethod
    def _arguments_from(
        cls, checkpoint: Checkpoint, new_head: bool, given: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Returns the constructor arguments that a checkpoint determines.

        Arguments `given` by the caller take precedence.
        """
        return {}

    def complete(self) -> None:
        """Ends the constructor, when all parts of the model are built."""
        self.built = True
        if not self.trainable:
            # As in Keras's layers. `self.trainable` is False already, and
            # setting it again has no effect.
            for layer in self._flatten_layers(include_self=False):
                layer.trainable = False

    def _lock_state(self) -> None:
        """Lets subclasses add layers, as Keras's functional models do."""

    def note_trained_positions(self, length: int) -> None:
        """Records in the config that positions up to `length` are trained."""
        if length > self.config.num_trained_positions:
            self.config = self.config.replace(trained_positions=int(length))
            if (encoder := getattr(self, "encoder", None)) is not None:
                encoder.config = self.config

    def save_assets(self, dir_path: str) -> None:
        """Writes the tokenizer's files; called by Keras."""
        if self.tokenizer is not None:
            for name, content in tokenizer_files(self.tokenizer).items():
                pathlib.Path(dir_path, name).write_bytes(content)

    def load_assets(self, dir_path: str | None) -> None:
        """Loads the tokenizer that `save_assets` wrote; called by Keras."""
        if dir_path and os.path.exists(os.path.join(dir_path, SETTINGS_FILE)):
            self.vocabulary = Vocabulary(load_tokenizer(dir_path))

    def compute_loss(
        self, x=None, y=None, y_pred=None, sample_weight=None, training=True
    ):
        """Computes Keras's loss of the outputs that have labels."""
        return super().compute_loss(
            x, y, _outputs_with_labels(y_pred, y), sample_weight, training
        )

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """Computes Keras's metrics of the outputs that have labels."""
        return super().compute_metrics(
            x, y, _outputs_with_labels(y_pred, y), sample_weight
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor arguments, and the names of frozen layers."""
        config = {**super().get_config(), "config": self.config.to_dict()}
        frozen = [name for name, layer in _layers(self) if not layer.trainable]
        return config | ({"frozen": frozen} if frozen else {})

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects=None) -> Self:
        """Creates a model from the output of `get_config`."""
        config = dict(config)
        frozen = config.pop("frozen", None)
        architecture = AlbertConfig.from_dict(config["config"])
        model = cls(**{**config, "config": architecture})
        if frozen is not None:
            for name, layer in _layers(model):
                if layer.trainable == (name in frozen):
                    layer.trainable = name not in frozen
        return model


def _layers(model: AlbertModel) -> list[tuple[str, keras.layers.Layer]]:
    """Returns the public names and the layers in a model, parents first."""
    layers = model._flatten_layers(include_self=False)
    return [(public_path(model, x), x) for x in layers if x.path]
