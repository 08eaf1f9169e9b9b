import gzip
import itertools
import json
import pathlib
import sys

import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.export.preprocessor import export_preprocessor
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.tokenizer_files import HUGGING_FACE_SLOW


@pytest.mark.long
def test_plain_tensorflow(
    consumer, tokenizer_model, preprocessor_expectations, tmp_path
):
    arguments = []
    for name, options in {
        "default": {},
        "cased": {
            "do_lower_case": False,
            "strip_accents": False,
            "digit_comma": "corrected",
        },
        "hugging_face": HUGGING_FACE_SLOW,
    }.items():
        path, expected = tmp_path / name, tmp_path / f"{name}.json"
        export_preprocessor(tokenizer_model, path, seq_length=20, **options)
        expected.write_text(
            json.dumps(preprocessor_expectations(tokenizer_model, **options))
        )
        arguments += [path, expected]
    consumer("preprocessor_in_tensorflow.py", tmp_path / "new", *arguments)


def test_real_vocabulary_and_text(shared, tmp_path):
    model = shared("data", "sentencepiece-30k-clean", "30k-clean.model")
    export_preprocessor(model, tmp_path / "p")
    loaded = tf.saved_model.load(tmp_path / "p")
    for language in ("en", "zh"):
        path = shared("data", f"wikipedia-{language}", "train.txt.gz")
        with gzip.open(path, "rt", encoding="utf-8") as file:
            texts = [line.rstrip("\n") for line in itertools.islice(file, 2000)]
        expected = AlbertTokenizer.from_file(model).encode(texts)
        assert loaded.tokenize(tf.constant(texts)).to_list() == expected
        assert sum(map(len, expected)) > 10_000


def test_wordpiece(tmp_path):
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"aegmodvi"]
    pieces += [f"##{c}" for c in "aegmodvi"] + ["中", ",", "good", "##ie"]
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join(pieces), "utf-8")
    export_preprocessor(vocabulary, tmp_path / "p", seq_length=9)
    loaded = tf.saved_model.load(tmp_path / "p")
    asset = pathlib.Path(loaded.vocab_file.asset_path.numpy().decode())
    assert asset.read_bytes() == vocabulary.read_bytes()
    tokenizer = AlbertTokenizer.from_file(vocabulary)
    texts = ["A good Movie, 中中", "É!", ""]
    expected = tokenizer(texts, max_length=9, padding="max_length")
    for name, values in loaded(tf.constant(texts)).items():
        assert (values.numpy() == expected[name]).all()
    ids = loaded.tokenize(tf.constant(texts)).to_list()
    assert ids == tokenizer.encode(texts)


def test_wordpiece_that_no_graph_can_do(tmp_path):
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n")
    settings = {"rules": "hugging_face", "do_lower_case": False}
    with pytest.raises(InputError, match="which a graph cannot"):
        export_preprocessor(vocabulary, tmp_path / "p", **settings)
    assert not (tmp_path / "p").exists()


def test_manifest_and_no_path_of_this_machine(
    preprocessor_path, tokenizer_model
):
    manifest = json.loads((preprocessor_path / "export.json").read_text())
    assert manifest["kind"] == "preprocessor"
    assert manifest["seq_length"] == 20
    assert manifest["tokenizer"] == {
        "file": "spiece.model",
        "do_lower_case": True,
        "strip_accents": True,
        "replace_latex_quotes": False,
        "lower_characters_first": False,
        "digit_comma": "google",
        "match_special_tokens": False,
        "cut_at_user_defined_pieces": False,
        "fingerprint": AlbertTokenizer.from_file(tokenizer_model).fingerprint,
    }
    repository = pathlib.Path(__file__).resolve().parents[2]
    for file in preprocessor_path.rglob("*"):
        for private in (repository, tokenizer_model.parent, sys.prefix):
            if file.is_file():
                assert str(private).encode() not in file.read_bytes(), file


def test_bad_input_is_refused_and_leaves_nothing(tmp_path, tokenizer_model):
    with pytest.raises(InputError, match=r"missing\.model"):
        export_preprocessor(tmp_path / "missing.model", tmp_path / "p")
    with pytest.raises(InputError, match="seq_length=2 must be at least 3"):
        export_preprocessor(tokenizer_model, tmp_path / "p", seq_length=2)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "p").mkdir()
    with pytest.raises(InputError, match="exists"):
        export_preprocessor(tokenizer_model, tmp_path / "p")
