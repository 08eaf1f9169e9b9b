"""What the scripts of this folder have in common: sizes, inputs, weights.

Each script `make_*.py` writes a tiny checkpoint with the software that it is
named after, and what that software computes with it (`*.npz`). They were run
once; the files are kept, so that later releases are tried on them.
"""

import gzip
import pathlib
import shutil
import tarfile

import numpy as np

FOLDER = pathlib.Path(__file__).parent
VOCABULARY = FOLDER / "spiece.model"
SIZES = {
    "vocab_size": 40,
    "embedding_size": 4,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_hidden_groups": 2,
    "inner_group_num": 2,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 16,
    "type_vocab_size": 2,
}


def inputs():
    """Rows of lengths 10, 7 and 5 with two segments; three masked tokens."""
    rng = np.random.default_rng(0)
    mask = (np.arange(10) < np.array([10, 7, 5])[:, None]).astype("int32")
    segments = (np.arange(10) >= np.array([4, 3, 10])[:, None]) * mask
    return {
        "input_word_ids": rng.integers(5, 40, mask.shape, "int32") * mask,
        "input_mask": mask,
        "input_type_ids": segments.astype("int32"),
        "masked_lm_positions": np.array(
            [[1, 4, 9], [2, 5, 6], [3, 4, 0]], "i4"
        ),
    }


def random_weight(rng, name, shape):
    """Values far from zeros and ones, so that each shows in the outputs."""
    name = name.lower()
    is_scale = "gamma" in name or ("norm" in name and name.endswith("weight"))
    return rng.normal(float(is_scale), 0.3, shape).astype("float32")


def fresh_folder(name):
    shutil.rmtree(FOLDER / name, ignore_errors=True)
    (FOLDER / name).mkdir()
    return FOLDER / name


def write_outputs(name, outputs):
    outputs = {k: np.asarray(v, np.float32) for k, v in outputs.items()}
    np.savez_compressed(FOLDER / f"{name}.npz", **inputs(), **outputs)


def archive(folder, name):
    """Packs `folder` into `name`.tar.gz, the same bytes every time."""

    def anonymous(member):
        member.uid = member.gid = member.mtime = 0
        member.uname = member.gname = ""
        return member

    with (FOLDER / f"{name}.tar.gz").open("wb") as raw:
        with gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
            with tarfile.open(fileobj=packed, mode="w") as tar:
                tar.add(folder, name, filter=anonymous)
