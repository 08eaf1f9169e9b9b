"""SentencePiece tokenizer with the rules of google-research/albert."""

import dataclasses
import functools
import itertools
import os
from collections.abc import Iterator
from typing import Any

import sentencepiece
from sentencepiece import sentencepiece_pb2

from albert_tf.text.arguments import check_flags, check_names
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.normalizer import Normalizer
from albert_tf.text.sentencepiece_model import (
    SPECIAL_PIECES,
    DigitComma,
    load_processor,
    replace_pieces,
    split_digit_commas,
    user_defined_pieces,
    with_control_pieces,
    words_are_independent,
)
from albert_tf.text.tokens import LONGEST_SEGMENT, SEGMENT_LENGTH, Token
from albert_tf.text.vocabulary_file import read_model
from albert_tf.text.wordpiece_tokenizer import (
    AlbertWordPieceTokenizer,
    is_wordpiece,
)


class AlbertTokenizer(Tokenizer):
    """SentencePiece tokenizer with the rules of Google's ALBERT.

    Text is normalized and segmented by SentencePiece, and pieces that end in a
    digit and a comma are split (`split_digit_commas`). As in Google's code, a
    special token such as `[MASK]` in a text is split into pieces like any other
    text, unless `match_special_tokens` is set, as it is for Hugging Face
    checkpoints. `HUGGING_FACE_SLOW` in `tokenizer_config.py` holds the settings
    that reproduce Hugging Face's slow tokenizer. Settings are arguments of
    `from_file`, `from_pretrained` and `with_settings`. For example:

        tokenizer = AlbertTokenizer.from_file("spiece.model")
        tokenizer.encode("Hello, world!")
        batch = tokenizer(["Who?", "Where?"], ["He.", "There."])

    Tokenizers can be pickled and do not need TensorFlow; `AlbertPreprocessor`
    gives the same ids in a graph.

    Attributes:
      normalizer: the `Normalizer` applied to texts.
      digit_comma: the rule for pieces that end in a digit and a comma.
      processor_bytes: `model_bytes`, with special pieces that no text matches.
      splits: the parts of each piece that this rule splits, by its id.
      cut_at_user_defined_pieces: whether texts are split at user-defined pieces
        before tokenization.
    """

    file_name = "spiece.model"

    def __init__(
        self,
        model_bytes: bytes,
        *,
        do_lower_case: bool = True,
        strip_accents: bool | None = True,
        digit_comma: DigitComma = "google",
        replace_latex_quotes: bool = False,
        lower_characters_first: bool = False,
        match_special_tokens: bool = False,
        cut_at_user_defined_pieces: bool = False,
        name: str = "SentencePiece model",
    ):
        """Initializes the tokenizer from a serialized SentencePiece model.

        Args:
          model_bytes: the serialized model. To load a file, use `from_file`.
          do_lower_case: whether to lower-case, as all English releases do.
          strip_accents: whether to decompose text (NFKD) and drop accents; None
            is the default.
          digit_comma: how pieces that end in a digit and a comma are split:
            "google" as for the released weights, "corrected" as by Hugging
            Face, or "off"; see `split_digit_commas`.
          replace_latex_quotes: whether to replace two grave accents, or two
            apostrophes, by a quotation mark.
          lower_characters_first: whether to lower-case each character on its
            own before all other steps, as Hugging Face's slow tokenizer does.
          match_special_tokens: whether `[MASK]`, `[CLS]`, `[SEP]`, `<pad>` and
            `<unk>` in a text are encoded as their ids. The text is split at
            them and its parts are encoded separately, which drops the space
            before `[MASK]`, as in Hugging Face.
          cut_at_user_defined_pieces: whether to split texts at the vocabulary's
            user-defined pieces as if they were special tokens, as transformers
            5 does. In Google's English vocabulary these are ( ) " - . – £ and
            €. "well-known" then ends in "▁known"; by default, as in Google's
            code, in "known".
          name: name of the model in error messages, such as its path.

        Raises:
          InputError: if the model is invalid, or a special piece of ALBERT is
            missing.
        """
        if strip_accents is None:
            strip_accents = True
        check_flags(
            do_lower_case=do_lower_case,
            strip_accents=strip_accents,
            replace_latex_quotes=replace_latex_quotes,
            lower_characters_first=lower_characters_first,
            match_special_tokens=match_special_tokens,
            cut_at_user_defined_pieces=cut_at_user_defined_pieces,
        )
        self.normalizer = Normalizer(
            do_lower_case,
            strip_accents,
            replace_latex_quotes,
            lower_characters_first,
        )
        self.digit_comma = digit_comma
        self.cut_at_user_defined_pieces = cut_at_user_defined_pieces
        self._processor = load_processor(model_bytes, name)
        self.processor_bytes = with_control_pieces(model_bytes, self._processor)
        if self.processor_bytes != model_bytes:
            self._processor = load_processor(self.processor_bytes, name)
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
        cls,
        path: str | os.PathLike[str],
        *,
        revision: str | None = None,
        **settings: Any,
    ) -> Tokenizer:
        """Loads the tokenizer of a checkpoint; see `albert_tf.load_tokenizer`.

        Returns:
          An `AlbertTokenizer`, or for a `vocab.txt` an
          `AlbertWordPieceTokenizer`.

        Raises:
          InputError: if the checkpoint has no tokenizer, or an unsupported one.
        """
        # By its public name: `interop` is built on `text`.
        import albert_tf

        return albert_tf.load_tokenizer(path, revision, **settings)

    @classmethod
    def from_file(
        cls, path: str | os.PathLike[str], **settings: Any
    ) -> Tokenizer:
        """Loads a SentencePiece model or a WordPiece vocabulary.

        The format is detected from the content.

        Args:
          path: local or remote path, such as `spiece.model`, `vocab.txt` or
            `gs://bucket/30k-clean.model`.
          **settings: constructor arguments of the tokenizer, such as
            `do_lower_case`.

        Returns:
          An `AlbertTokenizer`, or for a `vocab.txt` an
          `AlbertWordPieceTokenizer`.

        Raises:
          InputError: if the file cannot be read or is in neither format, if a
            special piece is missing, or if the tokenizer has no such setting.
        """
        content, name = read_model(path), os.fspath(path)
        if is_wordpiece(content):
            return AlbertWordPieceTokenizer.from_file(path, **settings)
        check_names(settings, cls, name)
        return cls(content, name=name, **settings)

    @property
    def settings(self) -> dict[str, Any]:
        """Keyword arguments of the constructor, except the model."""
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
        if len(texts) == 1:  # Avoids starting SentencePiece's threads.
            batch = [self._processor.encode(normalized[0], out_type=int)]
        else:
            batch = self._processor.encode(
                normalized, out_type=int, num_threads=num_threads
            )
        return [replace_pieces(ids, self.splits) for ids in batch]

    @functools.cached_property
    def _segment_length(self) -> int:
        # Otherwise split texts only where memory requires it.
        is_exact = words_are_independent(self.processor_bytes)
        return SEGMENT_LENGTH if is_exact else LONGEST_SEGMENT

    def _tokens_plain(self, text: str, follows_space: bool) -> Iterator[Token]:
        tokens = self._tokens_with_offsets(text)
        if follows_space:  # It belongs to the first token.
            for token in itertools.islice(tokens, 1):
                yield token._replace(start=-1)
        yield from tokens

    def _tokens_with_offsets(self, text: str) -> Iterator[Token]:
        """Yields tokens with offsets into `text`, before normalization."""
        normalized, starts, ends = self.normalizer.align(text)
        # An empty token (from the space added before the first word) may end at
        # the start of the next character.
        starts = [*starts, len(text)]

        def token(piece: str, piece_id: int, first: int, last: int) -> Token:
            end = ends[last - 1] if last > first else starts[first]
            return Token(piece, piece_id, starts[first], end)

        for piece, piece_id, begin, end in _segment(
            normalized, self._processor
        ):
            split = self.splits.get(piece_id)
            if split is None:
                yield token(piece, piece_id, begin, end)
                continue
            for i, part in enumerate(split):
                first = max(begin, end - part.start) if i else begin
                last = max(begin, end - part.end)
                yield token(part.piece, part.id, first, last)

    def _decode(self, ids: list[int]) -> str:
        return self._processor.decode(ids)

    def _piece(self, piece_id: int) -> str:
        return self._processor.id_to_piece(piece_id)


def _segment(
    text: str, processor: sentencepiece.SentencePieceProcessor
) -> Iterator[Token]:
    """Yields the pieces of a normalized text, with offsets into it."""
    proto = sentencepiece_pb2.SentencePieceText.FromString(
        processor.encode(text, out_type="serialized_proto")
    )
    if text.isascii():
        character_at = range(len(text) + 1)
    else:  # SentencePiece counts bytes.
        sizes = [len(character.encode()) for character in text]
        offsets = itertools.accumulate(sizes, initial=0)
        character_at = {byte: i for i, byte in enumerate(offsets)}
    for token in proto.pieces:
        yield Token(
            token.piece,
            token.id,
            character_at[token.begin],
            character_at[token.end],
        )
