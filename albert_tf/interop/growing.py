"""Growing a checkpoint: more depth, less sharing, or longer sequences."""

from __future__ import annotations

import dataclasses

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.interop.checkpoint import Checkpoint, LazyArrays
from albert_tf.interop.names import tensors_of

# Fields that determine which layers use which weights.
_LAYOUT = (
    "num_hidden_layers",
    "num_hidden_groups",
    "inner_group_num",
    "sharing",
)
# Fields that do not affect the weights' shapes.
_TRAINING = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "initializer_range",
    "trained_positions",
)

_HALVES = {"attention": "attention", "feed_forward": "ffn"}

POSITIONS = "encoder/embeddings/position_embeddings"


def grow(checkpoint: Checkpoint, config: AlbertConfig) -> Checkpoint:
    """Grows a checkpoint into a larger architecture by copying weights.

    Each set of weights starts as a copy of the set at the same relative depth:
    if layer l of L is the first to use it, the set that layer `l * L_old // L`
    of the checkpoint uses. Inner blocks likewise. As a consequence:

    - If all layers share one group, a deeper model has the same weights and
      uses them more often, as in ALBERT's paper, from 6 layers to 12 (appendix
      A.1).
    - At equal depth, splitting groups or sharing less does not change the
      outputs. For a single group, this is the original's `init_from_group0`.
    - Unshared layers are duplicated in place (0 0 1 1 2 2), since a group is a
      range of layers. StackBERT (Gong et al., 2019) stacks the copies on top
      instead (0 1 2 0 1 2).

    Positions that were not trained are those of `extend_positions`. Dropout
    rates and `initializer_range` may differ; all other fields must be equal.

    Returns:
      A checkpoint with this architecture and the old `trained_positions`. Its
      `notes` list the copies, and its arrays are read on access.

    Raises:
      InputError: if another field differs, or weights of the checkpoint would
        be unused.
    """
    checkpoint = extend_positions(checkpoint, config.max_position_embeddings)
    old = checkpoint.config
    for field in dataclasses.fields(config):
        before, after = getattr(old, field.name), getattr(config, field.name)
        if before != after and field.name not in (*_LAYOUT, *_TRAINING):
            raise InputError(
                f"{checkpoint.source} has {field.name}={before}, not {after}; "
                f"only {', '.join(_LAYOUT)} and max_position_embeddings can "
                "grow"
            )
    config = config.replace(trained_positions=old.trained_positions)
    if all(getattr(old, name) == getattr(config, name) for name in _LAYOUT):
        return dataclasses.replace(checkpoint, config=config)
    sources = {
        (half, scopes): source
        for half, name in _HALVES.items()
        for scopes, source in _sources(old, config, name).items()
    }
    origins = {
        tensor.path: _origin(tensor.path, sources)
        for tensor in tensors_of(
            config, checkpoint.components, checkpoint.head.num_labels
        )
    }
    unused = sorted(set(checkpoint.arrays) - set(origins.values()))
    if unused:
        raise InputError(
            f"{checkpoint.source}: unused tensor {unused[0]}; a model of "
            f"{_layout(old)} cannot shrink to {_layout(config)}"
        )
    arrays = checkpoint.arrays
    return dataclasses.replace(
        checkpoint,
        config=config,
        arrays=LazyArrays(origins, lambda path: arrays[origins[path]]),
        notes=(*checkpoint.notes, *_notes(old, config, sources)),
    )


def extend_positions(checkpoint: Checkpoint, length: int) -> Checkpoint:
    """Extends the position embeddings to longer sequences; see `repeat_rows`.

    Rows that the checkpoint has, but that were not trained, are replaced as
    well. The config of the result keeps the number of trained positions.

    Raises:
      InputError: if the checkpoint has more rows than `length`.
    """
    old = checkpoint.config
    before, trained = old.max_position_embeddings, old.num_trained_positions
    new = old.replace(max_position_embeddings=length, trained_positions=None)
    if length < before:
        raise InputError(
            f"{checkpoint.source} has max_position_embeddings={before}, not "
            f"{length}; the number can only grow"
        )
    note = describe_repeated(trained, length)
    if length == trained or note in checkpoint.notes:
        return checkpoint
    # It replaces that of an earlier extension.
    earlier = describe_repeated(trained, before)
    notes = [x for x in checkpoint.notes if x != earlier]
    if length > before:
        notes.append(f"extended: max_position_embeddings {before} -> {length}")
    arrays = checkpoint.arrays

    def read(path: str) -> np.ndarray:
        if path != POSITIONS:
            return arrays[path]
        return repeat_rows(arrays[path], trained, length)

    return dataclasses.replace(
        checkpoint,
        config=new.replace(trained_positions=trained),
        arrays=LazyArrays(arrays, read),
        notes=(*notes, note),
    )


def repeat_rows(table: np.ndarray, trained: int, length: int) -> np.ndarray:
    """Repeats the first rows of a table: row i becomes a copy of `i % trained`.

    For position embeddings, this preserves local structure everywhere except at
    the boundaries of the copies (Longformer, Beltagy et al. 2020, section 5).
    The table, `[rows, width]`, becomes `[length, width]`.
    """
    return np.resize(table[:trained], (length, table.shape[1]))


def describe_repeated(trained: int, length: int) -> str:
    """Returns a line for reports about the result of `repeat_rows`."""
    return (
        f"positions: {trained} of {length} are trained; the rows from "
        f"{trained} on are copies of them"
    )


def _sources(
    old: AlbertConfig, new: AlbertConfig, half: str
) -> dict[tuple[str, str], tuple[str, str]]:
    """Maps the new scopes of one half of the blocks to the old ones."""
    old_scopes, new_scopes = old.block_scopes(half), new.block_scopes(half)
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for number, scopes in enumerate(new_scopes):
        layer, inner = divmod(number, new.inner_group_num)
        layer = layer * old.num_hidden_layers // new.num_hidden_layers
        inner = inner * old.inner_group_num // new.inner_group_num
        # The first layer that uses this set decides.
        found.setdefault(
            scopes, old_scopes[layer * old.inner_group_num + inner]
        )
    return found


def _origin(path: str, sources) -> str:
    """Returns the path of the old tensor that a new one is a copy of."""
    # encoder/transformer/<outer>/<inner>/<half>/<rest>
    prefix, stack, *scopes = path.split("/")
    if (prefix, stack) != ("encoder", "transformer"):
        return path
    outer, inner, half, *rest = scopes
    outer, inner = sources[half, (outer, inner)]
    return "/".join([prefix, stack, outer, inner, half, *rest])


def _layout(config: AlbertConfig) -> str:
    return " ".join(f"{name}={getattr(config, name)}" for name in _LAYOUT)


def _notes(old: AlbertConfig, new: AlbertConfig, sources) -> tuple[str, ...]:
    changes = [
        f"{name} {getattr(old, name)} -> {getattr(new, name)}"
        for name in _LAYOUT
        if getattr(old, name) != getattr(new, name)
    ]
    copies: dict[str, list[str]] = {}
    for (half, scopes), source in sources.items():
        copies.setdefault("/".join((*source, half)), []).append(
            "/".join((*scopes, half))
        )
    lines = [
        f"{', '.join(targets)}: from {source}"
        for source, targets in copies.items()
        if targets != [source]
    ]
    return (f"grown: {', '.join(changes)}", *lines)
