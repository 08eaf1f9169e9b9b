"""A corpus as blocks of documents: the unit of work of one process."""

from __future__ import annotations

import dataclasses
import hashlib
import pathlib
from collections.abc import Iterable, Iterator

from albert_tf.data.documents import read_documents


@dataclasses.dataclass(frozen=True)
class TextBlock:
    """Consecutive documents of a split.

    Attributes:
      split: "train" or "heldout".
      index: number of the block within its split.
      documents: lists of sentences.
      num_bytes: their size in UTF-8.
    """

    split: str
    index: int
    documents: list[list[str]]
    num_bytes: int


def read_blocks(
    files: Iterable[pathlib.Path],
    block_bytes: int,
    *,
    text_format: str = "lines",
    language: str = "en",
    heldout_fraction: float = 0.0,
    seed: int = 0,
) -> Iterator[TextBlock]:
    """Reads files and deals their documents out to blocks of two splits.

    A block may span files and is complete with the document that fills it. What
    a block holds depends on the arguments alone.

    Args:
      files: text files, in the order they are read.
      block_bytes: least size of a block that is not its split's last.
      text_format: see `read_documents`.
      language: see `read_documents`.
      heldout_fraction: expected share of the documents in the split "heldout".
      seed: choice of those documents; equal texts are in the same split.

    Yields:
      Blocks in the order they are complete.
    """
    documents: dict[str, list[list[str]]] = {"train": [], "heldout": []}
    sizes = dict.fromkeys(documents, 0)
    numbers = dict.fromkeys(documents, 0)

    def complete(split: str) -> TextBlock:
        block = TextBlock(split, numbers[split], documents[split], sizes[split])
        documents[split], sizes[split] = [], 0
        numbers[split] += 1
        return block

    for path in files:
        for document in read_documents(path, text_format, language):
            text = "\n".join(document).encode()
            heldout = _uniform(text, seed) < heldout_fraction
            split = "heldout" if heldout else "train"
            documents[split].append(document)
            sizes[split] += len(text) + 1
            if sizes[split] >= block_bytes:
                yield complete(split)
    for split in documents:
        if documents[split]:
            yield complete(split)


def _uniform(text: bytes, seed: int) -> float:
    """Returns a number in [0, 1) made from a text and a seed."""
    digest = hashlib.blake2b(text, digest_size=8, key=str(seed).encode())
    return int.from_bytes(digest.digest(), "big") / 2**64
