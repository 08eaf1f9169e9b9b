"""BERT's word splitter, the step before WordPiece."""

import dataclasses
import functools
import unicodedata
from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

from albert_tf.text.normalizer import lower_characters

WordRules = Literal["google", "hugging_face"]

# Blocks of ideographs that BERT treats as Chinese characters.
_IDEOGRAPHS = (
    range(0x4E00, 0xA000),
    range(0x3400, 0x4DC0),
    range(0x20000, 0x2A6E0),
    range(0x2A700, 0x2B740),
    range(0x2B740, 0x2B820),
    range(0x2B820, 0x2CEB0),
    range(0xF900, 0xFB00),
    range(0x2F800, 0x2FA20),
)
# Vowels and final consonants of Hangul, which compose with the letter before.
_JAMO = range(0x1160, 0x1200)

# How the Unicode names of letters begin in scripts without spaces between words
# whose letters are not wide, as those of Chinese and Japanese are.
UNSPACED_SCRIPTS = ("THAI ", "LAO ", "KHMER ", "MYANMAR ")


class Word(NamedTuple):
    """A normalized word with offsets into the original text.

    Attributes:
      text: the normalized word.
      starts: where the source of each character starts in the original text,
        in characters.
      ends: where the source ends, exclusive. A dropped character (an accent, a
        control character) belongs to the character before it.
    """

    text: str
    starts: list[int]
    ends: list[int]


class _Source(NamedTuple):
    """A span of the original text and its normalized form so far."""

    form: str
    start: int
    end: int


@dataclasses.dataclass(frozen=True)
class WordSplitter:
    """BERT's `BasicTokenizer`, the step before WordPiece.

    In this order: drop control and format characters (Cc, Cf) and U+FFFD; put
    spaces around ideographs; lower-case; decompose (NFD) and drop nonspacing
    marks (Mn); split at whitespace and around punctuation, which includes all
    ASCII symbols.

    These are the rules of Google's code, `google`. With `hugging_face`, as in
    the slow `BertTokenizer` of transformers 4, each character is lower-cased on
    its own before all other steps, so that a capital sigma never becomes a
    final one; private and unassigned characters (Co, Cn) are dropped as well;
    and text is composed (NFC) before lower-casing, which matters only if
    accents are kept.

    A lone surrogate, which UTF-8 cannot encode, is treated as U+FFFD.

    Attributes:
      do_lower_case: whether to lower-case.
      strip_accents: whether to decompose and drop marks; None for the value of
        `do_lower_case`.
      tokenize_chinese_chars: whether every ideograph is a word.
      rules: `google` or `hugging_face`.
    """

    do_lower_case: bool = True
    strip_accents: bool | None = None
    tokenize_chinese_chars: bool = True
    rules: WordRules = "google"

    def __post_init__(self):
        if self.rules not in get_args(WordRules):
            raise ValueError(
                f"rules={self.rules!r} must be 'google' or 'hugging_face'"
            )

    @property
    def strips_accents(self) -> bool:
        """Whether accents are dropped."""
        if self.strip_accents is None:
            return self.do_lower_case
        return self.strip_accents

    @property
    def lowers_characters_first(self) -> bool:
        """Whether characters are lower-cased before all other steps."""
        return self.do_lower_case and self.rules == "hugging_face"

    @property
    def composes(self) -> bool:
        """Whether text is composed (NFC), if this affects the result."""
        return self.rules == "hugging_face" and not self.strips_accents

    def __call__(self, text: str) -> list[str]:
        """Splits a text into words."""
        folded = self.fold(text)
        return folded.translate(_spacing_table(self.strips_accents)).split()

    def fold(self, text: str, lower: Callable[[str], str] = str.lower) -> str:
        """Applies all steps before the split, except for dropping marks."""
        if self.lowers_characters_first:
            text = lower_characters(text)
        text = text.translate(
            _cleaning_table(self.rules, self.tokenize_chinese_chars)
        )
        if self.composes:
            text = unicodedata.normalize("NFC", text)
        if self.do_lower_case:
            text = lower(text)
        return (
            unicodedata.normalize("NFD", text) if self.strips_accents else text
        )

    def align(self, text: str) -> list[Word]:
        """Splits a text into words, with offsets."""
        table = _cleaning_table(self.rules, self.tokenize_chinese_chars)
        first = lower_characters if self.lowers_characters_first else str
        sources = [
            _Source(first(c).translate(table), start, start + 1)
            for start, c in enumerate(text)
        ]
        if self.composes:
            sources = _compose(sources)
        forms = [source.form for source in sources]
        if self.do_lower_case:
            # The context of a sigma changes its form but not its length, so
            # lengths can be computed source by source.
            lowered = "".join(forms).lower()
            end = 0
            for i, form in enumerate(forms):
                start, end = end, end + len(form.lower())
                forms[i] = lowered[start:end]
        if self.strips_accents:
            forms = [unicodedata.normalize("NFD", form) for form in forms]
        characters = [(c, i) for i, form in enumerate(forms) for c in form]
        if self.strips_accents:
            characters = _reorder(characters)
            characters = [
                (c, i) for c, i in characters if unicodedata.category(c) != "Mn"
            ]
        ends = _ends(sources, {i for _, i in characters}, len(text))
        words = [Word("", [], [])]
        for c, i in characters:
            spaced = is_punctuation(c)
            if (spaced or c == " ") and words[-1].text:
                words.append(Word("", [], []))
            if c == " ":
                continue
            word = words[-1]
            word.starts.append(sources[i].start)
            word.ends.append(ends[i])
            words[-1] = word._replace(text=word.text + c)
            if spaced:
                words.append(Word("", [], []))
        return [word for word in words if word.text]


def is_ideograph(character: str) -> bool:
    """Returns whether BERT treats a character as an ideograph."""
    return any(ord(character) in block for block in _IDEOGRAPHS)


def is_punctuation(character: str) -> bool:
    """Returns whether BERT treats a character as punctuation."""
    if character.isascii():
        return character.isprintable() and not (
            character.isalnum() or character == " "
        )
    return unicodedata.category(character).startswith("P")


class _Table(dict):
    """Table for `str.translate`, filled on demand: texts use few characters."""

    def __init__(self, form_of: Callable[[str], str]):
        super().__init__()
        self._form_of = form_of

    def __missing__(self, code_point: int) -> str:
        form = self[code_point] = self._form_of(chr(code_point))
        return form


@functools.cache
def _cleaning_table(rules: WordRules, spaces_ideographs: bool) -> _Table:
    """Returns the table for the first step: cleaning and ideographs."""
    dropped = ["Cc", "Cf", "Cs"]
    if rules == "hugging_face":
        dropped += ["Cn", "Co"]

    def form_of(character: str) -> str:
        category = unicodedata.category(character)
        if character in "\t\n\r" or category in ("Zs", "Zl", "Zp"):
            return " "
        if category in dropped or character == "\ufffd":
            return ""
        if spaces_ideographs and is_ideograph(character):
            return f" {character} "
        return character

    return _Table(form_of)


@functools.cache
def _spacing_table(drops_marks: bool) -> _Table:
    """Returns the table for the last step: punctuation and marks."""

    def form_of(character: str) -> str:
        if is_punctuation(character):
            return f" {character} "
        if drops_marks and unicodedata.category(character) == "Mn":
            return ""
        return character

    return _Table(form_of)


def _compose(sources: list[_Source]) -> list[_Source]:
    """Merges sources whose characters compose with each other (NFC)."""
    composed: list[_Source] = []
    group: list[_Source] = []

    def flush() -> None:
        form = "".join(source.form for source in group)
        parts = [unicodedata.normalize("NFC", s.form) for s in group]
        together = unicodedata.normalize("NFC", form)
        if together == "".join(parts):
            composed.extend(
                source._replace(form=part)
                for source, part in zip(group, parts, strict=True)
            )
        else:
            composed.append(_Source(together, group[0].start, group[-1].end))
        group.clear()

    for source in sources:
        if group and source.form and not _composes(source.form[0]):
            flush()
        group.append(source)
    if group:
        flush()
    return composed


def _composes(character: str) -> bool:
    """Returns whether a character may compose with those before it."""
    return (
        unicodedata.category(character).startswith("M")
        or ord(character) in _JAMO
    )


def _reorder(characters: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Sorts marks by their combining class (canonical order)."""
    keys, starter = [], 0
    for c, _ in characters:
        combining = unicodedata.combining(c)
        starter += not combining
        keys.append((starter, combining))
    order = sorted(range(len(keys)), key=keys.__getitem__)
    return [characters[i] for i in order]


def _ends(sources: list[_Source], kept: set[int], length: int) -> list[int]:
    """Returns the end of each source, including dropped ones after it."""
    ends = [0] * len(sources)
    for i in reversed(range(len(sources))):
        ends[i] = length
        if i in kept:
            length = sources[i].start
    return ends
