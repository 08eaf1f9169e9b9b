"""The tokenizer in Python."""

import dataclasses
import functools
import hashlib
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
from sentencepiece import sentencepiece_pb2

from albert_tf.text.digit_comma import (
    DigitComma,
    split_digit_commas,
)
from albert_tf.text.model_file import (
    SPECIAL_PIECES,
    load_processor,
    read_model,
)
from albert_tf.text.normalizer import Normalizer
from albert_tf.text.packing import pack


class Token(NamedTuple):
    """A piece of a text.

    Attributes:
      piece: its spelling, with `▁` at the start of a word. That of an unknown
        piece is the text it stands for.
      id: its id.
      start: where its text begins in the original text, in characters. A piece
        with `▁` begins at the blank before the word.
      limit: where it ends.
    """

    piece: str
    id: int
    start: int
    limit: int


class AlbertTokenizer:
    """Turns text into ids, as Google's ALBERT does.

    Text is normalized, segmented by SentencePiece, and pieces that end in a
    digit and a comma are split (`split_digit_commas`). Special pieces such as
    `[MASK]` never come from text, unless asked for.

        tokenizer = AlbertTokenizer.from_file("spiece.model")
        tokenizer.encode("Hello, world!")
        batch = tokenizer(["Who?", "Where?"], ["He.", "There."])

    Tokenizers are picklable, and need no TensorFlow. `AlbertPreprocessor` gives
    the same ids in a graph.

    Attributes:
      model_bytes: the serialized SentencePiece model.
      fingerprint: sha256 of `model_bytes`, in hex.
      normalizer: the `Normalizer` of the texts.
      digit_comma: the rule for digits with commas, `google` or `corrected`.
      splits: id -> the pieces that replace it under that rule.
      vocab_size: number of pieces.
      pad_id: id of `<pad>`.
      unk_id: id of what the vocabulary lacks.
      cls_id: id of `[CLS]`.
      sep_id: id of `[SEP]`.
      mask_id: id of `[MASK]`.
    """

    def __init__(
        self,
        model_bytes: bytes,
        *,
        do_lower_case: bool = True,
        strip_accents: bool = True,
        digit_comma: DigitComma = "google",
        name: str = "SentencePiece model",
    ):
        """Loads a serialized model; see `from_file` for a path.

        Args:
          model_bytes: a serialized SentencePiece model.
          do_lower_case: see `Normalizer`.
          strip_accents: see `Normalizer`.
          digit_comma: see `split_digit_commas`.
          name: what error messages call the model, such as its path.

        Raises:
          InputError: if it is no SentencePiece model, or lacks one of ALBERT's
            special pieces.
        """
        self.model_bytes = bytes(model_bytes)
        self.fingerprint = hashlib.sha256(self.model_bytes).hexdigest()
        self.normalizer = Normalizer(do_lower_case, strip_accents)
        self.digit_comma = digit_comma
        self._processor = load_processor(self.model_bytes, name)
        self.splits = split_digit_commas(self._processor, digit_comma)

        self.vocab_size = self._processor.get_piece_size()
        self.unk_id = self._processor.unk_id()
        self.pad_id, self.cls_id, self.sep_id, self.mask_id = (
            self._processor.piece_to_id(piece) for piece in SPECIAL_PIECES
        )
        self._specials = {
            self.id_to_piece(i): i
            for i in (
                self.pad_id,
                self.unk_id,
                self.cls_id,
                self.sep_id,
                self.mask_id,
            )
        }
        self._special = re.compile(
            f"({'|'.join(map(re.escape, self._specials))})"
        )

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike,
        *,
        do_lower_case: bool = True,
        strip_accents: bool = True,
        digit_comma: DigitComma = "google",
    ) -> "AlbertTokenizer":
        """Loads a SentencePiece model from a local or remote path.

        Args:
          path: such as `spiece.model`, or `gs://bucket/30k-clean.model`.
          do_lower_case: see `Normalizer`.
          strip_accents: see `Normalizer`.
          digit_comma: see `split_digit_commas`.

        Raises:
          InputError: if there is no such file, if it is no SentencePiece
            model, or if that lacks one of ALBERT's special pieces.
        """
        return cls(
            read_model(path),
            do_lower_case=do_lower_case,
            strip_accents=strip_accents,
            digit_comma=digit_comma,
            name=os.fspath(path),
        )

    def encode(
        self,
        text: str | Sequence[str],
        *,
        parse_special_tokens: bool = False,
        num_threads: int = -1,
    ) -> list[int] | list[list[int]]:
        """Returns ids, without `[CLS]` and `[SEP]`.

        Args:
          text: one text, or several, which is much faster than one by one.
          parse_special_tokens: let `[MASK]`, `[CLS]`, `[SEP]`, `<pad>` and
            `<unk>` in the text stand for themselves. The text is split at them
            first, and what lies between is encoded on its own, so the blank
            before `[MASK]` goes, as with Hugging Face.
          num_threads: SentencePiece's threads for several texts; -1: one a
            core. Worker processes should give 1.

        Returns:
          A list of ids for one text, a list of such lists for several.
        """
        if isinstance(text, str):
            return self._encode([text], parse_special_tokens, 1)[0]
        return self._encode(
            _texts(text, "text"), parse_special_tokens, num_threads
        )

    def tokenize(self, text: str) -> list[str]:
        """Returns pieces; an unknown piece is the text it stands for."""
        return [token.piece for token in self.tokenize_with_offsets(text)]

    def tokenize_with_offsets(self, text: str) -> list[Token]:
        """Returns pieces, ids, and where in `text` they come from.

        Offsets are characters of the original text, whatever normalization
        does to it; see `Alignment` and `SplitPiece`.
        """
        normalized, starts, limits = self.normalizer.align(text)
        # The end of an empty token (of a blank put before the first word) may
        # be the beginning of the next character.
        starts = [*starts, len(text)]

        def token(piece: str, piece_id: int, begin: int, end: int) -> Token:
            limit = limits[end - 1] if end > begin else starts[begin]
            return Token(piece, piece_id, starts[begin], limit)

        tokens = []
        for piece, piece_id, begin, end in self._segment(normalized):
            split = self.splits.get(piece_id)
            if split is None:
                tokens.append(token(piece, piece_id, begin, end))
                continue
            for i, part in enumerate(split):
                first = max(begin, end - part.start) if i else begin
                last = max(begin, end - part.limit)
                tokens.append(token(part.piece, part.id, first, last))
        return tokens

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of ids; special pieces have none.

        Raises:
          ValueError: if an id is not in the vocabulary.
        """
        ids = [int(i) for i in ids]
        for i in ids:
            self._check_id(i)
        return self._processor.decode(ids)

    def id_to_piece(self, piece_id: int) -> str:
        """Returns the spelling of a piece.

        Raises:
          ValueError: if the id is not in the vocabulary.
        """
        self._check_id(int(piece_id))
        return self._processor.id_to_piece(int(piece_id))

    def __call__(
        self,
        texts: str | Sequence[str],
        pairs: str | Sequence[str] | None = None,
        max_length: int = 128,
        padding: Literal["longest", "max_length"] = "longest",
        *,
        parse_special_tokens: bool = False,
        num_threads: int = -1,
    ) -> dict[str, np.ndarray]:
        """Encodes and packs texts, or pairs of texts, for the encoder.

        Args:
          texts: one text, or several.
          pairs: the second text of each, if any.
          max_length: longest row, with `[CLS]` and `[SEP]`. Longer texts are
            cut at the end, pairs round-robin (see `pack`).
          padding: pad to the `longest` row or to `max_length`.
          parse_special_tokens: see `encode`.
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
        firsts = self._encode(texts, parse_special_tokens, num_threads)
        seconds = None
        if pairs is not None:
            pairs = _texts(pairs, "pairs")
            if len(pairs) != len(texts):
                raise ValueError(
                    "texts and pairs must have the same length, not "
                    f"{len(texts)} and {len(pairs)}."
                )
            seconds = self._encode(pairs, parse_special_tokens, num_threads)
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
        options = {
            **dataclasses.asdict(self.normalizer),
            "digit_comma": self.digit_comma,
        }
        return functools.partial(type(self), **options), (self.model_bytes,)

    def _encode(
        self, texts: list[str], parse_special_tokens: bool, num_threads: int
    ) -> list[list[int]]:
        if parse_special_tokens:
            return [self._encode_around_specials(text) for text in texts]
        normalized = [self.normalizer(text) for text in texts]
        if len(texts) == 1:  # Spares SentencePiece the start of its threads.
            batch = [self._processor.encode(normalized[0], out_type=int)]
        else:
            batch = self._processor.encode(
                normalized, out_type=int, num_threads=num_threads
            )
        return [self._replace(ids) for ids in batch]

    def _encode_around_specials(self, text: str) -> list[int]:
        ids = []
        for i, part in enumerate(self._special.split(text)):
            # `re.split` puts what it split at into the odd places.
            ids += [self._specials[part]] if i % 2 else self.encode(part)
        return ids

    def _replace(self, ids: list[int]) -> list[int]:
        if self.splits.keys().isdisjoint(ids):
            return ids
        replaced = []
        for i in ids:
            split = self.splits.get(i)
            replaced += [part.id for part in split] if split else [i]
        return replaced

    def _segment(self, text: str) -> Iterator[Token]:
        """Yields SentencePiece's pieces of a normalized text."""
        proto = sentencepiece_pb2.SentencePieceText.FromString(
            self._processor.encode(text, out_type="serialized_proto")
        )
        if text.isascii():
            character_at = range(len(text) + 1)
        else:  # SentencePiece counts bytes.
            sizes = [len(character.encode()) for character in text]
            borders = itertools.accumulate(sizes, initial=0)
            character_at = {byte: i for i, byte in enumerate(borders)}
        for token in proto.pieces:
            yield Token(
                token.piece,
                token.id,
                character_at[token.begin],
                character_at[token.end],
            )

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
