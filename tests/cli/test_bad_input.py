"""What users get wrong: one line, exit status 2, and nothing lost."""

import pathlib

import pytest

from albert_tf.demo.corpora import python_documents
from albert_tf.pretraining.create_data import create_pretraining_data
from albert_tf.pretraining.data_config import PretrainingDataConfig
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import VocabularyConfig, train_vocabulary


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with text, a vocabulary, records, and files that are none."""
    folder = tmp_path_factory.mktemp("user")
    sentences = [
        sentence + "."
        for _, paragraphs in python_documents([])
        for paragraph in paragraphs
        for sentence in paragraph.split(". ")
    ][:3000]
    (folder / "text.txt").write_text("\n".join(sentences), "utf-8")
    (folder / "empty.txt").write_text("")
    (folder / "config.json").write_text("{not json")
    model = train_vocabulary(
        sentences, folder / "spiece", VocabularyConfig(vocab_size=400)
    )
    _write_without_mask(model.read_bytes(), folder / "no_mask.model")
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n")
    create_pretraining_data(
        PretrainingDataConfig(
            input=str(folder / "text.txt"),
            output=folder / "data",
            tokenizer=AlbertTokenizer.from_file(model),
            max_seq_length=32,
            max_predictions_per_seq=5,
            dupe_factor=1,
        )
    )
    return folder


def _write_without_mask(model: bytes, path: pathlib.Path):
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    (piece,) = (p for p in proto.pieces if p.piece == "[MASK]")
    piece.piece = "[MUSK]"
    path.write_bytes(proto.SerializeToString())


CREATE = "create-data --spm_model_file=spiece.model --output=new"
PRETRAIN = (
    "pretrain --output=new --config=albert_mini --num_train_steps=1 "
    "--train_batch_size=2 "
)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (f"{CREATE} --input=absent.txt", "absent.txt"),
        (f"{CREATE} --input=empty.txt", "empty.txt"),
        (
            "create-data --input=text.txt --output=new "
            "--spm_model_file=no_mask.model",
            "[MASK]",
        ),
        (
            "create-data --input=text.txt --output=new "
            "--spm_model_file=text.txt",
            "text.txt",
        ),
        (
            "create-data --input=text.txt --output=new "
            "--spm_model_file=vocab.txt --digit_comma=google",
            "digit_comma='google' is for SentencePiece",
        ),
        (
            "create-data --input=text.txt --spm_model_file=spiece.model "
            "--output=data",
            "data",
        ),
        (
            "train-vocab --input=text.txt --output=new --vocab_size=90000",
            "90000",
        ),
        (f"{PRETRAIN} --input=absent", "absent"),
        (f"{PRETRAIN} --input=text.txt", "text.txt"),
        (f"{PRETRAIN} --input=data --config=config.json", "not JSON"),
        (f"{PRETRAIN} --input=data --config=albert_hug", "albert_hug"),
        (f"{PRETRAIN} --input=data", "400 pieces"),
        (
            f"{PRETRAIN} --input=data --config_overrides=vocab_size=400,"
            "max_position_embeddings=16",
            "32 tokens",
        ),
        (f"{PRETRAIN} --input=data --config_overrides=vocab=400", "vocab=400"),
        ("export --model=data --output=new", "data"),
        ("analyze run data --output=curves.png", "data"),
    ],
)
def test_one_line_and_status_2(albert, folder, command, message):
    before = sorted(folder.rglob("*"))
    result = albert(folder, command)
    assert result.returncode == 2, result.stderr
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("albert: ")
    assert message in lines[0]
    assert "Traceback" not in result.stderr
    assert sorted(folder.rglob("*")) == before
