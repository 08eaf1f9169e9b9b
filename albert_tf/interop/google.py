"""TensorFlow checkpoints of google-research/albert and Model Garden."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.input_files import read_bytes
from albert_tf.interop.checkpoint import (
    Checkpoint,
    OpenOptions,
    folder_vocabulary,
)
from albert_tf.interop.config_files import config_to_google
from albert_tf.interop.matching import match_tensors
from albert_tf.text.wordpiece_tokenizer import AlbertWordPieceTokenizer

CONFIG_FILE = "albert_config.json"
CHECKPOINT = "model.ckpt-best"  # as in the published archives
_SHARD_BYTES = 256 << 20


def find_checkpoint(folder: pathlib.Path) -> pathlib.Path | None:
    """Returns the prefix of the checkpoint in a folder, or None.

    Of several checkpoints, `model.ckpt-best` is preferred, then the one named
    by the `checkpoint` file; if neither is there, it is an `InputError`.
    """
    found = sorted(p.with_suffix("") for p in folder.glob("*.index"))
    if len(found) < 2:
        return found[0] if found else None
    if folder / CHECKPOINT in found:
        return folder / CHECKPOINT
    state = folder / "checkpoint"
    if state.exists():
        newest = re.search(
            r'^model_checkpoint_path: "(.*)"',
            read_bytes(state).decode(errors="replace"),
            re.M,
        )
        path = newest and folder / pathlib.Path(newest[1]).name
        if path in found:
            return path
    raise InputError(
        f"{folder} has several checkpoints: "
        f"{', '.join(path.name for path in found)}; give one of them"
    )


def open_tensorflow(prefix: pathlib.Path, options: OpenOptions) -> Checkpoint:
    """Opens a TF1 checkpoint of Google's code or a TF2 one of Model Garden's.

    The config is read from `albert_config.json` beside it. `prefix` is the path
    without ".index".
    """
    # Imported here, as models of other backends work without TensorFlow.
    from albert_tf.interop.tf_checkpoint import open_tf_checkpoint

    file, config = open_tf_checkpoint(prefix), options.config
    if config is None:
        config = AlbertConfig.from_json(find_config(prefix.parent, prefix))
    system, description, notes = "google", "Google TF1", ()
    if any("transformer/self_attention/" in name for name in file.shapes):
        system, description = "model_garden", "Model Garden TF2"
    else:
        meta = prefix.with_name(f"{prefix.name}.meta")
        config, notes = _correct_by_graph(config, meta)
    config = config.replace(**options.overrides)
    return dataclasses.replace(
        match_tensors(system, file, config, head=options.head),
        vocabulary=folder_vocabulary(prefix.parent, "google"),
        format=description,
        notes=notes,
    )


def find_config(folder: pathlib.Path, source: object) -> pathlib.Path:
    """Returns the only config file in a folder."""
    if (folder / CONFIG_FILE).exists():
        return folder / CONFIG_FILE
    found = sorted(folder.glob("*config*.json"))
    found = [path for path in found if not path.name.startswith("tokenizer")]
    if len(found) == 1:
        return found[0]
    names = ", ".join(path.name for path in found)
    raise InputError(
        f"{source}: no {CONFIG_FILE} beside it"
        + (f", but {names}; keep one" if names else "")
    )


def _correct_by_graph(
    config: AlbertConfig, meta: pathlib.Path
) -> tuple[AlbertConfig, tuple[str, ...]]:
    """Corrects the config by the graph beside the checkpoint, with notes.

    The published xlarge configs disagree on the number of heads
    (google-research/albert#180).
    """
    if not meta.exists():
        return config, ()
    from albert_tf.interop.tf_graph import facts_of_meta_graph_file

    facts = facts_of_meta_graph_file(meta)
    notes, changes = [], {}
    for field in ("num_attention_heads", "num_hidden_layers"):
        in_graph, in_config = getattr(facts, field), getattr(config, field)
        if in_graph not in (None, in_config):
            changes[field] = in_graph
            notes.append(
                f"{field}={in_graph} according to the graph in {meta.name}; "
                f"the config file says {in_config}"
            )
    return config.replace(**changes), tuple(notes)


def write_google(
    checkpoint: Checkpoint, folder: pathlib.Path, on_tensor=None
) -> None:
    """Writes the files of a published archive: checkpoint, config, vocabulary.

    For the arguments, see `convert.WRITERS`.
    """
    values = config_to_google(checkpoint.config)
    for head in ("pair_head", "token_head"):
        if head in checkpoint.components:
            raise InputError(f"Google's code has no {head}; drop it")
    _write_tensors(checkpoint, folder / CHECKPOINT, on_tensor)
    tokenizer = checkpoint.tokenizer
    if isinstance(tokenizer, AlbertWordPieceTokenizer):
        (folder / tokenizer.file_name).write_bytes(tokenizer.model_bytes)
    elif tokenizer is not None:
        (folder / "30k-clean.model").write_bytes(tokenizer.model_bytes)
        listing = _listing(tokenizer)
        (folder / "30k-clean.vocab").write_text(listing, encoding="utf-8")
    text = json.dumps(values, indent=2) + "\n"
    (folder / CONFIG_FILE).write_text(text, encoding="utf-8")


def _write_tensors(
    checkpoint: Checkpoint, prefix: pathlib.Path, on_tensor
) -> None:
    """Writes shards of `_SHARD_BYTES`, then merges them.

    TensorFlow writes all tensors of a checkpoint at once; this way, they take
    the memory of one shard.
    """
    import tensorflow as tf

    shards: list[str] = []
    # Estimators require the step of a checkpoint that they evaluate.
    waiting: dict[str, tf.Tensor] = {"global_step": tf.constant(0, tf.int64)}
    size = 0

    def flush() -> None:
        shards.append(str(prefix.parent / f"part-{len(shards)}" / "shard"))
        os.mkdir(os.path.dirname(shards[-1]))
        tf.raw_ops.SaveV2(
            prefix=shards[-1],
            tensor_names=list(waiting),
            shape_and_slices=[""] * len(waiting),
            tensors=list(waiting.values()),
        )
        waiting.clear()

    for name, array in checkpoint.tensors_for("google", on_tensor):
        if waiting and size + array.nbytes > _SHARD_BYTES:
            flush()
            size = 0
        waiting[name] = tf.constant(np.ascontiguousarray(array))
        size += array.nbytes
    flush()
    tf.raw_ops.MergeV2Checkpoints(
        checkpoint_prefixes=shards,
        destination_prefix=str(prefix),
        delete_old_dirs=True,
    )


def _listing(tokenizer) -> str:
    """Returns the pieces and scores in SentencePiece's .vocab format."""
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto.FromString(tokenizer.model_bytes)
    return "".join(f"{p.piece}\t{p.score:g}\n" for p in proto.pieces)
