"""Base class of the tokenizers, and the packing of their ids."""

import abc
import functools
import hashlib
import os
import pathlib
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, overload

import numpy as np

from albert_tf.errors import InputError
from albert_tf.files import check_not_web_address
from albert_tf.input_files import MAX_BYTES, check_regular
from albert_tf.text.tokens import SpecialTokens, Token, tokens_around_specials


def read_model(path: str | os.PathLike[str]) -> bytes:
    """Reads a file; the path may be remote (`gs://...`).

    Raises:
      InputError: if there is no such file, or it cannot be read.
    """
    name = os.fspath(path)
    check_not_web_address(
        name,
        "the path of a tokenizer's file, or load the tokenizer of a checkpoint "
        'with load_tokenizer("albert/albert-base-v2")',
    )
    if "://" in name:
        # Imported here: only remote paths need TensorFlow's file systems.
        import tensorflow as tf

        try:
            with tf.io.gfile.GFile(name, "rb") as file:
                return _bounded(file.read(MAX_BYTES + 1), name)
        except tf.errors.OpError as error:
            reason = " ".join(error.message.split())
            raise InputError(f"{name}: cannot be read: {reason}.") from error
    if pathlib.Path(name).is_dir():
        raise InputError(
            f"{name}: a folder, not a SentencePiece model; "
            "give a file in it, such as spiece.model."
        )
    check_regular(name)
    try:
        with open(name, "rb") as file:
            return _bounded(file.read(MAX_BYTES + 1), name)
    except OSError as error:
        raise InputError(
            f"{name}: cannot be read: {error.strerror}; "
            "give the path of a SentencePiece model."
        ) from error


def _bounded(content: bytes, name: str) -> bytes:
    if len(content) > MAX_BYTES:
        raise InputError(
            f"{name}: larger than {MAX_BYTES >> 20} MiB, so not the tokenizer "
            "of an ALBERT"
        )
    return content


def pack(
    firsts: Sequence[list[int]],
    seconds: Sequence[list[int]] | None,
    *,
    max_length: int,
    pad_to_max_length: bool,
    pad_id: int,
    cls_id: int,
    sep_id: int,
) -> dict[str, np.ndarray]:
    """Packs token ids into a padded batch; pairs are trimmed round-robin.

    Round-robin trimming takes one id from each segment in turn, starting with
    the first, until the sequence is full: three free positions are split 2 + 1,
    and positions that a short segment does not need go to the other one.
    `AlbertPreprocessor.bert_pack_inputs` does the same in the graph.

    Args:
      firsts: ids of the first segment of each example.
      seconds: ids of the second segment of each example, or None.
      max_length: maximum sequence length, including `[CLS]` and `[SEP]`.
      pad_to_max_length: whether to pad to `max_length` instead of the longest
        sequence of the batch.
      pad_id: id of the padding, where mask and types are 0.
      cls_id: id at the start of each sequence.
      sep_id: id at the end of each segment.

    Returns:
      Dict of `input_word_ids`, `input_mask` and `input_type_ids`, int32
      `[batch, seq]`.
    """
    rows, first_lengths = [], []
    if seconds is None:
        for first in firsts:
            row = [cls_id, *first[: max_length - 2], sep_id]
            rows.append(row)
            first_lengths.append(len(row))
    else:
        budget = max_length - 3
        for first, second in zip(firsts, seconds, strict=True):
            for_second = min(len(second), max(budget // 2, budget - len(first)))
            first = first[: budget - for_second]
            rows.append([cls_id, *first, sep_id, *second[:for_second], sep_id])
            first_lengths.append(len(first) + 2)

    lengths = np.fromiter(map(len, rows), np.int32, len(rows))[:, None]
    width = max_length if pad_to_max_length else int(lengths.max(initial=0))
    positions = np.arange(width, dtype=np.int32)[None]
    mask = positions < lengths
    ids = np.full(mask.shape, pad_id, np.int32)
    ids[mask] = [i for row in rows for i in row]
    types = mask & (positions >= np.array(first_lengths, np.int32)[:, None])
    return {
        "input_word_ids": ids,
        "input_mask": mask.astype(np.int32),
        "input_type_ids": types.astype(np.int32),
    }


class Tokenizer(abc.ABC):
    """Base class of `AlbertTokenizer` and `WordPieceTokenizer`.

    Subclasses define the tokenization of text without special tokens.
    Tokenizers are picklable and do not need TensorFlow. `AlbertPreprocessor`
    gives the same ids in a graph.

    Attributes:
      file_name: name of the vocabulary file in a folder.
      model_bytes: content of the vocabulary file.
      fingerprint: SHA-256 of `model_bytes`, in hex.
      match_special_tokens: whether special tokens spelled out in a text become
        their ids.
      special_tokens: the `SpecialTokens` at which texts are split: the special
        tokens, if they are matched, and other pieces of that kind.
      vocab_size: number of pieces.
      pad_id: id of the padding.
      unk_id: id of unknown pieces.
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
        """Initializes the vocabulary's size, special tokens and fingerprint.

        Args:
          model_bytes: content of the vocabulary file.
          vocab_size: number of pieces.
          special_ids: piece -> id of padding, `[CLS]`, `[SEP]`, `[MASK]` and
            the unknown piece, in this order.
          match_special_tokens: see the class.
          lower_characters_first: see `SpecialTokens`.
          other_ids: piece -> id of other pieces at which texts are split.
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
        """Keyword arguments of the constructor, without the model."""

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
        """Returns the text of valid ids."""

    @abc.abstractmethod
    def _piece(self, piece_id: int) -> str:
        """Returns the piece of a valid id."""

    @overload
    def encode(self, text: str, *, num_threads: int = -1) -> list[int]: ...

    @overload
    def encode(
        self, text: Sequence[str], *, num_threads: int = -1
    ) -> list[list[int]]: ...

    def encode(
        self,
        text: str | Sequence[str],
        *,
        num_threads: int = -1,
    ) -> list[int] | list[list[int]]:
        """Returns token ids, without `[CLS]` and `[SEP]`.

        Args:
          text: one text, or several, which is much faster than one by one.
          num_threads: number of SentencePiece threads for several texts; -1 for
            one per core. Worker processes should pass 1.

        Returns:
          A list of ids for one text, a list of such lists for several texts.
        """
        if isinstance(text, str):
            return self._encode([text], 1)[0]
        return self._encode(_texts(text, "text"), num_threads)

    def tokenize(self, text: str) -> list[str]:
        """Returns the pieces of a text."""
        return [token.piece for token in self.tokenize_with_offsets(text)]

    def tokenize_with_offsets(self, text: str) -> list[Token]:
        """Returns the tokens of a text with their offsets.

        Offsets are characters of the original text, before normalization.
        """
        if not self.special_tokens.ids:
            return list(self._tokens_plain(text))
        return list(
            tokens_around_specials(
                text, self.special_tokens, self._tokens_plain
            )
        )

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of token ids, without special tokens.

        Raises:
          ValueError: if an id is not in the vocabulary.
        """
        ids = [int(i) for i in ids]
        for i in ids:
            self._check_id(i)
        return self._decode(ids)

    def id_to_piece(self, piece_id: int) -> str:
        """Returns the piece of an id.

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
          pairs: second text of each pair, or None.
          max_length: maximum sequence length, including `[CLS]` and `[SEP]`.
            Longer texts are truncated, pairs round-robin (see `pack`).
          padding: `"longest"` to pad to the longest sequence of the batch, or
            `"max_length"`.
          num_threads: see `encode`.

        Returns:
          Dict of `input_word_ids`, `input_mask` and `input_type_ids`, int32
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
    """Returns a list of texts, after checking their types."""
    texts = [texts] if isinstance(texts, str) else list(texts)
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(
                f"{argument}[{i}] must be a str, not "
                f"{type(text).__name__}: {text!r}."
            )
    return texts
