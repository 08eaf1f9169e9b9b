"""Growing a checkpoint: deeper, less shared, or for longer sequences."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.interop.checkpoint import Checkpoint, LazyArrays
from albert_tf.interop.names import tensors_of

# Fields that decide how often, and by which layers, weights are used.
_LAYOUT = (
    "num_hidden_layers",
    "num_hidden_groups",
    "inner_group_num",
    "sharing",
)
# Fields that no weight depends on.
_TRAINING = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "initializer_range",
    "trained_positions",
)

_HALVES = {"attention": "attention", "feed_forward": "ffn"}

_POSITIONS = "encoder/embeddings/position_embeddings"


def grow(checkpoint: Checkpoint, config: AlbertConfig) -> Checkpoint:
    """Returns the checkpoint as one of another architecture, grown by copies.

    A set of weights that the layers from l on use, of L, starts as a copy of
    what the checkpoint's layer `l * L_old // L` uses: the layer at the same
    relative depth. Inner blocks likewise. So

    - where all layers share one group, another depth uses the same weights more
      often, as ALBERT's paper did, from 6 layers to 12 (appendix A.1);
    - at equal depth, dividing the groups, or sharing less, computes the same at
      first; of one group this is the original's `init_from_group0`;
    - layers with weights of their own are doubled in place (0 0 1 1 2 2), as
      groups are stretches of layers. StackBERT (Gong et al., 2019) puts the
      copy on top instead (0 1 2 0 1 2).

    A larger `max_position_embeddings` is what `extend_positions` makes of it.
    Dropout and `initializer_range` may differ; everything else must be equal.

    Args:
      checkpoint: what to start from.
      config: the architecture of the model to be.

    Returns:
      A checkpoint with that architecture, but its own `trained_positions`,
      whose `notes` list the copies. Its arrays are read on access.

    Raises:
      InputError: another field differs, or weights of the checkpoint would not
        be used.
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
    readers = {
        path: (lambda origin=origin: arrays[origin])
        for path, origin in origins.items()
    }
    return dataclasses.replace(
        checkpoint,
        config=config,
        arrays=LazyArrays(readers),
        notes=(*checkpoint.notes, *_notes(old, config, sources)),
    )


def extend_positions(checkpoint: Checkpoint, length: int) -> Checkpoint:
    """Returns the checkpoint with position embeddings for longer sequences.

    Of N trained positions, row i starts as a copy of row `i % N`, so that
    nearby positions keep their relation everywhere but at the seams
    (Longformer, Beltagy et al. 2020, section 5).

    Args:
      checkpoint: what to extend. Where pretraining saw fewer positions than it
        has, the rows behind those are replaced as well.
      length: rows to have.

    Returns:
      The checkpoint, whose config still says how many positions were trained.

    Raises:
      InputError: the checkpoint has more rows.
    """
    old = checkpoint.config
    before, trained = old.max_position_embeddings, old.trained_positions
    new = old.replace(max_position_embeddings=length, trained_positions=None)
    if length == before:
        return checkpoint
    if length < before:
        raise InputError(
            f"{checkpoint.source} has max_position_embeddings={before}, not "
            f"{length}; the number can only grow"
        )
    trained = trained or before
    arrays = checkpoint.arrays

    def read(path: str) -> np.ndarray:
        if path != _POSITIONS:
            return arrays[path]
        return np.resize(arrays[path][:trained], (length, old.embedding_size))

    readers = {path: functools.partial(read, path) for path in arrays}
    return dataclasses.replace(
        checkpoint,
        config=new.replace(trained_positions=trained),
        arrays=LazyArrays(readers),
        notes=(
            *checkpoint.notes,
            f"extended: max_position_embeddings {before} -> {length}, rows "
            f"from {trained} on: copies of those before",
        ),
    )


def _sources(
    old: AlbertConfig, new: AlbertConfig, half: str
) -> dict[tuple[str, str], tuple[str, str]]:
    """Returns, for one half of the blocks, new scopes -> old scopes."""
    old_scopes, new_scopes = old.block_scopes(half), new.block_scopes(half)
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for number, scopes in enumerate(new_scopes):
        layer, inner = divmod(number, new.inner_group_num)
        layer = layer * old.num_hidden_layers // new.num_hidden_layers
        inner = inner * old.inner_group_num // new.inner_group_num
        # The first of the layers that use this set decides.
        found.setdefault(
            scopes, old_scopes[layer * old.inner_group_num + inner]
        )
    return found


def _origin(path: str, sources) -> str:
    """Returns the old tensor that a new one starts as a copy of."""
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
