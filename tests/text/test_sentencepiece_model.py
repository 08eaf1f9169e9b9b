import io
import struct

import pytest
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from albert_tf.errors import InputError
from albert_tf.text.sentencepiece_model import (
    check_model,
    split_digit_commas,
    words_are_independent,
)
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary_file import MAX_PIECES


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty file"),
        (
            b"version https://git-lfs.github.com/spec/v1\nsize 760289\n",
            "Git LFS pointer.*git lfs pull",
        ),
        (b"\n<!DOCTYPE html>\n<html>", "web page"),
        (b'{"version": "1.0"}', "JSON"),
        (b"[PAD]\n[unused1]\n[UNK]\n[CLS]\n", r"no line \[MASK\] \[SEP\]"),
        (b"<pad>\t0\n<unk>\t0\n", "text listing.*give the .model file"),
        (b"\x00" * 99, "not a SentencePiece model"),
        (b"hello", "not a SentencePiece model"),
    ],
)
def test_errors_describe_files_that_are_not_models(tmp_path, content, message):
    path = tmp_path / "spiece.model"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as raised:
        AlbertTokenizer.from_file(path)
    assert str(raised.value).startswith(f"{path}: ")
    assert "\n" not in str(raised.value)


@pytest.fixture
def changed(comma_model):
    """Returns `changed(edit)`: a model's bytes after an edit of its message."""

    def make(edit):
        model = sentencepiece_model_pb2.ModelProto.FromString(
            comma_model.read_bytes()
        )
        edit(model)
        return model.SerializeToString()

    return make


def adds(piece, score=-1.0, **others):
    """Returns an edit that adds a piece."""
    return lambda model: model.pieces.add(piece=piece, score=score, **others)


def normalizes(name, value):
    """Returns an edit of a field of the normalizer's specification."""
    return lambda model: setattr(model.normalizer_spec, name, value)


# The value of the empty text is at unit 1, which is a node.
UNITS = struct.pack("<258I", 1024, 1 << 10 | 256, 5000, *[0] * 255)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        # These end the process in SentencePiece, or may.
        (adds("x" * 100_000), "piece 51 has 100,009 bytes"),
        (adds("x\0"), "piece 51 has a NUL character"),
        (adds("xyz", float("nan")), "the score of piece 51 is nan"),
        *(
            (normalizes("precompiled_charsmap", x), "charsmap is damaged")
            for x in (
                b"\x04\0\0\0ab",
                b"\x04\0\0\0\xff\xff\xff\x7f\0",
                UNITS[: 4 + 1024] + b"ab\0",
            )
        ),
    ],
)
def test_models_that_crash_sentencepiece_are_rejected(changed, edit, message):
    with pytest.raises(InputError, match=f"^here: .*{message}"):
        AlbertTokenizer(changed(edit), name="here")


def test_pieces_behind_fields_of_another_form_are_rejected(changed):
    group = bytes([0xA3, 0x06, 0xA4, 0x06])  # Field 100, without content.
    with pytest.raises(InputError, match="^here: .*it has unknown fields"):
        AlbertTokenizer(group + changed(adds("x" * 100_000)), name="here")
    with pytest.raises(InputError, match="it has unknown fields"):
        AlbertTokenizer(changed(adds("x")) + group, name="here")


def test_pieces_that_are_not_utf8_or_too_many_are_rejected(comma_model):
    content = comma_model.read_bytes().replace("▁2000,".encode(), b"\xff" * 8)
    with pytest.raises(InputError, match="piece [0-9]+ is not UTF-8"):
        AlbertTokenizer(content)
    content = b"\x0a\x00" * (MAX_PIECES + 1)  # 4 MB, of empty pieces
    with pytest.raises(InputError, match="more than 1,048,576 pieces"):
        AlbertTokenizer(content)


@pytest.mark.parametrize(
    "edit",
    [
        adds("a▁b"),
        adds("a b", type=4),
        lambda m: setattr(m.trainer_spec, "model_type", m.trainer_spec.WORD),
        normalizes("add_dummy_prefix", False),
        normalizes("remove_extra_whitespaces", False),
    ],
)
def test_models_whose_words_are_not_independent(comma_model, changed, edit):
    assert words_are_independent(comma_model.read_bytes())
    assert not words_are_independent(changed(edit))


@pytest.mark.parametrize(
    ("source", "independent"), [("61 62", True), ("61 20 62", False)]
)
def test_charsmaps_that_replace_spaces(tmp_path, source, independent):
    rules = tmp_path / "rules.tsv"
    rules.write_text(f"{source}\t63\n")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["ab c d e", "ba d c e"]),
        model_writer=model,
        vocab_size=9,
        normalization_rule_tsv=str(rules),
        minloglevel=2,
    )
    check_model(model.getvalue())
    assert words_are_independent(model.getvalue()) == independent


def test_truncated_model(tmp_path, clean_model):
    path = tmp_path / "spiece.model"
    path.write_bytes(clean_model.read_bytes()[:400_000])
    with pytest.raises(InputError, match="damaged"):
        AlbertTokenizer.from_file(path)


def test_remote_paths_are_read_by_tensorflow(comma_model):
    tokenizer = AlbertTokenizer.from_file(f"file://{comma_model}")
    assert tokenizer.model_bytes == comma_model.read_bytes()
    with pytest.raises(InputError, match="file://.*absent: cannot be read"):
        AlbertTokenizer.from_file(f"file://{comma_model}.absent")


@pytest.mark.parametrize("missing", [["[MASK]"], ["<pad>"], ["[CLS]", "[SEP]"]])
def test_errors_name_missing_special_pieces(changed, missing):
    def rename(model):
        for piece in model.pieces:
            if piece.piece in missing:
                piece.piece = f"other{piece.piece}"

    with pytest.raises(InputError) as raised:
        AlbertTokenizer(changed(rename))
    assert f"has no piece {' '.join(missing)};" in str(raised.value)


def encode_pieces(processor, text, remove_mark):
    """What google-research/albert does, piece by piece.

    With `remove_mark` its dead branch lives, as in Hugging Face's tokenizer.
    """
    result = []
    for piece in processor.encode(text, out_type=str):
        if len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit():
            again = processor.encode(piece[:-1].replace("▁", ""), out_type=str)
            if remove_mark and piece[0] != "▁" and again[0][0] == "▁":
                if len(again[0]) == 1:
                    again = again[1:]
                else:
                    again[0] = again[0][1:]
            result += [*again, piece[-1]]
        else:
            result.append(piece)
    return result


TEXTS = [
    f"{a}{b}{c}"
    for a in ("", "a", "b ", "2000,", "a34", "0,1,", "٢", "x1,")
    for b in ("2,", "00,", "34,", "x1,", "y3,", "٢,", " a٣,", "a,", ",,", "–")
    for c in ("", "b", " 2000, 1,", "2,2,2", " x,y,")
]


@pytest.mark.parametrize("rule", ["google", "corrected", "off"])
def test_rules_equal_the_original_implementations(comma_model, rule):
    processor = sentencepiece.SentencePieceProcessor(str(comma_model))
    tokenizer = AlbertTokenizer.from_file(comma_model, digit_comma=rule)
    assert bool(tokenizer.splits) == (rule != "off")
    for text in TEXTS:
        normalized = tokenizer.normalizer(text)
        if rule == "off":
            pieces = processor.encode(normalized, out_type=str)
        else:
            pieces = encode_pieces(processor, normalized, rule == "corrected")
        assert tokenizer.tokenize(text) == pieces
        assert tokenizer.encode(text) == [
            processor.piece_to_id(piece) for piece in pieces
        ]


def test_rules_agree_on_the_released_vocabulary(clean_model):
    processor = sentencepiece.SentencePieceProcessor(str(clean_model))
    google = split_digit_commas(processor, "google")
    assert len(google) == 141
    assert google == split_digit_commas(processor, "corrected")


def test_piece_that_loses_its_mark_may_be_unknown(clean_model):
    # As Hugging Face's: what the rule spells is looked up, not segmented.
    class Processor(sentencepiece.SentencePieceProcessor):
        def get_piece_size(self):
            return 1

        def id_to_piece(self, piece_id):
            return "eloquent1,"

    processor = Processor(str(clean_model))
    (split,) = split_digit_commas(processor, "corrected").values()
    assert [part.piece for part in split] == ["eloquent", "1", ","]
    assert [part.id for part in split] == [processor.unk_id(), 165, 15]
