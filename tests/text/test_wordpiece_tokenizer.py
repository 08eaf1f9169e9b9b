import json

import pytest

from albert_tf.errors import InputError
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.wordpiece_tokenizer import (
    AlbertWordPieceTokenizer,
    is_wordpiece,
    read_pieces,
)

PIECES = [
    *("[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *("un", "##aff", "##able", "中", "文", "!", "é", "e", "[", "]", "mask"),
]


@pytest.fixture(scope="module")
def vocab(tmp_path_factory):
    path = tmp_path_factory.mktemp("wordpiece") / "any.name"
    path.write_text("\n".join(PIECES), "utf-8")
    return path


@pytest.fixture(scope="module")
def tokenizer(vocab):
    return AlbertTokenizer.from_file(vocab)


def test_golden_pieces(wordpiece_golden):
    """What transformers 4 and the original's code make of texts."""
    path = wordpiece_golden / "vocab.txt"
    golden = json.loads((wordpiece_golden / "golden.json").read_text())
    assert len(golden["tokenizers"]) == 7
    pieces = path.read_text("utf-8").splitlines()
    for case in golden["tokenizers"]:
        expected = [row.split(" ") if row else [] for row in case.pop("pieces")]
        tokenizer = AlbertWordPieceTokenizer.from_file(
            path, match_special_tokens=case["rules"] == "hugging_face", **case
        )
        found = [tokenizer.tokenize(text) for text in golden["texts"]]
        assert found == expected
        assert tokenizer.encode(golden["texts"]) == [
            [pieces.index(piece) for piece in row] for row in expected
        ]


def test_format_is_detected_from_the_content(tokenizer, vocab):
    assert isinstance(tokenizer, AlbertWordPieceTokenizer)
    assert tokenizer.vocab_size == len(PIECES)
    assert [tokenizer.id_to_piece(i) for i in range(len(PIECES))] == PIECES
    ids = [
        getattr(tokenizer, f"{name}_id")
        for name in ("pad", "unk", "cls", "sep", "mask")
    ]
    assert ids == [0, 2, 3, 4, 5]
    assert tokenizer.model_bytes == vocab.read_bytes()
    assert tokenizer.settings == {
        "do_lower_case": True,
        "strip_accents": None,
        "tokenize_chinese_chars": True,
        "rules": "google",
        "match_special_tokens": False,
    }


def test_settings_of_the_other_tokenizer(vocab):
    with pytest.raises(InputError, match="digit_comma='off' is not a setting"):
        AlbertTokenizer.from_file(vocab, digit_comma="off")


def test_pieces_with_their_sources(tokenizer, sources):
    text = "Unaffable中文 x\u200dy! E\u0301"
    tokens = tokenizer.tokenize_with_offsets(text)
    assert sources(tokenizer, text) == [
        *[("un", "Un"), ("##aff", "aff"), ("##able", "able")],
        *[("中", "中"), ("文", "文"), ("[UNK]", "x\u200dy"), ("!", "!")],
        ("e", "E\u0301"),
    ]
    assert [t.id for t in tokens] == tokenizer.encode(text)
    assert tokenizer.tokenize(text) == [t.piece for t in tokens]


def test_offsets_of_a_word_that_is_too_long(tokenizer):
    text = f"un {'un' * 101} un"
    places = [token[2:] for token in tokenizer.tokenize_with_offsets(text)]
    assert places == [(0, 2), (3, 205), (206, 208)]


def test_special_tokens(tokenizer, vocab):
    text = "un[MASK] [mask]"
    assert tokenizer.tokenize(text) == [
        *("un", "[", "mask", "]", "[", "mask", "]")
    ]
    matching = AlbertTokenizer.from_file(vocab, match_special_tokens=True)
    tokens = matching.tokenize_with_offsets(text)
    assert [(t.piece, t.start, t.end) for t in tokens] == [
        *[("un", 0, 2), ("[MASK]", 2, 8)],
        *[("[", 9, 10), ("mask", 10, 14), ("]", 14, 15)],
    ]
    assert matching.encode(["", text])[1] == [t.id for t in tokens]


def test_decode(tokenizer):
    text = "[CLS] unaffable 中 文 [UNK]"
    ids = [3, *tokenizer.encode("unaffable中文 xyz"), 4, 0]
    assert tokenizer.decode(ids) == text.removeprefix("[CLS] ")
    with pytest.raises(ValueError, match=r"id=.* must be in \[0, 17\)"):
        tokenizer.decode([17])


def test_representation(tokenizer):
    assert repr(tokenizer).startswith(
        "AlbertWordPieceTokenizer(vocab_size=17, do_lo"
    )


def test_long_texts_have_the_tokens_of_their_lines(tokenizer):
    line, count = "unaffable\tun 中文 xyz\n", 5000
    tokens = tokenizer.tokenize_with_offsets(line * count)
    starts = [token.start // len(line) * len(line) for token in tokens]
    shifted = [
        token._replace(start=token.start - start, end=token.end - start)
        for token, start in zip(tokens, starts, strict=True)
    ]
    assert shifted == tokenizer.tokenize_with_offsets(line) * count
    ids = [token.id for token in tokens]
    assert tokenizer.encode([line * count, "un"]) == [ids, [6]]
    assert tokenizer.encode(line * count, max_length=7) == ids[:7]


SPECIAL = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"


@pytest.mark.parametrize(
    ("content", "pieces"),
    [
        (SPECIAL + b"a\n##b\n", ["a", "##b"]),
        (SPECIAL + b"a\n##b", ["a", "##b"]),
        (SPECIAL + b"a\n b\n", ["a", " b"]),
        (b"\xef\xbb\xbf" + SPECIAL + b"a\n", ["a"]),
        (SPECIAL.replace(b"\n", b"\r\n") + b"a\r\n", ["a"]),
        (SPECIAL + "\u2028\n".encode(), ["\u2028"]),
    ],
)
def test_one_piece_per_line(content, pieces):
    assert is_wordpiece(content)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert read_pieces(content, "vocab.txt") == [*special, *pieces]


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"<pad>\t0\n[CLS]\t0\n", b"[PAD]\n\xff\n"]
)
def test_files_that_are_not_wordpiece(content):
    assert not is_wordpiece(content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[PAD]\n[UNK]\n", r"^here: .*\[CLS\] \[MASK\] \[SEP\]; .*vocab.txt"),
        (SPECIAL + b"\xff", "byte 31 is not UTF-8"),
        (SPECIAL + b"a\n\nb\n", "^here:7: the line is empty"),
        (SPECIAL + b"a\nb\na\n", "^here:8: 'a' is already on line 6"),
        (SPECIAL + b"[MASK]\n", r"'\[MASK\]' is already on line 5"),
        (SPECIAL + b"a" * 3000, "^here:6: the line is longer than 2,048 bytes"),
        (SPECIAL + b"\n" * (1 << 22), "4,194,309 lines"),
    ],
)
def test_invalid_vocabularies(content, message):
    with pytest.raises(InputError, match=message) as raised:
        read_pieces(content, "here")
    assert "\n" not in str(raised.value)
