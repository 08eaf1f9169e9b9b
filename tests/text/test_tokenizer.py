import concurrent.futures
import itertools
import json
import multiprocessing
import pickle
import subprocess
import sys

import numpy as np
import pytest
from sentencepiece import sentencepiece_model_pb2

from albert_tf.errors import InputError
from albert_tf.text.preprocessor import GraphPreprocessor
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.tokenizer_config import HUGGING_FACE_SLOW
from albert_tf.text.tokenizer_files import load_tokenizer
from albert_tf.text.tokens import (
    LONGEST_RUN,
    LONGEST_SEGMENT,
    SEGMENT_LENGTH,
    segments,
)


@pytest.fixture(scope="module")
def tokenizer(clean_model):
    return AlbertTokenizer.from_file(clean_model)


@pytest.fixture(scope="module")
def slow(clean_model):
    """With the settings of Hugging Face's slow tokenizer."""
    return AlbertTokenizer.from_file(clean_model, **HUGGING_FACE_SLOW)


@pytest.fixture(scope="module")
def cutting(clean_model):
    return AlbertTokenizer.from_file(
        clean_model, cut_at_user_defined_pieces=True
    )


@pytest.fixture(scope="module")
def golden(shared):
    path = shared("golden", "google", "tokenization", "tokenization.json")
    return json.loads(path.read_text())


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({}, "ids"),
        ({"do_lower_case": False}, "cased_ids"),
        # On this vocabulary the rules agree (test_sentencepiece_model.py).
        ({"digit_comma": "corrected"}, "ids"),
        (HUGGING_FACE_SLOW, "hf_slow_ids"),
    ],
)
def test_golden_ids(clean_model, golden, settings, name):
    tokenizer = AlbertTokenizer.from_file(clean_model, **settings)
    texts, expected = ([case[x] for case in golden] for x in ("text", name))
    assert tokenizer.encode(texts) == expected
    assert [tokenizer.encode(text) for text in texts] == expected
    if name == "ids":
        assert [tokenizer.tokenize(text) for text in texts] == [
            case["pieces"] for case in golden
        ]


def test_published_ids(tokenizer, slow, clean_model, shared):
    path = shared("data", "oracles", "tokenization_vectors.json")
    vectors = json.loads(path.read_text())
    with_accents = {
        settings["digit_comma"]: AlbertTokenizer.from_file(
            clean_model, **{**settings, "strip_accents": False}
        )
        for settings in (tokenizer.settings, HUGGING_FACE_SLOW)
    }
    assert tokenizer.fingerprint == vectors["sha256"]
    for case in vectors["published"]:
        keeps = "keep_accents=True" in case["note"]
        for plain in (tokenizer, slow):
            chosen = with_accents[plain.digit_comma] if keeps else plain
            assert chosen.encode(case["text"]) == case["ids"]
    # These were derived with quotes replaced, but special tokens as text.
    without_specials = AlbertTokenizer.from_file(
        clean_model, **{**HUGGING_FACE_SLOW, "match_special_tokens": False}
    )
    for case in vectors["derived_here_sentencepiece_0_2"]:
        assert without_specials.encode(case["text"]) == case["ids"]
        if "``" not in case["text"]:
            assert tokenizer.encode(case["text"]) == case["ids"]
    case = vectors["mask_case"]
    ids = slow(case["text"])
    assert ids["input_word_ids"].tolist() == [[2, 1289, 5123, 29, 4, 13, 9, 3]]


def test_padding_and_truncation(tokenizer):
    texts = ["This is a test", "x", ""]
    longest = tokenizer(texts)
    assert longest["input_word_ids"].tolist() == [
        [2, 48, 25, 21, 1289, 3],
        [2, 993, 3, 0, 0, 0],
        [2, 3, 0, 0, 0, 0],
    ]
    assert tokenizer(texts, max_length=5)["input_word_ids"].tolist()[0] == [
        *[2, 48, 25, 21, 3]
    ]
    full = tokenizer(texts, max_length=16, padding="max_length")
    assert full["input_mask"].shape == (3, 16)
    assert full["input_mask"].sum(1).tolist() == [6, 3, 2]
    assert tokenizer([])["input_word_ids"].shape[0] == 0


def test_the_length_of_the_model_is_the_default(tokenizer):
    text = "a test " * 400
    assert tokenizer(text)["input_mask"].shape == (1, 512)
    short = tokenizer.with_max_length(6)
    for same in (
        short,
        pickle.loads(pickle.dumps(short)),
        short.with_settings(match_special_tokens=True),
    ):
        assert same.model_max_length == 6
        rows = same(text)["input_word_ids"]
        assert rows.tolist() == [[2, 21, 1289, 21, 1289, 3]]
        assert same(text, max_length=9)["input_mask"].shape == (1, 9)
        # Rows are not padded to it.
        assert same("a")["input_mask"].shape == (1, 3)
    assert tokenizer.model_max_length == 512


def test_arguments_of_hugging_face(tokenizer):
    texts, pairs = ["This is a test", "x"], ["a", "a test"]
    expected = tokenizer(texts, pairs)
    for arguments in (
        {"padding": True, "truncation": True, "return_tensors": "np"},
        {"truncation": "longest_first", "return_tensors": None},
        {"truncation": False, "max_length": 3},
    ):
        found = tokenizer(texts, pairs, **arguments)
        for name, values in expected.items():
            assert values.tolist() == found[name].tolist()
    tensorflow = pytest.importorskip("tensorflow")
    found = tokenizer(texts, pairs, return_tensors="tf")
    for name, values in expected.items():
        assert isinstance(found[name], tensorflow.Tensor)
        assert found[name].dtype == "int32"
        assert found[name].numpy().tolist() == values.tolist()
    long = tokenizer("a " * 600, truncation=False)
    assert long["input_mask"].shape == (1, 602)
    with pytest.raises(ValueError, match="602 tokens, more than .*=512"):
        tokenizer("a " * 600, truncation=False, padding="max_length")


@pytest.mark.peer
def test_tensors_of_pytorch(tokenizer):
    torch = pytest.importorskip("torch")
    rows = tokenizer(["a test"], return_tensors="pt")
    for name, values in tokenizer(["a test"]).items():
        assert rows[name].dtype == torch.int64
        assert rows[name].tolist() == values.tolist()


def test_save_pretrained(tokenizer, comma_model, tmp_path):
    folder = tmp_path / "new" / "folder"
    changed = tokenizer.with_settings(do_lower_case=False).with_max_length(64)
    changed.save_pretrained(folder)
    loaded = AlbertTokenizer.from_pretrained(folder)
    assert loaded.settings == changed.settings
    assert loaded.model_bytes == changed.model_bytes
    assert loaded.model_max_length == 64
    tokenizer.save_pretrained(folder)  # Other settings replace those.
    assert AlbertTokenizer.from_pretrained(folder).settings == (
        tokenizer.settings
    )
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(InputError, match=r"spiece\.model is another vocab"):
        AlbertTokenizer.from_file(comma_model).save_pretrained(folder)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file: cannot be written"):
        tokenizer.save_pretrained(tmp_path / "file")


def test_special_tokens_only_when_asked(tokenizer, slow, clean_model):
    text = "a [MASK] of[SEP] <pad>"
    assert not {0, 2, 3, 4} & set(tokenizer.encode(text))
    matching = AlbertTokenizer.from_file(clean_model, match_special_tokens=True)
    parsed = matching.encode(text)
    assert parsed == [21, 4, 16, 3, 0]
    # Only as they are spelled.
    assert 4 not in matching.encode("[mask]")
    assert matching.encode([text, "a", ""]) == [parsed, [21], []]
    packed = matching("[MASK]", "a<unk>")["input_word_ids"].tolist()
    assert packed == [[2, 4, 3, 21, 1, 3]]
    # Hugging Face lower-cases before it looks for them.
    assert matching.encode("a <PAD>") == tokenizer.encode("a <PAD>")
    assert slow.encode("<PAD> [mask][MASK]")[-1] == 4
    assert slow.encode("<PAD><un\u212a>") == [0, 1]


def test_offsets_of_special_tokens(slow, sources):
    assert sources(slow, "Thé [MASK] ``x''<PAD>") == [
        ("▁the", "Thé"),
        ("[MASK]", "[MASK]"),
        ("▁", ""),
        ('"', "``"),
        ("x", "x"),
        ('"', "''"),
        ("<pad>", "<PAD>"),
    ]


def test_splits_at_user_defined_pieces(tokenizer, cutting, sources):
    text = "A  well-known (thing) – of \u00a35."
    assert tokenizer.tokenize(text) == [
        *["▁a", "▁well", "-", "known", "▁", "(", "th", "ing", ")"],
        *["▁", "–", "▁of", "▁", "£", "5", "."],
    ]
    assert sources(cutting, text) == [
        ("▁a", "A"),
        ("▁well", "  well"),
        ("-", "-"),
        ("▁known", "known"),
        ("(", "("),
        ("▁thing", "thing"),
        (")", ")"),
        ("–", "–"),
        ("▁of", "of"),
        ("£", "£"),
        ("▁5", "5"),
        (".", "."),
    ]
    # Texts are split before normalization.
    assert cutting.tokenize("a…b") == ["▁a", ".", ".", ".", "b"]
    assert cutting.tokenize("( - )") == ["(", "-", ")"]
    # Special tokens match by a setting of their own.
    assert 4 not in cutting.encode("-[MASK]")
    assert cutting.decode(cutting.encode("well-known")) == "well- known"


@pytest.mark.parametrize("name", ["slow", "cutting"])
def test_tokens_with_offsets_have_the_encoded_ids(
    name, request, special_texts, each
):
    slow = request.getfixturevalue(name)
    texts = special_texts[::each]
    for text, ids in zip(texts, slow.encode(texts), strict=True):
        tokens = slow.tokenize_with_offsets(text)
        assert [token.id for token in tokens] == ids
        assert slow.tokenize(text) == [token.piece for token in tokens]
        limit = 0
        for token in tokens:
            assert 0 <= token.start <= token.end <= len(text)
            assert token.end >= limit
            limit = token.end


def test_decode(tokenizer):
    ids = tokenizer.encode("Hello, world (2,000 – £5)!")
    assert tokenizer.decode(np.array(ids)) == "hello, world (2,000 – £5)!"
    assert tokenizer.decode([2, *ids[:2], 4, 3, 0]) == "hello,"
    assert tokenizer.decode([]) == ""
    with pytest.raises(ValueError, match=r"id=30000 must be in \[0, 30000\)"):
        tokenizer.decode([30000])


def test_conversions(tokenizer):
    assert len(tokenizer) == tokenizer.vocab_size == 30000
    pieces = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    assert [tokenizer.id_to_piece(i) for i in range(5)] == pieces
    for number, name in enumerate(("pad", "unk", "cls", "sep", "mask")):
        assert getattr(tokenizer, f"{name}_id") == number
        assert getattr(tokenizer, f"{name}_token_id") == number
        assert getattr(tokenizer, f"{name}_token") == pieces[number]
    vocabulary = tokenizer.get_vocab()
    assert list(vocabulary.values()) == list(range(30000))
    assert vocabulary["▁the"] == tokenizer.convert_tokens_to_ids("▁the") == 14
    assert tokenizer.convert_tokens_to_ids(["[MASK]", "absent"]) == [4, 1]
    ids = np.array([[2, 14, 3], [2, 48, 0]])
    assert tokenizer.convert_ids_to_tokens(ids[0]) == ["[CLS]", "▁the", "[SEP]"]
    assert tokenizer.convert_ids_to_tokens(14) == "▁the"
    assert tokenizer.batch_decode(ids) == ["the", "this"]
    for wrong, error in (([30000], ValueError), ([1.5], TypeError)):
        with pytest.raises(error):
            tokenizer.convert_ids_to_tokens(wrong)
    with pytest.raises(ValueError, match="id=-1 must be in"):
        tokenizer.id_to_piece(-1)


def test_with_settings(tokenizer):
    matching = tokenizer.with_settings(match_special_tokens=True)
    assert matching.encode("a [MASK]") == [21, 4]
    assert matching.settings == {
        **tokenizer.settings,
        "match_special_tokens": True,
    }
    assert tokenizer.with_settings() is tokenizer
    with pytest.raises(InputError, match="rules='google' is not a setting of"):
        tokenizer.with_settings(rules="google")


def test_special_pieces_that_are_user_defined(clean_model, tmp_path):
    """As of `spm_train --user_defined_symbols=[CLS],[SEP],[MASK]`."""
    google = AlbertTokenizer.from_file(clean_model, do_lower_case=False)
    model = sentencepiece_model_pb2.ModelProto.FromString(google.model_bytes)
    for piece in model.pieces[2:5]:
        assert piece.piece in ("[CLS]", "[SEP]", "[MASK]")
        piece.type = piece.USER_DEFINED
    tokenizer = AlbertTokenizer(model.SerializeToString(), do_lower_case=False)
    text = "a [SEP] b [MASK] c"
    assert tokenizer.encode(text) == google.encode(text)
    assert not {2, 3, 4} & set(tokenizer.encode(text))
    matching = tokenizer.with_settings(match_special_tokens=True)
    assert {3, 4} < set(matching.encode(text))
    graph = GraphPreprocessor(tokenizer)
    assert graph.tokenize([text]).to_list() == [google.encode(text)]
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert copy.encode(text) == google.encode(text)
    # What is saved is the file that was given.
    (tmp_path / "spiece.model").write_bytes(model.SerializeToString())
    tokenizer.save_pretrained(tmp_path)
    content = (tmp_path / "spiece.model").read_bytes()
    assert content == model.SerializeToString() == tokenizer.model_bytes
    assert load_tokenizer(tmp_path).encode(text) == google.encode(text)


def test_wrong_settings(clean_model, tmp_path):
    wordpiece = tmp_path / "vocab.txt"
    wordpiece.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n")
    for path in (clean_model, wordpiece):
        tokenizer = AlbertTokenizer.from_file(path)
        for name in ("do_lower_case", "match_special_tokens", "strip_accents"):
            with pytest.raises(InputError, match=f"{name}='false' must be"):
                AlbertTokenizer.from_file(path, **{name: "false"})
            with pytest.raises(InputError, match=f"{name}=1 must be"):
                tokenizer.with_settings(**{name: 1})
        with pytest.raises(InputError, match="case=True is not a setting of"):
            AlbertTokenizer.from_file(path, case=True)
    # As in `VocabularyConfig`.
    found = AlbertTokenizer.from_file(clean_model, strip_accents=None)
    assert found.settings == AlbertTokenizer.from_file(clean_model).settings


def joined(tokens_of, text, length):
    """Returns the tokens of the segments of a text."""
    return [
        token._replace(start=start + token.start, end=start + token.end)
        for part, start, follows_space in segments(text, length)
        for token in tokens_of(part, follows_space)
    ]


def test_segments_have_the_tokens_of_the_whole_text(
    slow, odd_texts, special_texts, quoted_texts, sentences, each
):
    """Segments that end at every space where a long text may be split."""
    tokenizer = slow
    assert tokenizer._segment_length == SEGMENT_LENGTH
    texts = [
        *(" ".join(odd_texts[i : i + 8]) for i in range(0, 3000, 8)),
        *("\n".join(special_texts[i : i + 8]) for i in range(0, 2000, 8)),
        *("x".join(quoted_texts[i : i + 4]) for i in range(0, 1000, 4)),
        *sentences("en", 500),
    ][::each]
    num_segments = 0
    for text in texts:
        whole = list(tokenizer._tokens_plain(text, False))
        assert joined(tokenizer._tokens_plain, text, 0) == whole, ascii(text)
        num_segments += len(list(segments(text, 0)))
    assert num_segments > 5 * len(texts)


def test_long_texts_are_encoded_in_segments(tokenizer, sentences):
    text = " ".join(sentences("en", 3000))
    assert len(text) > 5 * SEGMENT_LENGTH
    ids = tokenizer.encode(text)
    # As one by one, but where two segmentations have the same score up to
    # rounding: 2 ids in 85,871, and 7 if the text is not cut.
    parts = tokenizer.encode(sentences("en", 3000))
    expected = [i for part in parts for i in part]
    different = [a != b for a, b in zip(ids, expected, strict=True)]
    assert sum(different) < len(ids) // 10_000
    tokens = tokenizer.tokenize_with_offsets(text)
    assert [token.id for token in tokens] == ids
    assert all(a.end <= b.end for a, b in itertools.pairwise(tokens))
    assert tokenizer.encode([text, "a"], max_length=9) == [ids[:9], [21]]
    first = tokenizer(text, max_length=8)["input_word_ids"][0, 1:-1]
    assert first.tolist() == ids[:6]
    matching = tokenizer.with_settings(match_special_tokens=True)
    assert matching.encode(f"{text}[MASK] a") == [*ids, 4, 21]
    assert matching.encode(f"{text}[MASK] a", max_length=2) == ids[:2]
    with pytest.raises(InputError, match="max_length=-1 must not be negative"):
        tokenizer.encode(text, max_length=-1)


@pytest.mark.parametrize(
    ("length", "longest"),
    [(SEGMENT_LENGTH, LONGEST_RUN), (LONGEST_SEGMENT, LONGEST_SEGMENT)],
)
def test_a_long_run_without_spaces_is_split(length, longest):
    """SentencePiece takes quadratic time for a run of unknown characters."""
    text = "x" * 2_000_000
    parts = list(segments(text, length))
    assert [x.start for x in parts] == list(range(0, len(text), longest))
    assert "".join(part.text for part in parts) == text


@pytest.mark.parametrize("length", [SEGMENT_LENGTH, LONGEST_SEGMENT])
def test_words_of_a_long_text_are_whole(length):
    text = "words " * 300_000
    parts = list(segments(text, length))
    assert len(parts) > 1
    assert max(len(part.text) for part in parts) <= length + LONGEST_RUN
    for part in parts[:-1]:
        assert part.text.startswith("words ")
        assert part.text.endswith(" words")


def test_offsets(tokenizer, comma_model, sources):
    assert sources(tokenizer, "Cafe\u0301  ﬁne: in 92000, Ünï") == [
        ("▁cafe", "Cafe\u0301"),
        ("▁fine", "  ﬁne"),
        (":", ":"),
        ("▁in", " in"),
        ("▁9", " 9"),
        ("2000", "2000"),
        (",", ","),
        ("▁uni", " Ünï"),
    ]
    commas = AlbertTokenizer.from_file(comma_model)
    spans = [t[2:] for t in commas.tokenize_with_offsets("a34, １，")]
    # ▁ a ▁ 34 , ▁ 1 , (google's rule adds the second mark, without text).
    assert spans == [
        *[(0, 0), (0, 1), (1, 1), (1, 3), (3, 4)],
        *[(4, 5), (5, 6), (6, 7)],
    ]


def test_surrogates_and_bytes(tokenizer):
    assert tokenizer.encode("a\ud800b") == tokenizer.encode("a\ufffdb")
    assert tokenizer.encode(["x", "\udfff"])[0] == [993]
    with pytest.raises(InputError, match=r"texts\[1\]=nan must be a text, not"):
        tokenizer(["a", float("nan")])
    with pytest.raises(InputError, match=r"text\[0\]=b'a' must be a text, not"):
        tokenizer.encode([b"a"])
    for wrong in (3, None, b"a", {"text": "a"}):
        with pytest.raises(InputError, match="texts=.* must be a text or a li"):
            tokenizer(wrong)


@pytest.mark.parametrize(
    ("texts", "arguments", "message"),
    [
        (["a"], {"padding": "none"}, "padding='none' must be "),
        (["a"], {"padding": False}, "padding=False must be "),
        (["a"], {"truncation": "only_first"}, "truncation='only_first' must"),
        (["a"], {"return_tensors": "mlx"}, "return_tensors='mlx' must"),
        (["a", "b"], {"max_length": 2}, "max_length=2 must be at least 3"),
        ([["a", "b"], ["c"]], {}, "same length, not 2 and 1"),
        (["a"], {"max_length": 4.0}, "max_length=4.0 must be an integer"),
    ],
)
def test_wrong_arguments(tokenizer, texts, arguments, message):
    with pytest.raises(ValueError, match=message):
        tokenizer(*texts, **arguments)


def test_unknown_rules_for_commas(clean_model):
    with pytest.raises(ValueError, match="digit_comma='none' must be"):
        AlbertTokenizer.from_file(clean_model, digit_comma="none")


def test_pickling_and_worker_processes(comma_model):
    settings = {
        **HUGGING_FACE_SLOW,
        "do_lower_case": False,
        "cut_at_user_defined_pieces": True,
    }
    tokenizer = AlbertTokenizer.from_file(comma_model, **settings)
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert copy.settings == tokenizer.settings == settings
    assert copy.normalizer == tokenizer.normalizer
    assert copy.fingerprint == tokenizer.fingerprint
    texts = ["a34, É", "x2,b", "``[MASK]''"]
    expected = tokenizer.encode(texts)
    assert copy.encode(texts) == expected
    with concurrent.futures.ProcessPoolExecutor(
        1, multiprocessing.get_context("spawn")
    ) as pool:
        assert pool.submit(tokenizer.encode, texts).result() == expected


def test_needs_no_tensorflow(comma_model):
    program = (
        "import sys;"
        "from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer;"
        f"AlbertTokenizer.from_file({str(comma_model)!r})('a 2,');"
        "sys.exit('tensorflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
