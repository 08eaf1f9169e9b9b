"""Report on how a vocabulary segments held-out text."""

from __future__ import annotations

import collections
import dataclasses
import unicodedata
from collections.abc import Iterable, Mapping

from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.word_splitter import WordSplitter

# Text without letters, such as numbers.
_NO_SCRIPT = "none"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PieceCounts:
    """Counts of the pieces of some text.

    Attributes:
      sentences: number of sentences.
      words: number of words, as BERT splits text: at spaces, and around each
        punctuation mark and Chinese character. Languages without spaces between
        words, such as Thai, have long words.
      characters: number of characters, without whitespace.
      pieces: number of pieces.
      unknown_pieces: number of unknown pieces.
      unknown_characters: number of characters in unknown pieces.
    """

    sentences: int = 0
    words: int = 0
    characters: int = 0
    pieces: int = 0
    unknown_pieces: int = 0
    unknown_characters: int = 0

    @property
    def fertility(self) -> float:
        """Pieces per word."""
        return self.pieces / max(1, self.words)

    @property
    def characters_per_piece(self) -> float:
        """Characters per piece."""
        return self.characters / max(1, self.pieces)

    @property
    def unknown_rate(self) -> float:
        """Fraction of the pieces that are unknown."""
        return self.unknown_pieces / max(1, self.pieces)

    @property
    def unknown_character_rate(self) -> float:
        """Fraction of the characters that are in unknown pieces."""
        return self.unknown_characters / max(1, self.characters)

    def __add__(self, other: PieceCounts) -> PieceCounts:
        return PieceCounts(
            **{
                field.name: getattr(self, field.name)
                + getattr(other, field.name)
                for field in dataclasses.fields(self)
            }
        )

    def to_json(self) -> dict[str, float]:
        """Returns the counts and the rates, by name."""
        rates = (
            "fertility",
            "characters_per_piece",
            "unknown_rate",
            "unknown_character_rate",
        )
        return dataclasses.asdict(self) | {x: getattr(self, x) for x in rates}


@dataclasses.dataclass(frozen=True, kw_only=True)
class VocabularyReport:
    """How a vocabulary segments some text.

    Attributes:
      vocab_size: number of pieces in the vocabulary.
      used_pieces: number of different pieces in the segmented text.
      total: counts of the whole text.
      by_script: counts of the sentences in each Unicode script, such as
        "Latin".
      by_source: counts of the sentences from each source.
    """

    vocab_size: int
    used_pieces: int
    total: PieceCounts
    by_script: Mapping[str, PieceCounts]
    by_source: Mapping[str, PieceCounts]

    @property
    def vocabulary_use(self) -> float:
        """Fraction of the vocabulary that the text uses."""
        return self.used_pieces / self.vocab_size

    def to_json(self) -> dict[str, object]:
        """Returns the report as JSON values."""
        return {
            "vocab_size": self.vocab_size,
            "used_pieces": self.used_pieces,
            "vocabulary_use": self.vocabulary_use,
            "total": self.total.to_json(),
            "by_script": {k: x.to_json() for k, x in self.by_script.items()},
            "by_source": {k: x.to_json() for k, x in self.by_source.items()},
        }

    def table(self) -> str:
        """Returns the report as a table to print."""
        groups = {"all": self.total}
        for group in (self.by_script, self.by_source):
            if len(group) > 1:  # A single one equals the total.
                groups |= group
        width = max(len("held-out text"), *map(len, groups))
        lines = [
            f"{'held-out text':{width}} {'sentences':>9} {'words':>9} "
            f"{'pieces':>9} {'per word':>8} {'chars/piece':>11} "
            f"{'unknown':>8} {'of chars':>8}"
        ]
        lines += [
            f"{name:{width}} {x.sentences:9,} {x.words:9,} {x.pieces:9,} "
            f"{x.fertility:8.2f} {x.characters_per_piece:11.2f} "
            f"{x.unknown_rate:8.3%} {x.unknown_character_rate:8.3%}"
            for name, x in groups.items()
        ]
        lines.append(
            f"vocabulary use: {self.used_pieces:,} of {self.vocab_size:,} "
            f"pieces ({self.vocabulary_use:.1%})"
        )
        return "\n".join(lines)


def measure_vocabulary(
    tokenizer: Tokenizer, texts: Mapping[str, Iterable[str]]
) -> VocabularyReport:
    """Measures how a tokenizer segments texts.

    Args:
      tokenizer: the tokenizer.
      texts: the sentences of each source, such as a language, by name.
    """
    split = WordSplitter(do_lower_case=False, strip_accents=False)
    used: set[int] = set()
    by_source: dict[str, PieceCounts] = {}
    by_script: collections.defaultdict[str, PieceCounts]
    by_script = collections.defaultdict(PieceCounts)
    for source, sentences in texts.items():
        by_source[source] = PieceCounts()
        for sentence in sentences:
            tokens = tokenizer.tokenize_with_offsets(sentence)
            used.update(token.id for token in tokens)
            unknown = [x for x in tokens if x.id == tokenizer.unk_id]
            counts = PieceCounts(
                sentences=1,
                words=len(split(sentence)),
                characters=_count_characters(sentence),
                pieces=len(tokens),
                unknown_pieces=len(unknown),
                unknown_characters=sum(
                    _count_characters(sentence[max(0, x.start) : x.end])
                    for x in unknown
                ),
            )
            by_source[source] += counts
            by_script[script_of(sentence)] += counts
    total = sum(by_source.values(), PieceCounts())
    largest_first = sorted(by_script, key=lambda x: -by_script[x].sentences)
    return VocabularyReport(
        vocab_size=tokenizer.vocab_size,
        used_pieces=len(used),
        total=total,
        by_script={name: by_script[name] for name in largest_first},
        by_source=by_source,
    )


def script_of(text: str) -> str:
    """Returns the script of most letters in a text, such as "Latin".

    The script is the first word of the Unicode names of the letters, or "none"
    without letters. Japanese, which mixes scripts, is "Kana" if at least a
    tenth of the letters are kana.
    """
    letters = unicodedata.normalize("NFKC", text)
    scripts = collections.Counter(
        unicodedata.name(letter, _NO_SCRIPT).split()[0]
        for letter in letters
        if letter.isalpha()
    )
    if not scripts:
        return _NO_SCRIPT
    kana = scripts["HIRAGANA"] + scripts["KATAKANA"]
    if kana and 10 * kana >= scripts.total():
        return "Kana"
    name, _ = scripts.most_common(1)[0]
    return "Chinese" if name == "CJK" else name.capitalize()


def _count_characters(text: str) -> int:
    return sum(map(len, text.split()))
