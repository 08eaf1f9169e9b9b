import pytest
from sentencepiece import sentencepiece_model_pb2

from albert_tf.errors import InputError
from albert_tf.text.tokenizer import AlbertTokenizer


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
def test_says_what_the_file_is_instead(tmp_path, content, message):
    path = tmp_path / "spiece.model"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as raised:
        AlbertTokenizer.from_file(path)
    assert str(raised.value).startswith(f"{path}: ")
    assert "\n" not in str(raised.value)


def test_truncated_model(tmp_path, clean_model):
    path = tmp_path / "spiece.model"
    path.write_bytes(clean_model.read_bytes()[:400_000])
    with pytest.raises(InputError, match="damaged"):
        AlbertTokenizer.from_file(path)


def test_absent_file_and_folder(tmp_path):
    with pytest.raises(InputError, match="nothing.model: cannot be read: No"):
        AlbertTokenizer.from_file(tmp_path / "nothing.model")
    with pytest.raises(InputError, match="a folder"):
        AlbertTokenizer.from_file(tmp_path)


def test_remote_paths_are_read_by_tensorflow(comma_model):
    tokenizer = AlbertTokenizer.from_file(f"file://{comma_model}")
    assert tokenizer.model_bytes == comma_model.read_bytes()
    with pytest.raises(InputError, match="file://.*absent: cannot be read"):
        AlbertTokenizer.from_file(f"file://{comma_model}.absent")


@pytest.mark.parametrize("missing", [["[MASK]"], ["<pad>"], ["[CLS]", "[SEP]"]])
def test_names_the_special_pieces_that_are_missing(
    tmp_path, comma_model, missing
):
    model = sentencepiece_model_pb2.ModelProto.FromString(
        comma_model.read_bytes()
    )
    for piece in model.pieces:
        if piece.piece in missing:
            piece.piece = f"other{piece.piece}"
    path = tmp_path / "other.model"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(InputError) as raised:
        AlbertTokenizer.from_file(path)
    assert f"has no piece {' '.join(missing)};" in str(raised.value)
