"""Conversion of models to ONNX.

Embeddings and blocks are written node by node (`onnx_blocks`), as runtimes do
not recognize LayerNorm and attention in a translation of the TensorFlow graph,
whose projections multiply rows of tokens. tf2onnx translates everything else,
such as the head of a task.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from albert_tf.backend import check_backend
from albert_tf.errors import InputError
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.inputs import SEQUENCE_INPUTS
from albert_tf.models.model_graph import float32_copy
from albert_tf.optional_packages import import_packages
from albert_tf.runtimes.ids_program import IdsProgram
from albert_tf.runtimes.onnx_blocks import write_blocks
from albert_tf.text.packing import ENCODER_INPUTS

# The latest that tf2onnx supports. LayerNormalization requires 17.
OPSET = 18
# The first IR version with this opset.
_IR_VERSION = 8
# Smaller weights are not quantized, as they have little effect on the size.
_MIN_QUANTIZED_SIZE = 1024
# Type and name of the TensorFlow operation that is the placeholder of
# embeddings and blocks.
_PLACEHOLDER_TYPE = "PyFunc"
_PLACEHOLDER = "albert_blocks"


def onnx_model(
    program: IdsProgram,
    storage: str = "float32",
    *,
    purpose: str = "ONNX models",
    packed: bool = False,
) -> Any:
    """Converts a program to an `onnx.ModelProto`.

    Inputs are int32 `[batch, seq]` of any size. Each weight is stored once,
    under its public path, however many blocks read it.

    Args:
      program: the program to convert; `resizable` is ignored.
      storage: type of stored matrices: "float32"; "float16", for computation in
        float32; or "int8" with a scale for each output or row, which OpenVINO
        computes with, and ONNX Runtime dequantizes.
      purpose: what needs ONNX, see `import_packages`.
      packed: whether to compute no padding; see `AlbertEncoder`.

    Raises:
      InputError: if a package is not installed, or the program uses an
        operation that ONNX does not support.
    """
    check_backend("converting a model to ONNX")
    onnx, tf2onnx = import_packages(["onnx", "tf2onnx"], purpose)
    logging.getLogger("tf2onnx").setLevel(logging.ERROR)
    model = float32_copy(program.model, packed=False)
    encoders = [x for x in model._flatten_layers() if type(x) is AlbertEncoder]
    for number, encoder in enumerate(encoders):
        # Overrides the method in this copy.
        encoder.blocks = _placeholder_blocks(
            encoder, f"{_PLACEHOLDER}_{number}"
        )
    values = {weight.path: weight.numpy() for weight in model.weights}
    # Weights are inputs during the translation, as tf2onnx folds constants, and
    # drops those that are all zeros or ones.
    names = {f"weight_{i}": path for i, path in enumerate(values)}

    def serve(*arguments):
        ids = dict(zip(program.inputs, arguments, strict=False))
        weights = arguments[len(ids) :]
        with keras.StatelessScope(
            state_mapping=list(zip(model.weights, weights, strict=True))
        ):
            return dict(program.forward(model, ids))

    translated, _ = tf2onnx.convert.from_function(
        tf.function(serve, autograph=False),
        input_signature=[
            *(tf.TensorSpec([None, None], tf.int32, x) for x in program.inputs),
            *(
                tf.TensorSpec(values[path].shape, tf.float32, name)
                for name, path in names.items()
            ),
        ],
        opset=OPSET,
        custom_op_handlers={_PLACEHOLDER_TYPE: (lambda _, node, *__: node, [])},
    )
    graph = GraphBuilder(onnx, values, storage)
    renamed = _deterministic_names(translated.graph)
    for tensor in translated.graph.initializer:
        tensor.name = renamed[tensor.name]
        graph.tensors[tensor.name] = tensor
    for number, node in enumerate(translated.graph.node):
        blocks = re.fullmatch(
            rf"(?:.*/)?{_PLACEHOLDER}_(\d+)(?:_\d+)?", node.name
        )
        _rename(
            node, lambda x: graph.weight(names[x]) if x in names else renamed[x]
        )
        if node.op_type == _PLACEHOLDER_TYPE and blocks:
            write_blocks(graph, encoders[int(blocks[1])], node, packed=packed)
        else:
            node.name = f"head/{node.op_type}_{number}"
            graph.copy(node)
    return graph.model(program.inputs, translated.graph.output)


def _deterministic_names(translated) -> dict[str, str]:
    """Returns new names of tensors that are equal in every process.

    tf2onnx and Keras number names by counters of the process, and the order of
    tf2onnx's constants is arbitrary.
    """
    names = {"": ""}
    constants = {tensor.name for tensor in translated.initializer}
    inputs = (name for node in translated.node for name in node.input)
    used = dict.fromkeys(name for name in inputs if name in constants)
    for number, name in enumerate([*used, *sorted(constants - set(used))]):
        names[name] = f"head/constant_{number}"
    for number, node in enumerate(translated.node):
        for index, name in enumerate(node.output):
            names[name] = f"head/{node.op_type}_{number}:{index}"
    kept = [*translated.input, *translated.output]
    return names | {tensor.name: tensor.name for tensor in kept}


def _rename(node, name_of: Callable[[str], str]) -> None:
    """Renames the inputs and outputs of a node in place."""
    node.input[:] = map(name_of, node.input)
    node.output[:] = map(name_of, node.output)


def _placeholder_blocks(encoder: AlbertEncoder, name: str) -> Callable:
    """Returns a replacement of `AlbertEncoder.blocks` that is one operation.

    The operation takes ids, mask, types and, if given, positions, and returns
    the states after each block, `[batch, seq, hidden]`.
    """
    config = encoder.config
    count = config.num_hidden_layers * config.inner_group_num

    def blocks(inputs, positions=None, training=False, output_attentions=False):
        del training, output_attentions  # Both are False.
        if any(name in inputs for name in SEQUENCE_INPUTS):
            raise InputError(
                "the model packs several sequences into a row, which exports "
                f"to ONNX do not support ({', '.join(SEQUENCE_INPUTS)})"
            )
        tensors = [tf.cast(inputs[x], tf.int32) for x in ENCODER_INPUTS]
        if positions is not None:
            tensors.append(tf.cast(positions, tf.int32))
        states = tf.numpy_function(
            _never_run, tensors, [tf.float32] * count, name=name
        )
        shape = [None, None, config.hidden_size]
        return [tf.ensure_shape(x, shape) for x in states], _Layout(tensors[0])

    return blocks


def _never_run(*_):
    raise AssertionError("placeholders must be replaced before they run")


class _Layout:
    """The interface of `PaddedRows` for states `[batch, seq, hidden]`."""

    def __init__(self, ids):
        self.batch = tf.shape(ids)[0]

    def restore(self, states):
        return states

    def take(self, states, positions):
        picks = tf.gather(states, positions, batch_dims=1)
        return tf.reshape(picks, [-1, states.shape[-1]])


class GraphBuilder:
    """Builds an ONNX graph.

    Attributes:
      tensors: name -> constant or weight.
      FLOAT, INT64: ONNX data types.

    Args:
      onnx: the module.
      weights: path -> value.
      storage: see `onnx_model`.
    """

    def __init__(self, onnx, weights: Mapping[str, np.ndarray], storage: str):
        self._onnx = onnx
        self._weights = weights
        self._storage = storage
        self._nodes: list[Any] = []
        self._names: set[str] = set()
        self.tensors: dict[str, Any] = {}
        self.FLOAT = onnx.TensorProto.FLOAT
        self.INT64 = onnx.TensorProto.INT64

    def add(
        self,
        operation: str,
        *inputs: str,
        name: str = "",
        output: str = "",
        **attributes,
    ) -> str:
        """Adds a node; returns the name of its output."""
        name = name or f"encoder/{operation}_{len(self._nodes)}"
        if name in self._names:
            name = f"{name}_{len(self._nodes)}"
        self._names.add(name)
        output = output or f"{name}:0"
        self._nodes.append(
            self._onnx.helper.make_node(
                operation, inputs, [output], name=name, **attributes
            )
        )
        return output

    def scalar(self, value: float) -> str:
        """Adds a float32 number `[1]`; returns its name."""
        return self._constant(np.array(value, "float32"))

    def integers(self, *values: int) -> str:
        """Adds an int64 vector; returns its name."""
        return self._constant(np.array(values, "int64"))

    def _constant(self, value) -> str:
        numbers = "_".join(map(str, np.ravel(value).tolist()))
        name = f"{value.dtype.name}_{numbers}"
        self._store(name, value)
        return name

    def weight(self, path: str) -> str:
        """Adds a weight; returns the name of its float32 value."""
        value = self._weights[path]
        few = value.size < _MIN_QUANTIZED_SIZE or value.ndim != 2
        if few or self._storage == "float32":
            self._store(path, value)
            return path
        output = f"{path}/float32"
        if path in self.tensors:
            return output
        if self._storage == "float16":
            self._store(path, value.astype("float16"))
            self.add("Cast", path, name=output, output=output, to=self.FLOAT)
            return output
        # Kernels have a scale for each output, embedding tables for each row.
        axis = 1 if path.endswith("kernel") else 0
        scales = np.abs(value).max(axis=1 - axis, keepdims=True) / 127
        scales = np.where(scales == 0, 1, scales).astype("float32")
        self._store(path, np.round(value / scales).astype("int8"))
        scale = f"{path}/scale"
        self._store(scale, scales.ravel())
        names = {"name": output, "output": output}
        self.add("DequantizeLinear", path, scale, axis=axis, **names)
        return output

    def _store(self, name: str, value: np.ndarray) -> None:
        if name not in self.tensors:
            value = np.ascontiguousarray(value)
            tensor = self._onnx.numpy_helper.from_array(value, name)
            self.tensors[name] = tensor

    def copy(self, node) -> None:
        """Adds a node of the translated graph.

        Raises:
          InputError: if ONNX does not have its operation, or it is a loop or a
            branch, whose subgraphs cannot be renamed.
        """
        known = self._onnx.defs.has(node.op_type, OPSET, "")
        if (
            node.domain
            or not known
            or any(x.HasField("g") for x in node.attribute)
        ):
            raise InputError(
                f"the model computes {node.op_type}, for which ONNX has no "
                "operation that can be exported"
            )
        self._nodes.append(node)

    def model(self, inputs: Sequence[str], outputs: Sequence[Any]) -> Any:
        """Returns the model, without unused nodes and constants.

        Args:
          inputs: names of the inputs.
          outputs: `ValueInfoProto`s of the outputs.
        """
        helper = self._onnx.helper
        read = dict.fromkeys(output.name for output in outputs)
        nodes = []
        for node in reversed(self._nodes):
            if any(name in read for name in node.output):
                nodes.append(node)
                read.update(dict.fromkeys(node.input))
        for output in outputs:
            shape = output.type.tensor_type.shape
            for size, name in zip(
                shape.dim, ("batch", "sequence"), strict=False
            ):
                if not size.dim_value:
                    size.dim_param = name
        graph = helper.make_graph(
            nodes[::-1],
            "albert",
            [
                helper.make_tensor_value_info(
                    name, self._onnx.TensorProto.INT32, ["batch", "sequence"]
                )
                for name in inputs
            ],
            outputs,
            initializer=[self.tensors[x] for x in read if x in self.tensors],
        )
        return helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=_IR_VERSION,
            producer_name="albert_tf",
        )
