"""Base class of the tokenizers."""

import abc
import functools
import hashlib
import importlib
import os
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeVar, overload

import numpy as np

from albert_tf.array_ops import ArrayOps
from albert_tf.errors import InputError
from albert_tf.schema import check_argument
from albert_tf.text.arguments import check_names, text_list
from albert_tf.text.packing import (
    as_tensors,
    longest_sequence,
    make_segment,
    pack,
)
from albert_tf.text.pieces import Pieces
from albert_tf.text.tokens import SEGMENT_LENGTH, SpecialTokens, Token, segments

_Tokenizer = TypeVar("_Tokenizer", bound="Tokenizer")
Padding = Literal["longest", "max_length"] | bool
Truncation = Literal["longest_first"] | bool


class Tokenizer(Pieces):
    """Base class of `AlbertTokenizer` and `AlbertWordPieceTokenizer`.

    Subclasses implement the tokenization of text without special tokens.
    Tokenizers can be pickled and do not need TensorFlow; `AlbertPreprocessor`
    gives the same ids in a graph. `len(tokenizer)` is the vocabulary size.

    Attributes:
      file_name: name of the vocabulary file in a folder.
      model_bytes: content of the vocabulary file.
      fingerprint: SHA-256 of `model_bytes`, in hex.
      match_special_tokens: whether special tokens written out in a text, such
        as `[MASK]`, are encoded as their ids.
      special_tokens: the tokens at which texts are split before tokenization.
      model_max_length: tokens in the longest row of the model; 512, as of all
        released models, if it is not known.
      vocab_size, pad_id, unk_id, cls_id, sep_id, mask_id: see `Pieces`.
    """

    file_name: ClassVar[str]
    model_max_length: int = 512

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
        """Initializes the vocabulary size, special tokens and fingerprint.

        Args:
          model_bytes: content of the vocabulary file.
          vocab_size: number of pieces.
          special_ids: ids of the padding token, `[CLS]`, `[SEP]`, `[MASK]` and
            the unknown token, in this order, by piece.
          match_special_tokens: see the class.
          lower_characters_first: see `SpecialTokens`.
          other_ids: ids of further pieces at which texts are split, by piece.
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
        """Keyword arguments of the constructor, except the vocabulary."""

    @abc.abstractmethod
    def _encode_plain(
        self, texts: list[str], num_threads: int
    ) -> list[list[int]]:
        """Encodes texts that contain no special tokens."""

    @abc.abstractmethod
    def _tokens_plain(self, text: str, follows_space: bool) -> Iterable[Token]:
        """Tokenizes a segment that contains no special tokens."""

    @functools.cached_property
    def _segment_length(self) -> int:
        """Texts longer than this are encoded in segments; see `segments`."""
        return SEGMENT_LENGTH

    def with_settings(self: _Tokenizer, **settings: Any) -> _Tokenizer:
        """Returns a copy with some arguments of the constructor changed.

        Raises:
          InputError: if the tokenizer has no such setting.
        """
        check_names(settings, type(self), self.file_name)
        if not settings:
            return self
        changed = type(self)(self.model_bytes, **{**self.settings, **settings})
        return changed.with_max_length(self.model_max_length)

    def with_max_length(self: _Tokenizer, length: int) -> _Tokenizer:
        """Returns a copy of the tokenizer for rows of a model's length."""
        if length == self.model_max_length:
            return self
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy.model_max_length = length
        return copy

    @overload
    def encode(
        self, text: str, *, num_threads: int = -1, max_length: int | None = None
    ) -> list[int]: ...

    @overload
    def encode(
        self,
        text: Sequence[str],
        *,
        num_threads: int = -1,
        max_length: int | None = None,
    ) -> list[list[int]]: ...

    def encode(
        self,
        text: str | Sequence[str],
        *,
        num_threads: int = -1,
        max_length: int | None = None,
    ) -> list[int] | list[list[int]]:
        """Encodes text as token ids, without adding `[CLS]` and `[SEP]`.

        Special tokens in the text, such as `[MASK]`, become their ids only if
        `match_special_tokens` is set; see `with_settings`.

        Args:
          text: one text, or a list of texts, which is much faster than calling
            this method for each. Texts of any length are encoded in bounded
            memory.
          num_threads: number of SentencePiece threads for a list of texts; -1
            for one per core. Worker processes should pass 1.
          max_length: truncates each text to this many ids. None for no limit.

        Returns:
          A list of ids for one text; a list of such lists for several.

        Raises:
          InputError: if `max_length` is negative.
        """
        if max_length is not None:
            check_argument(max_length, int, "max_length")
            if max_length < 0:
                raise InputError(
                    f"max_length={max_length} must not be negative"
                )
        if isinstance(text, str):
            return self._encode([text], 1, max_length)[0]
        return self._encode(text_list(text, "text"), num_threads, max_length)

    def tokenize(self, text: str) -> list[str]:
        """Splits a text into pieces."""
        return [token.piece for token in self.iter_tokens(text)]

    def tokenize_with_offsets(self, text: str) -> list[Token]:
        """Tokenizes a text, with offsets.

        Offsets are in characters of the original text, before normalization.
        """
        return list(self.iter_tokens(text))

    def iter_tokens(self, text: str) -> Iterator[Token]:
        """Like `tokenize_with_offsets`, but yields tokens in bounded memory."""
        for part in self.special_tokens.split(text):
            if part.id is not None:
                end = part.start + len(part.text)
                yield Token(self._piece(part.id), part.id, part.start, end)
                continue
            for segment in segments(part.text, self._segment_length):
                offset = part.start + segment.start
                for piece, piece_id, start, end in self._tokens_plain(
                    segment.text, segment.follows_space
                ):
                    yield Token(piece, piece_id, offset + start, offset + end)

    @overload
    def __call__(
        self,
        texts: str | Sequence[str],
        pairs: str | Sequence[str] | None = None,
        max_length: int | None = None,
        padding: Padding = "longest",
        truncation: Truncation = True,
        return_tensors: Literal["np"] | None = "np",
        *,
        num_threads: int = -1,
    ) -> dict[str, np.ndarray]: ...

    @overload
    def __call__(
        self,
        texts: str | Sequence[str],
        pairs: str | Sequence[str] | None = None,
        max_length: int | None = None,
        padding: Padding = "longest",
        truncation: Truncation = True,
        return_tensors: Literal["tf", "pt"] = ...,
        *,
        num_threads: int = -1,
    ) -> dict[str, Any]: ...

    def __call__(
        self,
        texts: str | Sequence[str],
        pairs: str | Sequence[str] | None = None,
        max_length: int | None = None,
        padding: Padding = "longest",
        truncation: Truncation = True,
        return_tensors: Literal["np", "tf", "pt"] | None = "np",
        *,
        num_threads: int = -1,
    ) -> dict[str, Any]:
        """Encodes texts, or pairs of texts, as inputs of the encoder.

        Args:
          texts: one text, or a list of texts.
          pairs: the second text of each pair, or None.
          max_length: maximum sequence length, including `[CLS]` and `[SEP]`;
            None for `model_max_length`.
          padding: `"longest"` or True to pad to the longest sequence in the
            batch, or `"max_length"`.
          truncation: whether to truncate longer texts; pairs are trimmed
            round-robin.
          return_tensors: "np" or None for int32 NumPy arrays, "tf" for int32
            tensors of TensorFlow, "pt" for int64 tensors of PyTorch.
          num_threads: number of SentencePiece threads; -1 for one per core.

        Returns:
          Dict of `input_word_ids`, `input_mask` and `input_type_ids`
          `[batch, seq]`. One text gives a batch of one.
        """
        if max_length is None:
            max_length = self.model_max_length
        else:
            check_argument(max_length, int, "max_length")
        if padding not in ("longest", "max_length", True):
            raise ValueError(
                f"padding={padding!r} must be 'longest' (or True) or "
                "'max_length': the rows of a batch have one length"
            )
        if truncation not in (True, False, "longest_first"):
            raise ValueError(
                f"truncation={truncation!r} must be True (or 'longest_first') "
                "or False"
            )
        minimum = 2 if pairs is None else 3
        if max_length < minimum:
            raise ValueError(
                f"max_length={max_length} must be at least {minimum}, to hold "
                "[CLS] and [SEP]"
            )
        texts = text_list(texts, "texts")
        longest = max_length if truncation else None
        rows = [self._encode(texts, num_threads, longest)]
        if pairs is not None:
            pairs = text_list(pairs, "pairs")
            if len(pairs) != len(texts):
                raise ValueError(
                    "texts and pairs must have the same length, not "
                    f"{len(texts)} and {len(pairs)}"
                )
            rows.append(self._encode(pairs, num_threads, longest))
        ops = ArrayOps()
        segments = list(map(make_segment, rows))
        width = longest_sequence(ops, segments)
        if truncation:
            width = min(width, max_length)
        if padding == "max_length":
            if width > max_length:
                raise ValueError(
                    f"a text has {width} tokens, more than the max_length="
                    f"{max_length} to pad to; truncate it, or pad to the "
                    "longest"
                )
            width = max_length
        packed = pack(ops, self, segments, width)
        return as_tensors(packed, return_tensors or "np")

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Writes the files that `load_tokenizer` and transformers read.

        Args:
          folder: the folder; it may exist, with the same vocabulary or none.

        Raises:
          InputError: if the folder has another vocabulary, or cannot be written
            to.
        """
        # By its name: `tokenizer_files` is built on the tokenizers.
        files = importlib.import_module("albert_tf.text.tokenizer_files")
        files.save_tokenizer(self, folder)

    def __repr__(self) -> str:
        settings = {"vocab_size": self.vocab_size, **self.settings}
        listed = ", ".join(f"{name}={x!r}" for name, x in settings.items())
        return f"{type(self).__name__}({listed})"

    def __reduce__(self):
        make = functools.partial(type(self), **self.settings)
        state = {"model_max_length": self.model_max_length}
        return make, (self.model_bytes,), state

    def _encode(
        self, texts: list[str], num_threads: int, max_length: int | None
    ) -> list[list[int]]:
        is_long = [len(text) > self._segment_length for text in texts]
        pairs = list(zip(texts, is_long, strict=True))
        short = [text for text, long in pairs if not long]
        encoded = iter(self._encode_short(short, num_threads))
        rows = [
            self._encode_long(text, max_length) if long else next(encoded)
            for text, long in pairs
        ]
        if max_length is None:
            return rows
        return [ids[:max_length] for ids in rows]

    def _encode_long(self, text: str, max_length: int | None) -> list[int]:
        """Encodes a long text up to at least `max_length` ids."""
        ids: list[int] = []
        for part in self.special_tokens.split(text):
            if part.id is not None:
                ids.append(part.id)
                continue
            for segment in segments(part.text, self._segment_length):
                if max_length is not None and len(ids) >= max_length:
                    return ids
                ids += self._encode_plain([segment.text], 1)[0]
        return ids

    def _encode_short(
        self, texts: list[str], num_threads: int
    ) -> list[list[int]]:
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
