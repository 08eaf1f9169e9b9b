"""Text cleanup before SentencePiece, in Python and in the graph."""

import dataclasses
import functools
import re
import unicodedata
from typing import TYPE_CHECKING, NamedTuple

from albert_tf.text.code_points import lower_characters

if TYPE_CHECKING:
    import tensorflow as tf

    from albert_tf.text.graph_normalizer import GraphNormalizer

_SURROGATE = re.compile("[\ud800-\udfff]")
_WORD = re.compile(r"\S+")
_SOLID = re.compile(r"\S")
_SOLID_OR_QUOTE = re.compile(r"``|''|\S")


class Alignment(NamedTuple):
    """A normalized text, and where each of its characters comes from.

    Attributes:
      text: the normalized text.
      starts: for each of its characters, where its source begins in the
        original, in characters.
      limits: where its source ends. A dropped accent belongs to the character
        before it; the one blank of a whitespace run comes from the whole run;
        all characters of an expansion (`ﬁ` to `fi`) come from the same source.
    """

    text: str
    starts: list[int]
    limits: list[int]


@dataclasses.dataclass(frozen=True)
class Normalizer:
    """The original's `preprocess_text`: what the released weights saw.

    In this order: strip, and collapse every run of whitespace (what `str.split`
    splits at) to one blank; decompose (NFKD) and drop every character with a
    combining class; lower-case with `str.lower`. The original always strips
    accents. As whitespace is collapsed first, a blank that a decomposition
    makes stays: "a´b" becomes "a b", "´" becomes " ".

    The last two attributes are what Hugging Face's slow `AlbertTokenizer` (to
    4.57) does besides: it lower-cases first, and replaces quotes after the
    whitespace.

    A lone surrogate, which UTF-8 cannot hold, becomes U+FFFD.

    Attributes:
      do_lower_case: lower-case. All English releases are lower-cased.
      strip_accents: decompose and drop combining marks. If False there is no
        decomposition either, as with Hugging Face's `keep_accents`;
        SentencePiece's own NFKC then does what its model says.
      replace_latex_quotes: turn each `` and each '' into a quotation mark.
      lower_characters_first: if lower-casing, lower-case each character by
        itself before all else. So a capital sigma never becomes a final one:
        "ΑΣ" becomes "ασ", not "ας".
    """

    do_lower_case: bool = True
    strip_accents: bool = True
    replace_latex_quotes: bool = False
    lower_characters_first: bool = False

    def __call__(self, text: str) -> str:
        """Returns the normalized text."""
        text = " ".join(text.split())
        if self.replace_latex_quotes:
            text = text.replace("``", '"').replace("''", '"')
        if not text.isascii():
            text = self._fold(text)
        return text.lower() if self.do_lower_case else text

    def align(self, text: str) -> Alignment:
        """Normalizes, and says where each character comes from."""
        folded, starts, limits = [], [], []

        def append(source: str, start: int, limit: int) -> None:
            image = source if source.isascii() else self._fold(source)
            if image:
                folded.append(image)
                starts.append(start)
                limits.append(limit)
            elif limits:
                limits[-1] = limit

        units = _SOLID_OR_QUOTE if self.replace_latex_quotes else _SOLID
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
            # A sigma's context decides on its form, never on its length, so
            # lengths may be counted source by source.
            folded = [image.lower() for image in folded]
            normalized = normalized.lower()
        return Alignment(
            normalized,
            [s for s, image in zip(starts, folded, strict=True) for _ in image],
            [e for e, image in zip(limits, folded, strict=True) for _ in image],
        )

    def graph(self, texts: "tf.Tensor") -> "tf.Tensor":
        """Does the same in TensorFlow operations.

        Equal to calling the normalizer on every element, for every string: the
        graph holds this Python's Unicode tables (about 0.4 MB). Invalid UTF-8
        is read as `bytes.decode("utf-8", errors="replace")` reads it. Only the
        66 noncharacters (such as U+FFFF) become U+FFFD under TensorFlow 2.18.

        Args:
          texts: tf.string of any shape, in UTF-8.

        Returns:
          tf.string of the same shape.
        """
        return _graph_normalizer(self)(texts)

    def _fold(self, text: str) -> str:
        """Makes each character what it is before the last lower-casing."""
        text = _SURROGATE.sub("\ufffd", text)
        if self.do_lower_case and self.lower_characters_first:
            text = lower_characters(text)
        if self.strip_accents:
            text = unicodedata.normalize("NFKD", text)
            text = "".join([c for c in text if not unicodedata.combining(c)])
        return text


@functools.cache
def _graph_normalizer(normalizer: Normalizer) -> "GraphNormalizer":
    # Imported here: processes that only tokenize in Python need no TensorFlow.
    from albert_tf.text.graph_normalizer import GraphNormalizer

    return GraphNormalizer(normalizer)
