"""SentencePiece models whose own normalizer is that of a tokenizer.

Programs that know nothing of our settings, such as KerasHub, apply only the
model's character map. So this module writes a map that lower-cases, strips
accents and then does what the original map does.
"""

from __future__ import annotations

import collections
import io
import itertools
import pathlib
import sys
import tempfile
import unicodedata
from collections.abc import Iterable, Iterator, Mapping

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from albert_tf.text.charsmap import charsmap_rules
from albert_tf.text.normalizer import Normalizer, lower_characters
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer

# More characters than in any sequence that a map of SentencePiece replaces.
_LONGEST_SOURCE = 20


def with_own_normalizer(tokenizer: AlbertTokenizer) -> bytes:
    """Returns a SentencePiece model that gives a tokenizer's ids on its own.

    * Its character map is the tokenizer's normalizer followed by the original
      map. A map replaces each longest known sequence of characters, whatever
      surrounds it, see `remaining_differences`.
    * Pieces that end in a digit and a comma, which the tokenizer would split,
      are never used (`UNUSED`), so that SentencePiece finds their parts.

    Ids and pieces of the model are the same.
    """
    model = sentencepiece_model_pb2.ModelProto.FromString(tokenizer.model_bytes)
    spec = model.normalizer_spec
    original = charsmap_rules(spec.precompiled_charsmap)
    rules = folding_rules(tokenizer.normalizer, original)
    if rules != original:
        spec.name = "user_defined"
        spec.precompiled_charsmap = compile_rules(rules)
    for piece_id in tokenizer.splits:
        model.pieces[piece_id].type = model.pieces[piece_id].UNUSED
    return model.SerializeToString()


def remaining_differences(tokenizer: AlbertTokenizer) -> list[str]:
    """Returns what `with_own_normalizer` cannot express, in words.

    All other texts get the same ids; see docs/checkpoints.md for how often real
    ones differ.
    """
    differences = []
    normalizer = tokenizer.normalizer
    if normalizer.do_lower_case and not normalizer.lower_characters_first:
        differences.append("capital sigmas at the end of words (ΟΔΟΣ)")
    if tokenizer.match_special_tokens:
        differences.append("special tokens that are typed in a text ([MASK])")
    if tokenizer.cut_at_user_defined_pieces:
        differences.append("words with - or another user-defined piece")
    if tokenizer.splits:
        differences.append("some numbers with commas (2,000,5)")
    return differences


def compile_rules(rules: Mapping[str, str]) -> bytes:
    """Compiles replacements to a SentencePiece `precompiled_charsmap`.

    The longest sequence of characters that matches is replaced, possibly by
    nothing.
    """
    if not rules:
        return b""

    def numbers(text: str) -> str:
        return " ".join(f"{ord(c):X}" for c in text)

    trained = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        table = pathlib.Path(folder, "rules.tsv")
        lines = (f"{numbers(x)}\t{numbers(y)}\n" for x, y in rules.items())
        table.write_text("".join(sorted(lines)), "ascii")
        # The library compiles rules only for a model that it trains.
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["a b c d"]),
            model_writer=trained,
            model_type="char",
            vocab_size=8,
            hard_vocab_limit=False,
            normalization_rule_tsv=str(table),
            minloglevel=2,
        )
    model = sentencepiece_model_pb2.ModelProto.FromString(trained.getvalue())
    return model.normalizer_spec.precompiled_charsmap


def folding_rules(
    normalizer: Normalizer, original: Mapping[str, str]
) -> dict[str, str]:
    """Returns the rules of a normalizer followed by those of a map."""
    folded = {
        c: text
        for c in _characters(original)
        if (text := _fold(normalizer, c)) != c
    }
    sources = collections.defaultdict(list)  # text -> characters folded to it
    for c, text in folded.items():
        sources[text].append(c)
    rules = {}

    def add(source: str, text: str) -> None:
        target = replace(text, original)
        if target != source or len(source) > 1:
            rules[source] = target

    for c, text in folded.items():
        add(c, text)
    for text in original:
        for source in _sources(text, folded, sources):
            add(source, text)
    if normalizer.replace_latex_quotes:
        rules |= dict.fromkeys(("``", "''"), replace('"', original))
    return rules


def replace(text: str, rules: Mapping[str, str]) -> str:
    """Replaces the longest match at each position, as SentencePiece does."""
    parts, start = [], 0
    while start < len(text):
        for end in range(min(len(text), start + _LONGEST_SOURCE), start, -1):
            if text[start:end] in rules:
                parts.append(rules[text[start:end]])
                start = end
                break
        else:
            parts.append(text[start])
            start += 1
    return "".join(parts)


def _fold(normalizer: Normalizer, character: str) -> str:
    """Normalizes a character on its own."""
    if character.isspace():
        return " "
    text = normalizer.fold(character)
    return lower_characters(text) if normalizer.do_lower_case else text


def _characters(original: Mapping[str, str]) -> Iterable[str]:
    """Returns the characters that a normalizer or the map may change."""
    assigned = (
        c
        for c in map(chr, range(1, sys.maxunicode + 1))
        if unicodedata.category(c) not in ("Cn", "Co", "Cs")
    )
    return itertools.chain(assigned, (x for x in original if len(x) == 1))


def _sources(
    text: str, folded: Mapping[str, str], sources: Mapping[str, list[str]]
) -> Iterator[str]:
    """Yields the sequences of characters that are folded to a text."""
    if not text:
        yield ""
    for end in range(1, len(text) + 1):
        head = text[:end]
        found = list(sources.get(head, ()))
        if end == 1 and head not in folded:
            found.append(head)
        if not found:
            continue
        for rest in _sources(text[end:], folded, sources):
            for c in found:
                yield c + rest
