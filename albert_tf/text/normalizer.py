"""Text normalization before SentencePiece."""

import dataclasses
import re
import unicodedata
from typing import NamedTuple

CAPITAL_SIGMA = "\u03a3"
FINAL_SIGMA = "\u03c2"
SMALL_SIGMA = "\u03c3"

# Settings of every tokenizer that change the characters of its pieces, and that
# a vocabulary file does not say.
CASE_SETTINGS = ("do_lower_case", "strip_accents")

_SURROGATE = re.compile("[\ud800-\udfff]")
_WORD = re.compile(r"\S+")
_NONSPACE = re.compile(r"\S")
_NONSPACE_OR_QUOTE = re.compile(r"``|''|\S")


class Alignment(NamedTuple):
    """A normalized text with offsets into the original.

    Attributes:
      text: the normalized text.
      starts: where the source of each character starts in the original text,
        in characters.
      ends: where the source ends, exclusive. A dropped accent belongs to the
        character before it; the source of a collapsed space is the whole run
        of whitespace; all characters of an expansion (`ﬁ` to `fi`) have the
        same source.
    """

    text: str
    starts: list[int]
    ends: list[int]


def replace_surrogates(text: str) -> str:
    """Replaces surrogates, which UTF-8 cannot encode, by U+FFFD."""
    return _SURROGATE.sub("\ufffd", text)


def lower_characters(text: str) -> str:
    """Lower-cases each character independently of its context.

    `str.lower` considers the context of a single character, the capital sigma.
    """
    return text.replace(CAPITAL_SIGMA, SMALL_SIGMA).lower()


@dataclasses.dataclass(frozen=True)
class Normalizer:
    """`preprocess_text` of google-research/albert, as the released models use.

    In this order: strip the text and collapse every run of whitespace (as
    defined by `str.split`) to one space; decompose (NFKD) and drop every
    character with a combining class; lower-case with `str.lower`. The original
    always strips accents. As whitespace is collapsed first, a space produced by
    decomposition is kept: "a´b" becomes "a b", "´" becomes " ".

    The last two attributes reproduce Hugging Face's slow `AlbertTokenizer` (up
    to transformers 4.57), which lower-cases first, and replaces quotes after
    collapsing whitespace.

    A lone surrogate, which UTF-8 cannot encode, becomes U+FFFD.

    Attributes:
      do_lower_case: whether to lower-case, as all English releases do.
      strip_accents: whether to decompose and drop combining marks. If False,
        text is not decomposed at all, as with Hugging Face's `keep_accents`;
        only SentencePiece's own NFKC applies.
      replace_latex_quotes: whether to replace two grave accents, or two
        apostrophes, by a quotation mark.
      lower_characters_first: whether to lower-case each character on its own
        before all other steps, so that a capital sigma never becomes a final
        one: "ΑΣ" becomes "ασ", not "ας".
    """

    do_lower_case: bool = True
    strip_accents: bool = True
    replace_latex_quotes: bool = False
    lower_characters_first: bool = False

    def __call__(self, text: str) -> str:
        """Normalizes a text."""
        text = " ".join(text.split())
        if self.replace_latex_quotes:
            text = text.replace("``", '"').replace("''", '"')
        if not text.isascii():
            text = self.fold(replace_surrogates(text))
        return text.lower() if self.do_lower_case else text

    def align(self, text: str) -> Alignment:
        """Normalizes a text, with offsets into the original."""
        folded, starts, ends = [], [], []

        def append(source: str, start: int, end: int) -> None:
            form = source
            if not source.isascii():
                form = self.fold(replace_surrogates(source))
            if form:
                folded.append(form)
                starts.append(start)
                ends.append(end)
            elif ends:
                ends[-1] = end

        units = _NONSPACE_OR_QUOTE if self.replace_latex_quotes else _NONSPACE
        end = None
        for word in _WORD.finditer(text):
            if end is not None:
                append(" ", end, word.start())
            for unit in units.finditer(text, *word.span()):
                is_quote = unit.end() > unit.start() + 1
                append('"' if is_quote else unit.group(), *unit.span())
            end = word.end()

        normalized = "".join(folded)
        if self.do_lower_case:
            # The context of a sigma changes its form but not its length, so
            # lengths can be computed source by source.
            folded = [form.lower() for form in folded]
            normalized = normalized.lower()
        return Alignment(
            normalized,
            [s for s, form in zip(starts, folded, strict=True) for _ in form],
            [e for e, form in zip(ends, folded, strict=True) for _ in form],
        )

    def fold(self, text: str) -> str:
        """Applies what does not depend on context, except for whitespace."""
        if self.do_lower_case and self.lower_characters_first:
            text = lower_characters(text)
        if self.strip_accents:
            text = unicodedata.normalize("NFKD", text)
            text = "".join([c for c in text if not unicodedata.combining(c)])
        return text
