"""Documents as one array of token ids."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from albert_tf.text.base_tokenizer import Tokenizer


@dataclasses.dataclass(frozen=True)
class TokenizedDocuments:
    """Token ids of documents, end to end, and where their parts begin.

    Attributes:
      tokens: int32 `[tokens]`, all documents' ids without special tokens.
      sentence_starts: int64 `[sentences + 1]`, offsets into `tokens`; the last
        entry is their number.
      document_starts: int64 `[documents + 1]`, offsets into the sentences.
    """

    tokens: np.ndarray
    sentence_starts: np.ndarray
    document_starts: np.ndarray

    @classmethod
    def from_text(
        cls, documents: Sequence[Sequence[str]], tokenizer: Tokenizer
    ) -> TokenizedDocuments:
        """Tokenizes sentences, document by document.

        Sentences without a token, and documents without one, are left out.
        """
        sentences = [
            sentence for document in documents for sentence in document
        ]
        ids = tokenizer.encode(sentences, num_threads=1)
        lengths = np.array([len(sentence) for sentence in ids], np.int64)
        tokens = np.fromiter(
            itertools.chain.from_iterable(ids), np.int32, lengths.sum()
        )
        # For each border between documents, the sentences that are kept before.
        borders = np.cumsum([0] + [len(document) for document in documents])
        kept_before = np.pad(np.cumsum(lengths > 0), (1, 0))
        return cls(
            tokens,
            np.pad(np.cumsum(lengths[lengths > 0]), (1, 0)),
            np.unique(kept_before[borders]),
        )

    @property
    def num_documents(self) -> int:
        """Number of documents that hold a token."""
        return len(self.document_starts) - 1

    @property
    def num_sentences(self) -> int:
        """Number of sentences that hold a token."""
        return len(self.sentence_starts) - 1
