import json

import pytest

from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import VocabularyConfig, train_vocabulary
from albert_tf.text.vocabulary_report import (
    PieceCounts,
    measure_vocabulary,
    script_of,
)
from albert_tf.text.wordpiece_tokenizer import AlbertWordPieceTokenizer


@pytest.fixture(scope="module")
def tokenizer():
    pieces = "[PAD] [UNK] [CLS] [SEP] [MASK] the cat ##s 中 . д ##а".split()
    return AlbertWordPieceTokenizer("\n".join(pieces).encode())


def test_counts(tokenizer):
    report = measure_vocabulary(
        tokenizer, {"a": ["The cats.", "中中 xyz"], "b": ["Да 5"], "c": []}
    )
    first = PieceCounts(
        sentences=2,
        words=6,
        characters=13,
        pieces=7,
        unknown_pieces=1,
        unknown_characters=3,
    )
    second = PieceCounts(
        sentences=1,
        words=2,
        characters=3,
        pieces=3,
        unknown_pieces=1,
        unknown_characters=1,
    )
    assert report.by_source == {"a": first, "b": second, "c": PieceCounts()}
    assert report.total == first + second
    assert report.by_script.keys() == {"Latin", "Cyrillic"}
    assert report.by_script["Cyrillic"] == second
    assert first.fertility == 7 / 6
    assert first.unknown_rate == 1 / 7
    assert first.unknown_character_rate == 3 / 13
    assert first.characters_per_piece == 13 / 7
    assert report.used_pieces == 8
    assert report.vocabulary_use == 8 / 12
    values = json.loads(json.dumps(report.to_json()))
    assert values["by_source"]["a"]["fertility"] == 7 / 6
    table = report.table()
    for shown in ("Latin", "Cyrillic", "14.286%", "1.17", "8 of 12 pieces"):
        assert shown in table


def test_no_text(tokenizer):
    report = measure_vocabulary(tokenizer, {})
    assert report.total.fertility == report.total.unknown_rate == 0
    assert "0 of 12 pieces" in report.table()


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("Hello, 世界", "Latin"),
        ("язык", "Cyrillic"),
        ("语言 a", "Chinese"),
        ("日本語のテキスト", "Kana"),
        ("שפה", "Hebrew"),
        ("ﾊﾝｶｸ", "Kana"),
        ("Ｆｕｌｌ", "Latin"),
        ("12, 3.5 …", "none"),
        ("", "none"),
        ("\U0010ffff\x00", "none"),
    ],
)
def test_script(text, script):
    assert script_of(text) == script


@pytest.mark.parametrize("model_type", ["unigram", "bpe", "wordpiece"])
def test_unknown_characters_of_every_kind_of_vocabulary(
    sentences, tmp_path, model_type
):
    english = sentences("en", 500)
    path = train_vocabulary(
        english,
        tmp_path / "x",
        VocabularyConfig(vocab_size=500, model_type=model_type),
    )
    tokenizer = AlbertTokenizer.from_file(path)
    report = measure_vocabulary(
        tokenizer, {"en": english, "zh": sentences("zh", 100)}
    )
    assert report.by_source["en"].unknown_character_rate < 0.01
    assert 1.5 < report.by_source["en"].fertility < 3
    assert 0.5 < report.by_source["zh"].unknown_character_rate <= 1
    assert report.by_script["Chinese"].unknown_rate > 0.3
