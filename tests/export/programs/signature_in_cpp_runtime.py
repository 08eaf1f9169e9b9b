"""Runs a signature in TensorFlow's C++ runtime, without its Python package.

What TensorFlow Serving does with an export: it is loaded as a session by its
tags, operations of TensorFlow Text come from their libraries, and tensors are
fed and fetched by the names that the signature gives.

Usage: signature_in_cpp_runtime.py EXPORT REQUEST.json EXPECTED.npz

The request has "inputs" and "outputs": name in the file of arrays -> name of
the tensor in the graph.
"""

import ctypes
import importlib.util
import json
import pathlib
import sys

import numpy as np

TYPES = {1: np.float32, 3: np.int32}  # TF_DataType -> what it holds
STRING, STRING_BYTES = 7, 24  # TF_STRING; the size of a TF_TString
POINTER = ctypes.c_void_p
RESULTS = {
    POINTER: (
        "TF_NewGraph TF_NewStatus TF_NewSessionOptions TF_LoadLibrary "
        "TF_LoadSessionFromSavedModel TF_GraphOperationByName "
        "TF_AllocateTensor TF_TensorData TF_StringGetDataPointer"
    ),
    ctypes.c_size_t: "TF_StringGetSize",
    ctypes.c_int64: "TF_Dim",
    ctypes.c_char_p: "TF_Message",
}


class Output(ctypes.Structure):
    """TF_Output: an operation and the number of its output."""

    _fields_ = [("operation", POINTER), ("index", ctypes.c_int)]


def folder_of(package):
    # Finds a package without importing it.
    return pathlib.Path(importlib.util.find_spec(package).origin).parent


def load_runtime():
    folder = folder_of("tensorflow")
    framework = ctypes.CDLL(
        folder / "libtensorflow_framework.so.2", ctypes.RTLD_GLOBAL
    )
    runtime = ctypes.CDLL(folder / "libtensorflow_cc.so.2", ctypes.RTLD_GLOBAL)
    for result, names in RESULTS.items():
        for name in names.split():
            # dlsym finds what the second has from the first.
            getattr(runtime, name).restype = result
    return framework, runtime


_framework, tf = load_runtime()
status = POINTER(tf.TF_NewStatus())


def checked(result):
    assert tf.TF_GetCode(status) == 0, tf.TF_Message(status).decode()
    return result


def tensor_from(array):
    """Numbers, or a vector of strings -> TF_Tensor."""
    shape = (ctypes.c_int64 * array.ndim)(*array.shape)
    if array.dtype.kind != "U":
        array = np.ascontiguousarray(array)
        (number,) = (n for n, dtype in TYPES.items() if dtype == array.dtype)
        tensor = POINTER(
            tf.TF_AllocateTensor(
                number, shape, array.ndim, ctypes.c_size_t(array.nbytes)
            )
        )
        data = tf.TF_TensorData(tensor)
        ctypes.memmove(data, array.ctypes.data, array.nbytes)
        return tensor
    size = ctypes.c_size_t(array.size * STRING_BYTES)
    tensor = POINTER(tf.TF_AllocateTensor(STRING, shape, array.ndim, size))
    for number, text in enumerate(array.flat):
        place = POINTER(tf.TF_TensorData(tensor) + number * STRING_BYTES)
        tf.TF_StringInit(place)
        data = text.encode()
        tf.TF_StringCopy(place, data, ctypes.c_size_t(len(data)))
    return tensor


def array_from(tensor):
    shape = [tf.TF_Dim(tensor, n) for n in range(tf.TF_NumDims(tensor))]
    size = int(np.prod(shape))
    data, number = tf.TF_TensorData(tensor), tf.TF_TensorType(tensor)
    if number == STRING:
        places = [POINTER(data + n * STRING_BYTES) for n in range(size)]
        texts = [
            ctypes.string_at(
                tf.TF_StringGetDataPointer(place), tf.TF_StringGetSize(place)
            ).decode()
            for place in places
        ]
        return np.array(texts).reshape(shape)
    array = np.empty(shape, TYPES[number])
    ctypes.memmove(array.ctypes.data, data, array.nbytes)
    return array


def outputs_of(graph, names):
    found = []
    for name in names:
        operation, index = name.split(":")
        pointer = tf.TF_GraphOperationByName(graph, operation.encode())
        assert pointer, name
        found.append(Output(pointer, int(index)))
    return (Output * len(found))(*found)


def run(session, graph, inputs, outputs):
    """Name of a tensor -> array, and names of tensors -> arrays."""
    values = (POINTER * len(inputs))(*map(tensor_from, inputs.values()))
    results = (POINTER * len(outputs))()
    tf.TF_SessionRun(
        *(session, None),
        *(outputs_of(graph, inputs), values, len(inputs)),
        *(outputs_of(graph, outputs), results, len(outputs)),
        *(None, 0, None, status),
    )
    checked(None)
    return [array_from(POINTER(result)) for result in results]


def main(export, request, expected):
    request = json.loads(pathlib.Path(request).read_text("utf-8"))
    arrays = np.load(expected)
    libraries = folder_of("tensorflow_text") / "python" / "ops"
    for library in sorted(libraries.glob("_*.so")):
        checked(tf.TF_LoadLibrary(str(library).encode(), status))
    graph = POINTER(tf.TF_NewGraph())
    session = tf.TF_LoadSessionFromSavedModel(
        *(POINTER(tf.TF_NewSessionOptions()), None, export.encode()),
        *((ctypes.c_char_p * 1)(b"serve"), 1, graph, None, status),
    )
    session = POINTER(checked(session))
    inputs = {t: arrays[name] for name, t in request["inputs"].items()}
    results = run(session, graph, inputs, list(request["outputs"].values()))
    for name, result in zip(request["outputs"], results, strict=True):
        if result.dtype.kind == "U":
            np.testing.assert_array_equal(result, arrays[name], name)
        else:
            # Another process, other fused kernels: float32 rounding.
            np.testing.assert_allclose(
                result, arrays[name], rtol=0, atol=1e-5, err_msg=name
            )
    assert not {"tensorflow", "tensorflow_text"} & set(sys.modules)


main(*sys.argv[1:])
