"""The tokenizer of checkpoints with a `vocab.txt`, such as the Chinese ones."""

import dataclasses
import os
from collections.abc import Iterator
from typing import Any

from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.model_file import read_model
from albert_tf.text.token_offsets import Token
from albert_tf.text.word_splitter import WordRules, WordSplitter
from albert_tf.text.wordpiece import (
    CONTINUATION,
    SPECIAL_PIECES,
    WordPieces,
    read_pieces,
)

# Of a word, by whose rules it is.
_MAX_CHARACTERS = {"google": 200, "hugging_face": 100}


class WordPieceTokenizer(Tokenizer):
    """Turns text into ids by BERT's WordPiece, as Google's Chinese ALBERTs do.

    Text is split into words (`WordSplitter`), and each word into the longest
    pieces of the vocabulary (`WordPieces`). Special pieces such as `[MASK]`
    never come from text, unless `match_special_tokens` is set.
    `HUGGING_FACE_SLOW_WORDPIECE`, in `wordpiece_files.py`, are the settings
    with which it does as Hugging Face's slow `BertTokenizer`.

        tokenizer = AlbertTokenizer.from_file("vocab.txt")
        tokenizer.tokenize("unaffable 中文")  # un ##aff ##able 中 文

    Attributes:
      normalizer: the `WordSplitter` of the texts.
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
        """Reads a vocabulary; see `from_file` for a path.

        Args:
          model_bytes: the content of a `vocab.txt`: a piece a line.
          do_lower_case: see `WordSplitter`.
          strip_accents: see `WordSplitter`.
          tokenize_chinese_chars: see `WordSplitter`.
          rules: see `WordSplitter`. Besides, a word is unknown if it has more
            than 200 characters by the rules `google`, which is what the
            released weights saw, and more than 100 by `hugging_face`.
          match_special_tokens: let `[MASK]`, `[CLS]`, `[SEP]`, `[PAD]` and
            `[UNK]` in a text stand for themselves.
          name: what error messages call the vocabulary, such as its path.

        Raises:
          InputError: if it is no such file, or lacks one of BERT's special
            pieces.
        """
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
            self._pieces, self.unk_id, self.max_characters_per_word
        )

    @classmethod
    def from_file(
        cls, path: str | os.PathLike, **settings: Any
    ) -> "WordPieceTokenizer":
        """Loads a `vocab.txt` from a local or remote path.

        Args:
          path: such as `vocab.txt`, or `gs://bucket/vocab.txt`.
          **settings: `do_lower_case` and so on, as of the constructor.

        Raises:
          InputError: there is no such file, it is no such vocabulary, or that
            lacks one of BERT's special pieces.
        """
        return cls(read_model(path), name=os.fspath(path), **settings)

    @property
    def settings(self) -> dict[str, Any]:
        """The keyword arguments that make this tokenizer from its model."""
        return {
            **dataclasses.asdict(self.normalizer),
            "match_special_tokens": self.match_special_tokens,
        }

    def _encode_plain(
        self, texts: list[str], num_threads: int
    ) -> list[list[int]]:
        del num_threads  # It is Python.
        return [
            [i for word in self.normalizer(text) for i in self._pieces_of(word)]
            for text in texts
        ]

    def _tokens_plain(self, text: str) -> Iterator[Token]:
        for word in self.normalizer.align(text):
            ids = self._pieces_of(word.text)
            begin = 0
            for i in ids:
                piece = self._pieces[i]
                end = begin + len(piece) - bool(begin) * len(CONTINUATION)
                if ids == (self.unk_id,):
                    end = len(word.text)
                yield Token(piece, i, word.starts[begin], word.limits[end - 1])
                begin = end

    def _decode(self, ids: list[int]) -> str:
        special = {self.pad_id, self.cls_id, self.sep_id, self.mask_id}
        pieces = [self._pieces[i] for i in ids if i not in special]
        return " ".join(pieces).replace(f" {CONTINUATION}", "").strip()

    def _piece(self, piece_id: int) -> str:
        return self._pieces[piece_id]
