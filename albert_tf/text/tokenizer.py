"""The tokenizer in Python."""

import dataclasses
import functools
import hashlib
import os
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np

from albert_tf.text.digit_comma import (
    DigitComma,
    replace_pieces,
    split_digit_commas,
)
from albert_tf.text.model_file import SPECIAL_PIECES, load_processor, read_model
from albert_tf.text.normalizer import Normalizer
from albert_tf.text.packing import pack
from albert_tf.text.special_tokens import SpecialTokens
from albert_tf.text.token_offsets import (
    Token,
    tokens_around_specials,
    tokens_with_offsets,
)


class AlbertTokenizer:
    """Turns text into ids, as Google's ALBERT does.

    Text is normalized, segmented by SentencePiece, and pieces that end in a
    digit and a comma are split (`split_digit_commas`). Special pieces such as
    `[MASK]` never come from text, unless `match_special_tokens` is set.
    `HUGGING_FACE_SLOW`, beside `load_tokenizer`, are the settings with which it
    does as Hugging Face's slow tokenizer.

        tokenizer = AlbertTokenizer.from_file("spiece.model")
        tokenizer.encode("Hello, world!")
        batch = tokenizer(["Who?", "Where?"], ["He.", "There."])

    Tokenizers are picklable, and need no TensorFlow. `AlbertPreprocessor` gives
    the same ids in a graph.

    Attributes:
      model_bytes: the serialized SentencePiece model.
      fingerprint: sha256 of `model_bytes`, in hex.
      normalizer: the `Normalizer` of the texts.
      digit_comma: the rule for digits with commas.
      splits: id -> the pieces that replace it under that rule.
      match_special_tokens: whether special tokens in a text stand for
        themselves.
      special_tokens: how they are found.
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
        replace_latex_quotes: bool = False,
        lower_characters_first: bool = False,
        match_special_tokens: bool = False,
        name: str = "SentencePiece model",
    ):
        """Loads a serialized model; see `from_file` for a path.

        Args:
          model_bytes: a serialized SentencePiece model.
          do_lower_case: see `Normalizer`.
          strip_accents: see `Normalizer`.
          digit_comma: see `split_digit_commas`.
          replace_latex_quotes: see `Normalizer`.
          lower_characters_first: see `Normalizer`.
          match_special_tokens: let `[MASK]`, `[CLS]`, `[SEP]`, `<pad>` and
            `<unk>` in a text stand for themselves. The text is split at them
            first, and what lies between is encoded on its own, so the blank
            before `[MASK]` goes, as with Hugging Face.
          name: what error messages call the model, such as its path.

        Raises:
          InputError: if it is no SentencePiece model, or lacks one of ALBERT's
            special pieces.
        """
        self.model_bytes = bytes(model_bytes)
        self.fingerprint = hashlib.sha256(self.model_bytes).hexdigest()
        self.normalizer = Normalizer(
            do_lower_case,
            strip_accents,
            replace_latex_quotes,
            lower_characters_first,
        )
        self.digit_comma = digit_comma
        self._processor = load_processor(self.model_bytes, name)
        self.splits = split_digit_commas(self._processor, digit_comma)

        self.vocab_size = self._processor.get_piece_size()
        self.unk_id = self._processor.unk_id()
        self.pad_id, self.cls_id, self.sep_id, self.mask_id = (
            self._processor.piece_to_id(piece) for piece in SPECIAL_PIECES
        )
        self.match_special_tokens = match_special_tokens
        specials = (*SPECIAL_PIECES, self.id_to_piece(self.unk_id))
        self.special_tokens = SpecialTokens(
            {piece: self._processor.piece_to_id(piece) for piece in specials},
            do_lower_case and lower_characters_first,
        )

    @classmethod
    def from_pretrained(
        cls, path: str | os.PathLike, *, revision: str | None = None
    ) -> "AlbertTokenizer":
        """Loads the tokenizer of a checkpoint of any system.

        Args:
          path: what `from_pretrained` of the models takes, or a folder with a
            tokenizer's files only.
          revision: of a name on the Hugging Face hub.

        Raises:
          InputError: there is no tokenizer, or it cannot be used.
        """
        # Imported here: checkpoints are built upon this.
        from albert_tf.interop.opening import open_tokenizer

        return open_tokenizer(path, revision=revision)

    @classmethod
    def from_file(
        cls, path: str | os.PathLike, **settings: Any
    ) -> "AlbertTokenizer":
        """Loads a SentencePiece model from a local or remote path.

        Args:
          path: such as `spiece.model`, or `gs://bucket/30k-clean.model`.
          **settings: `do_lower_case` and so on, as of the constructor.

        Raises:
          InputError: if there is no such file, if it is no SentencePiece
            model, or if that lacks one of ALBERT's special pieces.
        """
        return cls(read_model(path), name=os.fspath(path), **settings)

    @property
    def settings(self) -> dict[str, Any]:
        """The keyword arguments that make this tokenizer from its model."""
        return {
            **dataclasses.asdict(self.normalizer),
            "digit_comma": self.digit_comma,
            "match_special_tokens": self.match_special_tokens,
        }

    def encode(
        self,
        text: str | Sequence[str],
        *,
        num_threads: int = -1,
    ) -> list[int] | list[list[int]]:
        """Returns ids, without `[CLS]` and `[SEP]`.

        Args:
          text: one text, or several, which is much faster than one by one.
          num_threads: SentencePiece's threads for several texts; -1: one a
            core. Worker processes should give 1.

        Returns:
          A list of ids for one text, a list of such lists for several.
        """
        if isinstance(text, str):
            return self._encode([text], 1)[0]
        return self._encode(_texts(text, "text"), num_threads)

    def tokenize(self, text: str) -> list[str]:
        """Returns pieces; an unknown piece is the text it stands for."""
        return [token.piece for token in self.tokenize_with_offsets(text)]

    def tokenize_with_offsets(self, text: str) -> list[Token]:
        """Returns pieces, ids, and where in `text` they come from.

        Offsets are characters of the original text, whatever normalization
        does to it; see `Alignment` and `SplitPiece`.
        """
        plain = functools.partial(
            tokens_with_offsets,
            normalizer=self.normalizer,
            processor=self._processor,
            splits=self.splits,
        )
        if not self.match_special_tokens:
            return list(plain(text))
        return list(tokens_around_specials(text, self.special_tokens, plain))

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
        if not self.match_special_tokens:
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

    def _encode_plain(
        self, texts: list[str], num_threads: int
    ) -> list[list[int]]:
        normalized = [self.normalizer(text) for text in texts]
        if len(texts) == 1:  # Spares SentencePiece the start of its threads.
            batch = [self._processor.encode(normalized[0], out_type=int)]
        else:
            batch = self._processor.encode(
                normalized, out_type=int, num_threads=num_threads
            )
        return [replace_pieces(ids, self.splits) for ids in batch]

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
