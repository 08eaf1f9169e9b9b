import itertools

import pytest

from albert_tf.text.word_splitter import WordSplitter

OPTIONS = [
    {"do_lower_case": lower, "strip_accents": strip, "rules": rules}
    for lower, strip, rules in itertools.product(
        (True, False), (None, True, False), ("google", "hugging_face")
    )
] + [{"tokenize_chinese_chars": False}]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" \t\r\n\xa0\u3000\u2028", []),
        ("Hello, world!", ["hello", ",", "world", "!"]),
        ("don't", ["don", "'", "t"]),
        ("x^2=`$5`", ["x", "^", "2", "=", "`", "$", "5", "`"]),
        ("«q»…", ["«", "q", "»", "…"]),
        ("5€ ©", ["5€", "©"]),  # symbols beyond ASCII are no punctuation
        ("ah北京a", ["ah", "北", "京", "a"]),
        ("カタカナ", ["カタカナ"]),
        ("Café a\u0323x", ["cafe", "ax"]),
        ("\u0301 x", ["x"]),
        # Control and format characters do not part words, not even U+001C.
        ("a\x00b\x1cc\x85d\u200be\u00adf\ufffdg", ["abcdefg"]),
        ("a\tb\u2029c", ["a", "b", "c"]),
        ("한", ["\u1112\u1161\u11ab"]),
        ("豈", ["\u8c48"]),
        ("\ud800a", ["a"]),
    ],
)
def test_words(text, words):
    assert WordSplitter()(text) == words


def test_accents_are_stripped_if_lower_casing():
    text = "É e\u0301"
    assert WordSplitter()(text) == ["e", "e"]
    assert WordSplitter(do_lower_case=False)(text) == ["É", "e\u0301"]
    assert WordSplitter(strip_accents=False)(text) == ["é", "e\u0301"]
    assert WordSplitter(False, True)(text) == ["E", "e"]


def test_ideographs_may_stay_together():
    assert WordSplitter(tokenize_chinese_chars=False)("北京a") == ["北京a"]


def test_rules():
    google, face = WordSplitter(), WordSplitter(rules="hugging_face")
    assert google("ΑΣ") == ["ας"]
    assert face("ΑΣ") == ["ασ"]
    assert google("a\ue000\u0378") == ["a\ue000\u0378"]
    assert face("a\ue000\u0378") == ["a"]
    cased = WordSplitter(do_lower_case=False, rules="hugging_face")
    assert cased("e\u0301") == ["é"]
    with pytest.raises(ValueError, match="rules='bert' must be "):
        WordSplitter(rules="bert")


@pytest.mark.parametrize("options", OPTIONS)
def test_alignment_finds_the_same_words(
    odd_texts, special_texts, marked_texts, options, each
):
    splitter = WordSplitter(**options)
    texts = [*odd_texts[:9], *odd_texts[9::each], *marked_texts[::each]]
    for text in [*texts, *special_texts[:2000:each]]:
        words = splitter.align(text)
        assert [word.text for word in words] == splitter(text), ascii(text)
        for word in words:
            assert len(word.text) == len(word.starts) == len(word.ends)
            for start, limit in zip(word.starts, word.ends, strict=True):
                assert 0 <= start < limit <= len(text)


def test_alignment_of_characters():
    text = "\u200b É\u200de\u0301\u200d! 中ﬃ 한"
    words = WordSplitter().align(text)
    assert [word.text for word in words] == [
        *("ee", "!", "中", "ﬃ", "\u1112\u1161\u11ab")
    ]
    sources = [
        [text[s:e] for s, e in zip(w.starts, w.ends, strict=True)]
        for w in words
    ]
    assert sources == [
        ["É\u200d", "e\u0301\u200d"],
        ["!"],
        ["中"],
        ["ﬃ"],
        ["한", "한", "한"],
    ]
    # What composes comes from all of it.
    splitter = WordSplitter(do_lower_case=False, rules="hugging_face")
    assert splitter.align("xe\u200d\u0301y")[0] == (
        *("xéy", [0, 1, 4], [1, 4, 5]),
    )
