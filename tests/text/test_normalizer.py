import itertools
import unicodedata

import pytest

from albert_tf.text.normalizer import Normalizer


def preprocess_text(
    text, lower=True, strip_accents=True, quotes=False, lower_first=False
):
    """What google-research/albert does, step by step.

    With `quotes` and `lower_first`, what transformers 4.57 does.
    """
    if lower and lower_first:
        text = "".join(character.lower() for character in text)
    text = " ".join(text.strip().split())
    if quotes:
        text = text.replace("``", '"').replace("''", '"')
    if strip_accents:
        text = unicodedata.normalize("NFKD", text)
        text = "".join(c for c in text if not unicodedata.combining(c))
    return text.lower() if lower else text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        (" \t\u3000\x1c\x85 ", ""),
        ("  Hello \n  World ", "hello world"),
        ("Café Ångström dấu nặng", "cafe angstrom dau nang"),
        ("ﬁne ½ ™ …", "fine 1⁄2 tm ..."),
        ("Straße İs", "straße is"),
        ("ΟΔΟΣ ΣΑΣ.", "οδος σας."),
        ("a´b ´", "a b  "),
        ("``quoted''", "``quoted''"),
        ("nul\x00 inside", "nul\x00 inside"),
    ],
)
def test_normalizes_as_google(text, expected):
    assert Normalizer()(text) == expected == preprocess_text(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("``quoted'' don''t", '"quoted" don"t'),
        ("``` '''' `'' ` `", '"` "" `" ` `'),
        # Before the decomposition, and after the whitespace.
        ("\u1fef\u1fef `\u0301` ' '", "`` `` ' '"),
        ("ΑΣ ΟΔΟΣ ς", "ασ οδοσ ς"),
        # These become sigmas only by their decomposition.
        ("ΑϹ Α𝚺", "ας ας"),
        ("Straße İs", "straße is"),
    ],
)
def test_normalizes_as_hugging_face(text, expected):
    options = {"replace_latex_quotes": True, "lower_characters_first": True}
    assert Normalizer(**options)(text) == expected
    assert preprocess_text(text, True, True, True, True) == expected


OPTIONS = list(itertools.product([True, False], repeat=4))


@pytest.mark.parametrize("options", OPTIONS)
def test_options(odd_texts, quoted_texts, options, each):
    normalizer = Normalizer(*options)
    for text in [*odd_texts[:9], *odd_texts[9::each], *quoted_texts[::each]]:
        assert normalizer(text) == preprocess_text(text, *options)


@pytest.mark.parametrize("lower_first", [True, False])
def test_every_code_point(characters, lower_first):
    normalizer = Normalizer(lower_characters_first=lower_first)
    options = (True, True, False, lower_first)
    for c in characters:
        assert normalizer(c) == preprocess_text(c, *options), ascii(c)


def test_lone_surrogates_become_replacement_characters():
    assert Normalizer()("a\ud800B\udfff") == "a\ufffdb\ufffd"


def test_alignment_spells_the_normalized_text(odd_texts, quoted_texts, each):
    texts = [*odd_texts[:9], *odd_texts[9::each], *quoted_texts[::each]]
    for options in (
        *((True, True), (True, False), (False, True)),
        *((True, True, True, True), (False, False, True)),
    ):
        normalizer = Normalizer(*options)
        for text in texts:
            aligned = normalizer.align(text)
            assert aligned.text == normalizer(text)
            assert len(aligned.starts) == len(aligned.ends)
            assert len(aligned.starts) == len(aligned.text)
            for c, start, limit in zip(*aligned, strict=True):
                # The source of a character, alone, has it in its image.
                source = normalizer(f"x{text[start:limit]}x")[1:-1]
                assert c in source or c in "σς"


def test_alignment_of_whitespace_accents_and_expansions():
    aligned = Normalizer().align("  E\u0301 \t ﬁ\u0301½ \n")
    assert aligned.text == "e fi1⁄2"
    sources = [(2, 4), (4, 7), (7, 9), (7, 9), (9, 10), (9, 10), (9, 10)]
    assert list(zip(aligned.starts, aligned.ends, strict=True)) == sources


def test_alignment_of_latex_quotes():
    aligned = Normalizer(replace_latex_quotes=True).align(" ``A'''\u0301 `")
    assert aligned.text == '"a"\' `'
    sources = [(1, 3), (3, 4), (4, 6), (6, 8), (8, 9), (9, 10)]
    assert list(zip(aligned.starts, aligned.ends, strict=True)) == sources
