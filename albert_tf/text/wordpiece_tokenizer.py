"""WordPiece tokenizer, for checkpoints with a `vocab.txt`."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping
from typing import Any

from albert_tf.errors import InputError
from albert_tf.text.arguments import check_flags, check_names
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.tokens import Token
from albert_tf.text.vocabulary_file import (
    MAX_PIECE_BYTES,
    MAX_PIECES,
    read_model,
)
from albert_tf.text.word_splitter import WordRules, WordSplitter

CONTINUATION = "##"  # Prefix of pieces inside a word.
SPECIAL_PIECES = ("[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]")
_CACHED_WORDS = 1 << 16


def is_wordpiece(content: bytes) -> bool:
    """Returns whether a file has BERT's special pieces, as a `vocab.txt`."""
    try:
        return not set(_lines(content)).isdisjoint(SPECIAL_PIECES)
    except UnicodeDecodeError:
        return False


def read_pieces(content: bytes, name: str) -> list[str]:
    """Parses a `vocab.txt` to a list of pieces, in the order of their ids.

    It has one piece per line, in UTF-8.

    Raises:
      InputError: if the file is not a WordPiece vocabulary, or if one of BERT's
        special pieces is missing. The message begins with `name`.
    """
    num_lines = content.count(b"\n") + content.count(b"\r")
    if num_lines > 2 * MAX_PIECES:
        raise InputError(
            f"{name}: has {num_lines:,} lines, but a WordPiece vocabulary has "
            f"at most {MAX_PIECES:,}; give the vocab.txt of the checkpoint"
        )
    try:
        pieces = _lines(content)
    except UnicodeDecodeError as error:
        raise InputError(
            f"{name}: not a WordPiece vocabulary (vocab.txt): byte "
            f"{error.start} is not UTF-8; give the vocab.txt of the checkpoint"
        ) from None
    line_of: dict[str, int] = {}
    for line, piece in enumerate(pieces, 1):
        if not piece:
            problem = "the line is empty"
        elif len(piece.encode()) > MAX_PIECE_BYTES:
            problem = f"the line is longer than {MAX_PIECE_BYTES:,} bytes"
        elif piece in line_of:
            problem = f"{piece!r} is already on line {line_of[piece]}"
        else:
            line_of[piece] = line
            continue
        raise InputError(
            f"{name}:{line}: {problem}, but a WordPiece vocabulary has one "
            "piece per line, without duplicates; give the vocab.txt of the "
            "checkpoint"
        )
    missing = sorted(set(SPECIAL_PIECES) - line_of.keys())
    if missing:
        raise InputError(
            f"{name}: the WordPiece vocabulary has no line "
            f"{' '.join(missing)}; ALBERT needs {' '.join(SPECIAL_PIECES)}: "
            "give the vocab.txt of the checkpoint"
        )
    return pieces


class WordPieces:
    """Greedy longest-match segmentation of words into pieces.

    A word that is too long or cannot be segmented is unknown as a whole.
    """

    def __init__(
        self, ids: Mapping[str, int], unk_id: int, max_characters_per_word: int
    ):
        self._ids = ids
        self._longest = max(map(len, ids))
        self._unknown = (unk_id,)
        self._max_characters = max_characters_per_word
        self._cache: dict[str, tuple[int, ...]] = {}

    def __call__(self, word: str) -> tuple[int, ...]:
        """Segments a word; returns the ids of its pieces."""
        ids = self._cache.get(word)
        if ids is None:
            ids = self._find(word)
            if len(self._cache) >= _CACHED_WORDS:
                self._cache.clear()
            self._cache[word] = ids
        return ids

    def _find(self, word: str) -> tuple[int, ...]:
        if len(word) > self._max_characters:
            return self._unknown
        ids: list[int] = []
        start, mark = 0, ""
        while start < len(word):
            # `_longest` may count the prefix; extra lookups are harmless.
            for end in range(min(len(word), start + self._longest), start, -1):
                piece_id = self._ids.get(mark + word[start:end])
                if piece_id is not None:
                    break
            else:
                return self._unknown
            ids.append(piece_id)
            start, mark = end, CONTINUATION
        return tuple(ids)


def _lines(content: bytes) -> list[str]:
    text = content.decode("utf-8-sig")
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


# Maximum length of a word, by rules.
_MAX_CHARACTERS = {"google": 200, "hugging_face": 100}


class AlbertWordPieceTokenizer(Tokenizer):
    """WordPiece tokenizer of BERT and of Google's Chinese ALBERT models.

    Text is split into words (`WordSplitter`), and each word into the longest
    pieces of the vocabulary (`WordPieces`). Special tokens such as `[MASK]` in
    a text are treated as text, unless `match_special_tokens` is set.
    `HUGGING_FACE_SLOW_WORDPIECE` holds the settings that reproduce Hugging
    Face's slow `BertTokenizer`. For example:

        tokenizer = AlbertTokenizer.from_file("vocab.txt")
        tokenizer.tokenize("unaffable 中文")  # un ##aff ##able 中 文

    Attributes:
      normalizer: the `WordSplitter` applied to texts.
      max_characters_per_word: longer words are unknown.
    """

    file_name = "vocab.txt"

    def __init__(
        self,
        model_bytes: bytes,
        *,
        do_lower_case: bool = True,
        strip_accents: bool | None = None,
        tokenize_chinese_chars: bool = True,
        rules: WordRules = "google",
        match_special_tokens: bool = False,
        name: str = "WordPiece vocabulary",
    ):
        """Initializes the tokenizer from the content of a `vocab.txt`.

        Args:
          model_bytes: one piece per line. To load a file, use `from_file`.
          do_lower_case: whether to lower-case.
          strip_accents: whether to decompose text (NFD) and drop accents; None
            for the value of `do_lower_case`.
          tokenize_chinese_chars: whether every ideograph is a word.
          rules: how text is split into words: "google", as for the released
            weights, or "hugging_face"; see `WordSplitter`. Words have at most
            200 and 100 characters, respectively.
          match_special_tokens: whether `[MASK]`, `[CLS]`, `[SEP]`, `[PAD]` and
            `[UNK]` in a text are encoded as their ids.
          name: name of the vocabulary in error messages, such as its path.

        Raises:
          InputError: if the vocabulary is invalid, or if one of BERT's special
            pieces is missing.
        """
        check_flags(
            do_lower_case=do_lower_case,
            tokenize_chinese_chars=tokenize_chinese_chars,
            match_special_tokens=match_special_tokens,
        )
        if strip_accents is not None:
            check_flags(strip_accents=strip_accents)
        self.normalizer = WordSplitter(
            do_lower_case, strip_accents, tokenize_chinese_chars, rules
        )
        self._pieces = read_pieces(model_bytes, name)
        ids = {piece: i for i, piece in enumerate(self._pieces)}
        super().__init__(
            model_bytes,
            len(self._pieces),
            {piece: ids[piece] for piece in SPECIAL_PIECES},
            match_special_tokens=match_special_tokens,
            lower_characters_first=self.normalizer.lowers_characters_first,
        )
        self.max_characters_per_word = _MAX_CHARACTERS[rules]
        self._pieces_of = WordPieces(
            ids, self.unk_id, self.max_characters_per_word
        )

    @classmethod
    def from_file(
        cls, path: str | os.PathLike[str], **settings: Any
    ) -> AlbertWordPieceTokenizer:
        """Loads a `vocab.txt`; see `AlbertTokenizer.from_file`."""
        check_names(settings, cls, os.fspath(path))
        return cls(read_model(path), name=os.fspath(path), **settings)

    @property
    def settings(self) -> dict[str, Any]:
        """Keyword arguments of the constructor, except the vocabulary."""
        return {
            **dataclasses.asdict(self.normalizer),
            "match_special_tokens": self.match_special_tokens,
        }

    def _encode_plain(
        self, texts: list[str], num_threads: int
    ) -> list[list[int]]:
        del num_threads  # Words are segmented in Python, in one thread.
        return [
            [i for word in self.normalizer(text) for i in self._pieces_of(word)]
            for text in texts
        ]

    def _tokens_plain(self, text: str, follows_space: bool) -> Iterator[Token]:
        del follows_space  # Spaces belong to no token.
        for word in self.normalizer.align(text):
            ids = self._pieces_of(word.text)
            begin = 0
            for i in ids:
                piece = self._pieces[i]
                end = begin + len(piece) - bool(begin) * len(CONTINUATION)
                if ids == (self.unk_id,):
                    end = len(word.text)
                yield Token(piece, i, word.starts[begin], word.ends[end - 1])
                begin = end

    def _decode(self, ids: list[int]) -> str:
        special = {self.pad_id, self.cls_id, self.sep_id, self.mask_id}
        pieces = [self._pieces[i] for i in ids if i not in special]
        return " ".join(pieces).replace(f" {CONTINUATION}", "").strip()

    def _piece(self, piece_id: int) -> str:
        return self._pieces[piece_id]
