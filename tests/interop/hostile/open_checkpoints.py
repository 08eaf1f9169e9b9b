"""Opens checkpoints in a process whose memory is limited.

A server: each line of its input is the path of a checkpoint, of which all
arrays are read. It answers with a line of JSON: "opened" and a fingerprint of
the arrays and the vocabulary, or the type of the error and its message.
"""

import contextlib
import hashlib
import json
import resource
import sys

import h5py  # noqa: F401
import safetensors.numpy  # noqa: F401

from albert_tf.errors import InputError
from albert_tf.interop import saved_model  # noqa: F401
from albert_tf.interop.open_checkpoint import open_checkpoint

with contextlib.suppress(ImportError):
    import torch  # noqa: F401

SPARE = 512 << 20

with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + SPARE, used + SPARE))
print("ready", flush=True)
for line in sys.stdin:
    try:
        checkpoint = open_checkpoint(json.loads(line))
        if checkpoint.vocabulary.problem:
            raise InputError(checkpoint.vocabulary.problem)
        digest = hashlib.sha256()
        for path in sorted(checkpoint.arrays):
            digest.update(checkpoint.arrays[path].tobytes())
        if checkpoint.tokenizer:
            digest.update(checkpoint.tokenizer.model_bytes)
        answer = "opened", digest.hexdigest()
    except Exception as error:  # Reported to the test.
        answer = type(error).__name__, str(error)
    print(json.dumps(answer), flush=True)
