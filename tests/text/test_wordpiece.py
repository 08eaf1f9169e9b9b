import pytest

from albert_tf.errors import InputError
from albert_tf.text.wordpiece import WordPieces, is_wordpiece, read_pieces

SPECIAL = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"


@pytest.mark.parametrize(
    ("content", "pieces"),
    [
        (SPECIAL + b"a\n##b\n", ["a", "##b"]),
        (SPECIAL + b"a\n##b", ["a", "##b"]),
        (SPECIAL + b"a\n\n b\n", ["a", "", " b"]),
        (b"\xef\xbb\xbf" + SPECIAL + b"a\n", ["a"]),
        (SPECIAL.replace(b"\n", b"\r\n") + b"a\r\n", ["a"]),
        (SPECIAL + "\u2028\n".encode(), ["\u2028"]),
    ],
)
def test_a_piece_a_line(content, pieces):
    assert is_wordpiece(content)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert read_pieces(content, "vocab.txt") == [*special, *pieces]


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"<pad>\t0\n[CLS]\t0\n", b"[PAD]\n\xff\n"]
)
def test_what_is_none(content):
    assert not is_wordpiece(content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[PAD]\n[UNK]\n", r"no line \[CLS\] \[MASK\] \[SEP\]; .*vocab.txt"),
        (SPECIAL + b"\xff", "byte 31 is no UTF-8"),
    ],
)
def test_says_what_is_wrong(content, message):
    with pytest.raises(InputError, match=f"^here: .*{message}") as raised:
        read_pieces(content, "here")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("word", "ids"),
    [
        ("unaffable", (1, 2, 3)),
        ("unwanted", (4, 5, 6)),
        ("able", (0,)),  # it only continues words
        ("unx", (0,)),
        ("x", (0,)),
        ("un", (1,)),
        ("twice", (9,)),
    ],
)
def test_longest_match(word, ids):
    pieces = ["[UNK]", "un", "##aff", "##able", "unw", "##ant", "##ed", ""]
    assert WordPieces([*pieces, "twice", "twice"], 0, 20)(word) == ids


def test_long_words_are_unknown():
    pieces = WordPieces(["[UNK]", "a", "##a"], 0, 5)
    assert pieces("a" * 5) == (1, 2, 2, 2, 2)
    assert pieces("a" * 6) == (0,)
    assert pieces("a" * 5) == (1, 2, 2, 2, 2)
