"""Runs LiteRT models with an interpreter, without albert_tf.

python litert_models.py LIBRARY MODEL EXPECTED.npz [MODEL EXPECTED.npz ...]

LIBRARY: "tensorflow", or "ai_edge_litert" to do without TensorFlow.
EXPECTED: the inputs and outputs of the signature, by name.
"""

import sys

library, *files = sys.argv[1:]
sys.modules["albert_tf"] = None
if library == "tensorflow":
    import tensorflow as tf

    Interpreter = tf.lite.Interpreter
else:
    sys.modules["tensorflow"] = None
    from ai_edge_litert.interpreter import Interpreter

import numpy as np  # noqa: E402


def check(model, expected_file):
    expected = dict(np.load(expected_file))
    interpreter = Interpreter(model, num_threads=2)
    run = interpreter.get_signature_runner("serving_default")
    names = set(run.get_input_details())
    outputs = run(**{name: expected[name] for name in names})
    assert set(outputs) == set(expected) - names
    for name, values in outputs.items():
        # Another release of the same kernels.
        np.testing.assert_allclose(
            values, expected[name], rtol=1e-4, atol=1e-4, err_msg=name
        )


for pair in zip(files[::2], files[1::2], strict=True):
    check(*pair)
