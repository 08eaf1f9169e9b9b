"""What the tokenizers have in common."""

import abc
import functools
import hashlib
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from albert_tf.text.packing import pack
from albert_tf.text.special_tokens import SpecialTokens
from albert_tf.text.token_offsets import Token, tokens_around_specials


class Tokenizer(abc.ABC):
    """A tokenizer, but for what it does with a text without special tokens.

    Tokenizers are picklable, and need no TensorFlow. `AlbertPreprocessor` gives
    the same ids in a graph.

    Attributes:
      file_name: what the file of the vocabulary is called in a folder.
      model_bytes: its content.
      fingerprint: sha256 of `model_bytes`, in hex.
      match_special_tokens: whether special tokens in a text stand for
        themselves.
      special_tokens: finds what in a text stands for itself: those, if they
        match, and what else texts are cut at.
      vocab_size: number of pieces.
      pad_id: id of the padding.
      unk_id: id of what the vocabulary lacks.
      cls_id: id of `[CLS]`.
      sep_id: id of `[SEP]`.
      mask_id: id of `[MASK]`.
    """

    file_name: ClassVar[str]

    def __init__(
        self,
        model_bytes: bytes,
        vocab_size: int,
        special_ids: Mapping[str, int],
        *,
        match_special_tokens: bool,
        lower_characters_first: bool,
        other_ids: Mapping[str, int] = types.MappingProxyType({}),
    ):
        """Keeps what does not depend on the kind of vocabulary.

        Args:
          model_bytes: the content of its file.
          vocab_size: number of pieces.
          special_ids: piece -> id of padding, `[CLS]`, `[SEP]`, `[MASK]` and
            the unknown piece, in this order.
          match_special_tokens: see the class.
          lower_characters_first: see `SpecialTokens`.
          other_ids: piece -> id of what else texts are cut at.
        """
        self.model_bytes = bytes(model_bytes)
        self.fingerprint = hashlib.sha256(self.model_bytes).hexdigest()
        self.vocab_size = vocab_size
        self.pad_id, self.cls_id, self.sep_id, self.mask_id, self.unk_id = (
            special_ids.values()
        )
        self.match_special_tokens = match_special_tokens
        matching_ids = special_ids if match_special_tokens else {}
        self.special_tokens = SpecialTokens(
            {**matching_ids, **other_ids}, lower_characters_first
        )

    @property
    @abc.abstractmethod
    def settings(self) -> dict[str, Any]:
        """The keyword arguments that make this tokenizer from its model."""

    @abc.abstractmethod
    def _encode_plain(
        self, texts: list[str], num_threads: int
    ) -> list[list[int]]:
        """Returns the ids of texts without special tokens."""

    @abc.abstractmethod
    def _tokens_plain(self, text: str) -> Iterable[Token]:
        """Returns the tokens of a text without special tokens."""

    @abc.abstractmethod
    def _decode(self, ids: list[int]) -> str:
        """Returns the text of ids that are in the vocabulary."""

    @abc.abstractmethod
    def _piece(self, piece_id: int) -> str:
        """Returns the spelling of a piece that is in the vocabulary."""

    def encode(
        self,
        text: str | Sequence[str],
        *,
        num_threads: int = -1,
    ) -> list[int] | list[list[int]]:
        """Returns ids, without `[CLS]` and `[SEP]`.

        Args:
          text: one text, or several, which SentencePiece does much faster than
            one by one.
          num_threads: SentencePiece's threads for several texts; -1: one a
            core. Worker processes should give 1.

        Returns:
          A list of ids for one text, a list of such lists for several.
        """
        if isinstance(text, str):
            return self._encode([text], 1)[0]
        return self._encode(_texts(text, "text"), num_threads)

    def tokenize(self, text: str) -> list[str]:
        """Returns pieces, spelled as in `tokenize_with_offsets`."""
        return [token.piece for token in self.tokenize_with_offsets(text)]

    def tokenize_with_offsets(self, text: str) -> list[Token]:
        """Returns pieces, ids, and where in `text` they come from.

        Offsets are characters of the original text, whatever normalization
        does to it.
        """
        if not self.special_tokens.ids:
            return list(self._tokens_plain(text))
        return list(
            tokens_around_specials(
                text, self.special_tokens, self._tokens_plain
            )
        )

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of ids; special pieces have none.

        Raises:
          ValueError: if an id is not in the vocabulary.
        """
        ids = [int(i) for i in ids]
        for i in ids:
            self._check_id(i)
        return self._decode(ids)

    def id_to_piece(self, piece_id: int) -> str:
        """Returns the spelling of a piece.

        Raises:
          ValueError: if the id is not in the vocabulary.
        """
        self._check_id(int(piece_id))
        return self._piece(int(piece_id))

    def __call__(
        self,
        texts: str | Sequence[str],
        pairs: str | Sequence[str] | None = None,
        max_length: int = 128,
        padding: Literal["longest", "max_length"] = "longest",
        *,
        num_threads: int = -1,
    ) -> dict[str, np.ndarray]:
        """Encodes and packs texts, or pairs of texts, for the encoder.

        Args:
          texts: one text, or several.
          pairs: the second text of each, if any.
          max_length: longest row, with `[CLS]` and `[SEP]`. Longer texts are
            cut at the end, pairs round-robin (see `pack`).
          padding: pad to the `longest` row or to `max_length`.
          num_threads: see `encode`.

        Returns:
          `input_word_ids`, `input_mask` and `input_type_ids`, int32
          `[batch, seq]`; one text is a batch of one.
        """
        if padding not in ("longest", "max_length"):
            raise ValueError(
                f"padding must be 'longest' or 'max_length', not {padding!r}."
            )
        least = 2 if pairs is None else 3
        if max_length < least:
            raise ValueError(
                f"max_length must be at least {least}, to hold [CLS] and "
                f"[SEP], not {max_length}."
            )
        texts = _texts(texts, "texts")
        firsts = self._encode(texts, num_threads)
        seconds = None
        if pairs is not None:
            pairs = _texts(pairs, "pairs")
            if len(pairs) != len(texts):
                raise ValueError(
                    "texts and pairs must have the same length, not "
                    f"{len(texts)} and {len(pairs)}."
                )
            seconds = self._encode(pairs, num_threads)
        return pack(
            firsts,
            seconds,
            max_length=max_length,
            pad_to_max_length=padding == "max_length",
            pad_id=self.pad_id,
            cls_id=self.cls_id,
            sep_id=self.sep_id,
        )

    def __reduce__(self):
        make = functools.partial(type(self), **self.settings)
        return make, (self.model_bytes,)

    def _encode(self, texts: list[str], num_threads: int) -> list[list[int]]:
        if not self.special_tokens.ids:
            return self._encode_plain(texts, num_threads)
        rows = [list(self.special_tokens.split(text)) for text in texts]
        plain = [part.text for row in rows for part in row if part.id is None]
        encoded = iter(self._encode_plain(plain, num_threads))
        return [
            [
                i
                for part in row
                for i in (next(encoded) if part.id is None else [part.id])
            ]
            for row in rows
        ]

    def _check_id(self, piece_id: int) -> None:
        if not 0 <= piece_id < self.vocab_size:
            raise ValueError(
                f"id must be in [0, {self.vocab_size}), the vocabulary, "
                f"not {piece_id}."
            )


def _texts(texts: str | Iterable[str], argument: str) -> list[str]:
    """Returns a list of texts, or says what is none."""
    texts = [texts] if isinstance(texts, str) else list(texts)
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(
                f"{argument}[{i}] must be a str, not "
                f"{type(text).__name__}: {text!r}."
            )
    return texts
