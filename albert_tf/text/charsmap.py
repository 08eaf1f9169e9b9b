"""Charsmaps: the compiled normalization rules of a SentencePiece model."""

import numpy as np

from albert_tf.errors import InputError

# The packaged vocabulary (nmt_nfkc) has 225,262 rules, 13 levels of nodes, and
# 201,755 nodes in the widest.
_MAX_NODES = 1 << 18
_MAX_RULE_BYTES = 256


def _charsmap(charsmap: bytes) -> tuple[np.ndarray, bytes]:
    """Splits a charsmap into the units of its trie and its replacements.

    The trie is a double array as in Darts-clone: the child of a node for a byte
    is at `node ^ offset ^ byte`, and its label is that byte.
    """
    size = int.from_bytes(charsmap[:4], "little")
    return np.frombuffer(charsmap[4 : 4 + size], "<u4"), charsmap[4 + size :]


def _offsets(units: np.ndarray) -> np.ndarray:
    return (units >> 10) << ((units & 0x200) >> 6)


def check_charsmap(charsmap: bytes) -> None:
    """Checks that all nodes and replacements of a charsmap are inside it.

    Raises:
      ValueError: if the charsmap is damaged.
    """
    if not charsmap:
        return
    size = int.from_bytes(charsmap[:4], "little")
    if not 4 <= size <= len(charsmap) - 5 or size % 4 or charsmap[-1]:
        raise ValueError("the charsmap is damaged")
    units, replacements = _charsmap(charsmap)
    is_value = units >= 1 << 31
    positions = np.arange(len(units), dtype=np.uint32)
    children = positions ^ _offsets(units)
    if ((children | 0xFF)[~is_value] >= len(units)).any() or is_value[0]:
        raise ValueError("the charsmap is damaged")
    # A node that ends a key has its value at `node ^ offset`.
    ends = children[~is_value & (units & 0x100 > 0)]
    values = units[ends] & 0x7FFFFFFF
    if (values >= len(replacements)).any():
        raise ValueError("the charsmap is damaged")


def replaces_spaces(charsmap: bytes) -> bool:
    """Returns whether the charsmap replaces any string with a space in it."""
    if not charsmap:
        return False
    units, _ = _charsmap(charsmap)
    offsets, labels = _offsets(units), units & 0x800000FF
    letters = np.arange(1, 256, dtype=np.uint32)
    # Keys share the nodes of common suffixes.
    is_new = np.ones(len(units), bool)
    nodes = np.zeros(1, np.uint32)
    while len(nodes):
        is_new[nodes] = False
        children = (nodes ^ offsets[nodes])[:, None] ^ letters
        exists = labels[children] == letters
        if exists[:, ord(" ") - 1].any():
            return True
        nodes = np.unique(children[exists])
        nodes = nodes[is_new[nodes]]
    return False


def charsmap_rules(charsmap: bytes) -> dict[str, str]:
    """Returns the replacements of a checked charsmap.

    A charsmap replaces the longest sequence of characters that it has.

    Raises:
      InputError: if there are more or longer rules than real charsmaps have: a
        trie of a few nodes that lead back to each other has any number.
    """
    rules: dict[str, str] = {}
    if not charsmap:
        return rules
    units, replacements = _charsmap(charsmap)
    offsets, labels = _offsets(units), units & 0x800000FF
    letters = np.arange(1, 256, dtype=np.uint32)
    nodes, keys = np.zeros(1, np.uint32), [b""]
    while len(nodes):
        if len(nodes) > _MAX_NODES or len(keys[0]) > _MAX_RULE_BYTES:
            raise InputError(
                "the charsmap of the vocabulary is damaged: its rules have no "
                "end"
            )
        first = nodes ^ offsets[nodes]
        for row in np.flatnonzero(units[nodes] & 0x100):
            start = int(units[first[row]] & 0x7FFFFFFF)
            end = replacements.index(0, start)
            rules[keys[row].decode()] = replacements[start:end].decode()
        children = first[:, None] ^ letters
        rows, columns = np.nonzero(labels[children] == letters)
        nodes = children[rows, columns]
        steps = zip(rows.tolist(), columns.tolist(), strict=True)
        keys = [keys[row] + bytes([column + 1]) for row, column in steps]
    return rules
