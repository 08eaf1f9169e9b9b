"""The tokenizer in Python."""

import dataclasses
import os
from collections.abc import Iterator
from typing import Any

from albert_tf.errors import InputError
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.digit_comma import (
    DigitComma,
    replace_pieces,
    split_digit_commas,
)
from albert_tf.text.model_file import (
    SPECIAL_PIECES,
    load_processor,
    read_model,
    user_defined_pieces,
)
from albert_tf.text.normalizer import Normalizer
from albert_tf.text.token_offsets import Token, tokens_with_offsets
from albert_tf.text.wordpiece import is_wordpiece
from albert_tf.text.wordpiece_tokenizer import WordPieceTokenizer

# Settings of the constructor that have no counterpart in WordPiece.
_ONLY_SENTENCEPIECE = (
    "digit_comma",
    "replace_latex_quotes",
    "cut_at_user_defined_pieces",
)


class AlbertTokenizer(Tokenizer):
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
      normalizer: the `Normalizer` of the texts.
      digit_comma: the rule for digits with commas.
      splits: id -> the pieces that replace it under that rule.
      cut_at_user_defined_pieces: whether texts are cut there.
    """

    file_name = "spiece.model"

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
        cut_at_user_defined_pieces: bool = False,
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
          cut_at_user_defined_pieces: cut texts at the vocabulary's user-defined
            pieces as if they were special tokens, as transformers 5 does. In
            Google's English vocabulary they are ( ) " - . – £ and €. To
            transformers 5, "well-known" ends in "▁known"; without this, as in
            the original, in "known".
          name: what error messages call the model, such as its path.

        Raises:
          InputError: if it is no SentencePiece model, or lacks one of ALBERT's
            special pieces.
        """
        self.normalizer = Normalizer(
            do_lower_case,
            strip_accents,
            replace_latex_quotes,
            lower_characters_first,
        )
        self.digit_comma = digit_comma
        self.cut_at_user_defined_pieces = cut_at_user_defined_pieces
        self._processor = load_processor(model_bytes, name)
        self.splits = split_digit_commas(self._processor, digit_comma)

        unknown = self._piece(self._processor.unk_id())
        super().__init__(
            model_bytes,
            self._processor.get_piece_size(),
            {
                piece: self._processor.piece_to_id(piece)
                for piece in (*SPECIAL_PIECES, unknown)
            },
            match_special_tokens=match_special_tokens,
            lower_characters_first=do_lower_case and lower_characters_first,
            other_ids=user_defined_pieces(model_bytes)
            if cut_at_user_defined_pieces
            else {},
        )

    @classmethod
    def from_pretrained(
        cls, path: str | os.PathLike, *, revision: str | None = None
    ) -> Tokenizer:
        """Loads the tokenizer of a checkpoint of any system.

        Args:
          path: what `from_pretrained` of the models takes, or a folder with a
            tokenizer's files only.
          revision: of a name on the Hugging Face hub.

        Returns:
          An `AlbertTokenizer`, or for a `vocab.txt` a `WordPieceTokenizer`.

        Raises:
          InputError: there is no tokenizer, or it cannot be used.
        """
        # Imported here: checkpoints are built upon this.
        from albert_tf.interop.opening import open_tokenizer

        return open_tokenizer(path, revision=revision)

    @classmethod
    def from_file(cls, path: str | os.PathLike, **settings: Any) -> Tokenizer:
        """Loads a SentencePiece model, or a WordPiece vocabulary.

        The content tells which it is, not the name.

        Args:
          path: local or remote, such as `spiece.model`, `vocab.txt` or
            `gs://bucket/30k-clean.model`.
          **settings: `do_lower_case` and so on, as of the constructor, or of
            `WordPieceTokenizer`.

        Returns:
          An `AlbertTokenizer`, or for a `vocab.txt` a `WordPieceTokenizer`.

        Raises:
          InputError: if there is no such file, if it is neither, if that lacks
            one of ALBERT's special pieces, or if a setting is not for it.
        """
        content, name = read_model(path), os.fspath(path)
        if not is_wordpiece(content):
            return cls(content, name=name, **settings)
        for setting in _ONLY_SENTENCEPIECE:
            if setting in settings:
                raise InputError(
                    f"{name}: {setting}={settings[setting]!r} is for "
                    "SentencePiece models, and this is a WordPiece vocabulary; "
                    "leave it out."
                )
        return WordPieceTokenizer(content, name=name, **settings)

    @property
    def settings(self) -> dict[str, Any]:
        """The keyword arguments that make this tokenizer from its model."""
        return {
            **dataclasses.asdict(self.normalizer),
            "digit_comma": self.digit_comma,
            "match_special_tokens": self.match_special_tokens,
            "cut_at_user_defined_pieces": self.cut_at_user_defined_pieces,
        }

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

    def _tokens_plain(self, text: str) -> Iterator[Token]:
        return tokens_with_offsets(
            text, self.normalizer, self._processor, self.splits
        )

    def _decode(self, ids: list[int]) -> str:
        return self._processor.decode(ids)

    def _piece(self, piece_id: int) -> str:
        return self._processor.id_to_piece(piece_id)
