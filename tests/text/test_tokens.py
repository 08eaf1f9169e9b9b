"""Special tokens in texts, in any case."""

import re

import pytest

from albert_tf.text.tokens import SpecialTokens

CHARACTERS = "".join(map(chr, range(0x110000)))


@pytest.mark.parametrize("letter", "<skiåωθß文.")
def test_characters_that_are_lower_cased_to_a_letter(letter):
    tokens = SpecialTokens({letter: 7}, lower_characters_first=True)
    found = re.findall(tokens.pattern(letter), CHARACTERS)
    assert found == [x for x in CHARACTERS if x.lower() == letter]


def test_a_token_that_ends_in_a_sigma():
    tokens = SpecialTokens({"aσ": 7}, lower_characters_first=True)
    assert [part.id for part in tokens.split("AΣ aσ")] == [7, None, 7]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("a <SEP> b", [None, 7, None]),
        ("<Sep>", [7]),
        # Lower-casing keeps the long s.
        ("<\N{LATIN SMALL LETTER LONG S}ep>", [None]),
        ("[MASK][mask]", [8, None]),
    ],
)
def test_parts_of_texts(text, ids):
    tokens = SpecialTokens({"<sep>": 7, "[MASK]": 8}, True)
    assert [part.id for part in tokens.split(text)] == ids
    assert "".join(part.text for part in tokens.split(text)) == text
