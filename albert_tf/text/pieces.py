"""Pieces of a vocabulary, and their ids."""

import abc
import functools
import operator
from collections.abc import Iterable
from typing import overload


class Pieces(abc.ABC):
    """Pieces of a vocabulary, and their ids.

    Attributes:
      vocab_size: number of pieces.
      pad_id, unk_id, cls_id, sep_id, mask_id: ids of the special pieces; also
        under Hugging Face's names, such as `pad_token_id` and `pad_token`.
    """

    vocab_size: int
    pad_id: int
    unk_id: int
    cls_id: int
    sep_id: int
    mask_id: int

    pad_token_id = property(operator.attrgetter("pad_id"))
    unk_token_id = property(operator.attrgetter("unk_id"))
    cls_token_id = property(operator.attrgetter("cls_id"))
    sep_token_id = property(operator.attrgetter("sep_id"))
    mask_token_id = property(operator.attrgetter("mask_id"))
    pad_token = property(lambda self: self._piece(self.pad_id))
    unk_token = property(lambda self: self._piece(self.unk_id))
    cls_token = property(lambda self: self._piece(self.cls_id))
    sep_token = property(lambda self: self._piece(self.sep_id))
    mask_token = property(lambda self: self._piece(self.mask_id))

    @abc.abstractmethod
    def _decode(self, ids: list[int]) -> str:
        """Returns the text of valid ids."""

    @abc.abstractmethod
    def _piece(self, piece_id: int) -> str:
        """Returns the piece of a valid id."""

    def decode(self, ids: Iterable[int]) -> str:
        """Converts token ids to text, omitting special tokens.

        Raises:
          ValueError: if an id is not in the vocabulary.
        """
        return self._decode([self._check_id(i) for i in ids])

    def batch_decode(self, batch: Iterable[Iterable[int]]) -> list[str]:
        """Decodes each row of ids `[batch, seq]`; see `decode`."""
        return [self.decode(ids) for ids in batch]

    def id_to_piece(self, piece_id: int) -> str:
        """Returns the piece of an id.

        Raises:
          ValueError: if the id is not in the vocabulary.
        """
        return self._piece(self._check_id(piece_id))

    def get_vocab(self) -> dict[str, int]:
        """Returns the vocabulary as a dict from piece to id, ordered by id."""
        return {self._piece(i): i for i in range(self.vocab_size)}

    @overload
    def convert_ids_to_tokens(self, ids: int) -> str: ...

    @overload
    def convert_ids_to_tokens(self, ids: Iterable[int]) -> list[str]: ...

    def convert_ids_to_tokens(
        self, ids: int | Iterable[int]
    ) -> str | list[str]:
        """Converts an id, or several ids, to pieces.

        Raises:
          ValueError: if an id is not in the vocabulary.
        """
        if isinstance(ids, Iterable):
            return [self.id_to_piece(i) for i in ids]
        return self.id_to_piece(ids)

    @overload
    def convert_tokens_to_ids(self, tokens: str) -> int: ...

    @overload
    def convert_tokens_to_ids(self, tokens: Iterable[str]) -> list[int]: ...

    def convert_tokens_to_ids(
        self, tokens: str | Iterable[str]
    ) -> int | list[int]:
        """Converts a piece, or several pieces, to ids.

        A piece that is not in the vocabulary gets `unk_id`.
        """
        if isinstance(tokens, str):
            return self._ids.get(tokens, self.unk_id)
        return [self._ids.get(token, self.unk_id) for token in tokens]

    def __len__(self) -> int:
        return self.vocab_size

    @functools.cached_property
    def _ids(self) -> dict[str, int]:
        return self.get_vocab()

    def _check_id(self, piece_id: int) -> int:
        piece_id = operator.index(piece_id)
        if not 0 <= piece_id < self.vocab_size:
            raise ValueError(
                f"id={piece_id} must be in [0, {self.vocab_size}), the "
                "vocabulary"
            )
        return piece_id
