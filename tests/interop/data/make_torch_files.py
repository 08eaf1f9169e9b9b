"""Makes torch_zip.bin and torch_legacy.bin; run it with PyTorch installed.

python tests/interop/data/make_torch_files.py
"""

import pathlib

import torch

FOLDER = pathlib.Path(__file__).parent

base = torch.arange(24, dtype=torch.float32) / 4 - 2
matrix = base.reshape(4, 6)
state = {
    "matrix": matrix,
    "tied": matrix,
    "transposed": matrix.T,
    "slice": matrix[1:3, ::2],
    "expanded": base[3:4].expand(2, 3),
    "parameter": torch.nn.Parameter(base[:5] * 2),
    "scalar": torch.tensor(7.5),
    "empty": torch.zeros(0, 3),
    "float64": base.double()[1:4],
    "float16": base.half(),
    "bfloat16": base.bfloat16(),
    "int64": torch.arange(-3, 3),
    "int32": torch.arange(-3, 3, dtype=torch.int32),
    "uint8": torch.arange(250, 256, dtype=torch.uint8),
    "bool": torch.tensor([True, False, True]),
}
checkpoint = {"model": state, "epoch": 3, "note": "tiny"}
torch.save(checkpoint, FOLDER / "torch_zip.bin")
torch.save(
    checkpoint,
    FOLDER / "torch_legacy.bin",
    _use_new_zipfile_serialization=False,
)
