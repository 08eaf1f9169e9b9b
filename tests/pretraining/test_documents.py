import bz2
import collections
import dataclasses
import functools
import gzip
import itertools
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy as np
import pytest
import tensorflow as tf
from backports import zstd
from hypothesis import example, given, settings
from hypothesis import strategies as st

from albert_tf.errors import InputError
from albert_tf.pretraining import documents as documents_module
from albert_tf.pretraining import text_files
from albert_tf.pretraining.block_worker import BlockWorker
from albert_tf.pretraining.chunks import cut_chunks
from albert_tf.pretraining.data_config import (
    PretrainingDataConfig,
    ReadingConfig,
    TextConfig,
)
from albert_tf.pretraining.documents import (
    TextBlock,
    describe_oddities,
    make_blocks,
    read_corpus,
    read_documents,
)
from albert_tf.pretraining.dynamic_examples import (
    ExampleSettings,
    make_examples,
)
from albert_tf.pretraining.heldout_records import HeldoutMasker
from albert_tf.pretraining.packed_rows import ROW_FEATURES
from albert_tf.pretraining.record_writer import parse_example, unframed
from albert_tf.pretraining.text_files import (
    MAX_LINE_BYTES,
    TextSlice,
    find_text_files,
    read_lines,
    sample_blocks,
)
from albert_tf.pretraining.tokenized_documents import (
    TokenizedDocuments,
    VocabularyTable,
)
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import VocabularyConfig, train_vocabulary

LINES = "First one.\nSecond one.\n\n \t\nThird.\n"
WANTED = [["First one.", "Second one."], ["Third."]]


@pytest.mark.parametrize(
    "content",
    [
        LINES.encode(),
        LINES.rstrip("\n").encode(),  # no line end at the end
        ("\n\n" + LINES + "\n\n").encode(),
        LINES.encode("utf-8-sig"),
        LINES.replace("\n", "\r\n").encode(),
    ],
)
def test_lines_are_sentences_and_blank_lines_end_documents(tmp_path, content):
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    assert list(read_documents(path)) == WANTED


PACKERS = {"gz": gzip.compress, "bz2": bz2.compress, "zst": zstd.compress}


@pytest.mark.parametrize("ending", PACKERS)
def test_compressed_files(tmp_path, ending):
    """Also several streams in one file, as parallel compressors write."""
    pack = PACKERS[ending]
    start, rest = LINES[:8].encode(), LINES[8:].encode()
    path = tmp_path / f"text.txt.{ending.upper()}"
    path.write_bytes(pack(start) + pack(rest))
    assert list(read_documents(path)) == WANTED
    # An end that is missing is no end of the text.
    packed = pack(random.Random(0).randbytes(9999).hex().encode())
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(InputError, match=f"the {ending} stream is damaged"):
        list(read_documents(path))


def test_zst_without_its_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, zstd.__name__, None)
    with pytest.raises(InputError, match=".zst files need .*: pip install"):
        list(read_documents(tmp_path / "text.zst"))


def jsonl(folder, content, **settings):
    path = folder / "text.jsonl"
    path.write_bytes(content)
    return list(read_documents(path, "jsonl", **settings))


def test_jsonl(tmp_path):
    rows = [
        {"text": "One. Two by Mr. Smith.\nThree\r\n\n\nFour.", "id": 1},
        {"id": 2, "text": " \n"},
        {"text": "Nächstes. \u0000 [SEP]\u2028"},
    ]
    wanted = [
        ["One.", "Two by Mr. Smith.", "Three", "Four."],
        ["Nächstes.", "\0 [SEP]"],
    ]
    lines = [json.dumps(row) for row in rows]
    content = "\ufeff" + "\r\n".join([lines[0], "", *lines[1:]])
    assert jsonl(tmp_path, content.encode()) == wanted
    content = "\n".join(json.dumps({"Body": row["text"]}) for row in rows)
    assert jsonl(tmp_path, content.encode(), text_field="Body") == wanted


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"[1]", "expected a JSON object"),
        (b'"text"', "expected a JSON object"),
        (b"{'text': 1}", "is not JSON"),
        (b'{"text": "cut', "is not JSON"),
        (b'{"text": "\\ud800"}', "half of a surrogate pair"),
        (b'{"text": "\0"}', "is not JSON: Invalid control character"),
        (b'{"text": "\xff"}', "byte 11 is not UTF-8"),
        (b"[" * 10**5, "nested deeper"),
        (b"{}", "lacks the field 'text' \\(its fields: none\\)"),
        (b'{"content": "a"}', "its fields: 'content'\\); name another one"),
        (b'{"text": null}', "text=None must be a string"),
        (b'{"text": ["a"]}', "must be a string"),
    ],
)
def test_bad_lines_of_jsonl(tmp_path, line, message):
    content = b'{"text": "good"}\n\n' + line + b'\n{"text": "good"}\n'
    with pytest.raises(InputError, match=message) as caught:
        jsonl(tmp_path, content)
    assert str(caught.value).startswith(f"{tmp_path / 'text.jsonl'}:3")
    assert "\n" not in str(caught.value)


def test_long_lines_of_jsonl(tmp_path, monkeypatch, short_lines):
    line = json.dumps({"text": "0123456789 bcdefg hi\nx"}).encode()
    assert jsonl(tmp_path, line) == [["0123456789", "bcdefg hi", "x"]]
    monkeypatch.setattr(text_files, "MAX_JSON_BYTES", len(line) + 1)
    assert len(jsonl(tmp_path, line + b"\n" + line)) == 2
    with pytest.raises(InputError, match="text.jsonl:2: longer than"):
        jsonl(tmp_path, line + b"\n" + line + b"  \n")


@pytest.mark.parametrize(
    ("content", "text", "replaced"),
    [
        (b"a\xffb", "a\ufffdb", 1),
        (b"\xef\xbb\xbfa\xc3", "a\ufffd", 1),
        ("\ufffd".encode() + b"\xe2\x82x", "\ufffd\ufffdx", 1),
        # The first bytes of a character before a real U+FFFD.
        (b"\xe2" + "\ufffd".encode(), "\ufffd\ufffd", 1),
        (b"\xed\xa0\x80", "\ufffd" * 3, 3),
        (b"\xac" * 40, "\ufffd" * 40, 40),
        ("\ufffd".encode(), "\ufffd", 0),
    ],
)
def test_bytes_that_are_not_utf8_are_replaced(
    tmp_path, short_lines, content, text, replaced
):
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    counts = collections.Counter()
    config = ReadingConfig(encoding_errors="replace")
    [document] = read_corpus([path], config, counts)
    assert "".join(document) == text
    assert counts["invalid_utf8"] == replaced
    assert len(list(describe_oddities(counts))) == bool(replaced)
    if replaced:
        with pytest.raises(InputError, match="text.txt:1: byte .* not UTF-8"):
            list(read_documents(path))


def test_nul_characters_are_counted_and_kept(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"a\0b\n\0\n")
    counts = collections.Counter()
    assert list(read_documents(path, counts=counts)) == [["a\0b", "\0"]]
    assert counts["nul_characters"] == 2


def test_only_line_feeds_end_lines(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("one\u2028still one\x85too\ntwo\n", "utf-8")
    [document] = read_documents(path)
    assert len(document) == 2


def test_prose_is_split_at_sentences_and_wide_gaps(tmp_path):
    path = tmp_path / "book.txt"
    path.write_text(
        "CHAPTER I\n\n"
        "Mr. Smith went to Washington,\nD.C., on Jan. 5. He met Dr. J. R. Brown"
        " at 3 p.m.\nThen he left.\n\n"
        '"Who are you?" he asked.\n\n\n'
        "CHAPTER II\n\nNobody knew.\fAn appendix.\n",
        "utf-8",
    )
    assert list(read_documents(path, "prose")) == [
        [
            "CHAPTER I",
            "Mr. Smith went to Washington, D.C., on Jan. 5.",
            "He met Dr. J. R. Brown at 3 p.m.",
            "Then he left.",
            '"Who are you?" he asked.',
        ],
        ["CHAPTER II", "Nobody knew."],
        ["An appendix."],
    ]


def test_prose_follows_the_language(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("Er kam am 5. Mai. Dann ging er.\n", "utf-8")
    [german] = read_documents(path, "prose", "de")
    [english] = read_documents(path, "prose", "en")
    assert german == ["Er kam am 5. Mai.", "Dann ging er."]
    assert english == ["Er kam am 5.", "Mai.", "Dann ging er."]


def test_wikiextractor_output_of_real_articles(shared):
    path = shared("data", "wikiextractor-raw-sample", "wiki_00")
    documents = list(read_documents(path, "wikiextractor"))
    text = path.read_text("utf-8")
    assert len(documents) == text.count("<doc ")
    assert [document[0] for document in documents[:2]] == [
        "Anarchism",
        "Autism",
    ]
    sentences = list(itertools.chain(*documents))
    assert not any("<doc" in s or "</doc>" in s for s in sentences)
    # Nothing is lost but white space and the tags.
    letters = sum(len("".join(s.split())) for s in sentences)
    kept = [x for x in text.split("\n") if not x.startswith(("<doc", "</doc"))]
    assert letters == len("".join("".join(kept).split()))
    # Sentences, not paragraphs: English prose has about 20 words a sentence.
    assert 10 < sum(len(s.split()) for s in sentences) / len(sentences) < 30


def test_long_documents_are_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(documents_module, "MAX_DOCUMENT_CHARACTERS", 10)
    path = tmp_path / "text.txt"
    path.write_text("aaaaaa\nbbbbbb\ncc\n", "utf-8")
    assert list(read_documents(path)) == [["aaaaaa", "bbbbbb"], ["cc"]]


def test_reading_is_lazy(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"good\n\nbad \xff\n")
    reader = read_documents(path)
    assert next(reader) == ["good"]
    with pytest.raises(InputError, match=r"text.txt:3: byte 5 is not"):
        next(reader)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("blank.txt", b"\n \n", "holds no text"),
        ("blank.txt", b"", "holds no text"),
        ("utf16.txt", "text".encode("utf-16"), ":1: byte 1 is not UTF-8"),
        ("plain.gz", b"text", "cannot be read: Not a gzipped file"),
        (
            "cut.gz",
            gzip.compress(b"text" * 99, mtime=0)[:-9],
            "stream is damaged",
        ),
    ],
)
def test_unusable_files_are_named(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        list(read_documents(path))
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_file_and_unknown_format(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        list(read_documents(tmp_path / "none.txt"))
    with pytest.raises(InputError, match="text_format='csv' must be one of"):
        read_documents(tmp_path / "none.txt", "csv")
    with pytest.raises(InputError, match="encoding_errors='ignore' must be"):
        read_documents(tmp_path / "none.txt", encoding_errors="ignore")


def test_find_text_files(tmp_path):
    for name in ("b.txt", "a.txt", "x/c.txt", "d[1].txt", "e,f.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("text", "utf-8")

    def found(patterns):
        files = find_text_files(patterns)
        return [path.relative_to(tmp_path).as_posix() for path in files]

    assert found(f"{tmp_path}/[ab].txt") == ["a.txt", "b.txt"]
    assert found(f"{tmp_path}/b.txt, {tmp_path}/?.txt") == ["b.txt", "a.txt"]
    assert found(f"{tmp_path}/**/c.txt") == ["x/c.txt"]
    assert found([tmp_path / "d[1].txt"]) == ["d[1].txt"]
    assert found([f"{tmp_path}/e,f.txt"]) == ["e,f.txt"]
    assert found(tmp_path / "a.txt") == ["a.txt"]


def test_find_text_files_refuses(tmp_path):
    (tmp_path / "empty.txt").touch()
    with pytest.raises(InputError, match="https://b/x: web addresses are not"):
        find_text_files("https://b/x")
    with pytest.raises(InputError, match="no such file"):
        find_text_files(f"{tmp_path}/*.csv")
    with pytest.raises(InputError, match="empty.txt: the file is empty"):
        find_text_files(f"{tmp_path}/*")
    with pytest.raises(InputError, match="only folders match"):
        find_text_files(tmp_path)
    with pytest.raises(InputError, match="no file named|has an empty path"):
        find_text_files(" , ")


def blocks_of(corpus, block_bytes=5000, **settings):
    files = find_text_files(f"{corpus}/*")
    documents = itertools.chain(*map(read_documents, files))
    return list(make_blocks(documents, block_bytes, **settings))


def test_blocks_hold_all_documents_in_order(corpus, documents):
    blocks = blocks_of(corpus)
    assert len(blocks) > 3
    assert [block.index for block in blocks] == list(range(len(blocks)))
    assert {block.split for block in blocks} == {"train"}
    assert [d for block in blocks for d in block.documents] == documents
    for block in blocks:
        size = sum(len(s) + 1 for d in block.documents for s in d)
        assert block.num_bytes == size
        last = sum(len(s) + 1 for s in block.documents[-1])
        if block is not blocks[-1]:
            assert size - last < 5000 <= size


def test_blocks_span_files(corpus):
    [block] = blocks_of(corpus, 1 << 30)
    files = find_text_files(f"{corpus}/*")
    assert block.documents == list(
        itertools.chain(*(read_documents(file) for file in files))
    )


def test_heldout_documents_are_a_fixed_share(corpus, documents):
    def split(seed):
        blocks = blocks_of(corpus, heldout_fraction=0.25, seed=seed)
        found = {"train": [], "heldout": []}
        for block in blocks:
            assert block.index == 0 or found[block.split]
            found[block.split] += block.documents
        return found

    first, second = split(1), split(2)
    for found in (first, second):
        assert len(found["train"]) + len(found["heldout"]) == len(documents)
        # 30 of 120 expected; 5 standard errors are 24.
        assert 6 < len(found["heldout"]) < 54
    assert first == split(1)
    assert first != second


def test_repeated_texts_are_in_the_same_split():
    texts = [[f"Document {number}."] for number in range(200)]
    found = {"train": set(), "heldout": set()}
    for block in make_blocks(texts * 2, 999, heldout_fraction=0.5):
        found[block.split].update(map(tuple, block.documents))
    assert not found["train"] & found["heldout"]
    assert len(found["train"] | found["heldout"]) == 200


def documents_of(folder, text, text_format="lines"):
    path = folder / "a.txt"
    path.write_text(text, "utf-8")
    return list(read_documents(path, text_format))


@pytest.fixture
def short_lines(monkeypatch):
    monkeypatch.setattr(documents_module, "MAX_LINE_BYTES", 16)
    monkeypatch.setattr(text_files, "MAX_LINE_BYTES", 16)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a b\n\nc\n", [["a b"], ["c"]]),
        ("0123456789abcde\nx", [["0123456789abcde", "x"]]),
        ("0123456789 bcdefg hi\nx", [["0123456789", "bcdefg hi", "x"]]),
        ("0123456789abcdefghi", [["0123456789abcdef", "ghi"]]),
        # Characters stay whole.
        ("é" * 12 + "\n", [["é" * 8, "é" * 4]]),
        ("x" + "é" * 12, [["x" + "é" * 7, "é" * 5]]),
        ("xx" + "😀" * 5, [["xx" + "😀" * 3, "😀" * 2]]),
        # A blank piece of a line is no blank line.
        ("a" + " " * 50 + "b\nc\n", [["a", "b", "c"]]),
        (" " * 50 + "b" + " " * 50 + "\nc", [["b", "c"]]),
    ],
)
def test_long_lines_are_cut_at_blanks(tmp_path, short_lines, text, found):
    assert documents_of(tmp_path, text) == found
    packed = gzip.compress(text.encode())
    (tmp_path / "a.txt.gz").write_bytes(packed)
    assert list(read_documents(tmp_path / "a.txt.gz")) == found


def test_long_paragraphs_are_cut(tmp_path, short_lines):
    text = "One two three. Four five.\nSix seven.\nEight.\n\n\nNine.\n"
    first, second = documents_of(tmp_path, text, "prose")
    words = " ".join(first).split()
    assert words == "One two three. Four five. Six seven. Eight.".split()
    assert second == ["Nine."]


def test_bytes_of_long_lines_are_counted(tmp_path, short_lines):
    path = tmp_path / "a.txt"
    path.write_bytes(b"ok\n" + b"0123456789 " * 4 + b"\xff\n")
    with pytest.raises(InputError, match="a.txt:2: byte 45 is not UTF-8"):
        list(read_documents(path))


LONG_LINE = """
import resource, sys
from albert_tf.pretraining.documents import read_documents
from albert_tf.pretraining.tokenized_documents import TokenizedDocuments
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer

tokenizer = AlbertTokenizer.from_file(sys.argv[1])
documents = list(read_documents(sys.argv[2]))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
TokenizedDocuments.from_text(documents, tokenizer)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_memory_of_a_long_line(tmp_path, small_tokenizer):
    model, text = tmp_path / "spiece.model", tmp_path / "a.txt"
    model.write_bytes(small_tokenizer.model_bytes)
    text.write_text("ba ro nti sel " * 300_000)
    result = subprocess.run(
        [sys.executable, "-c", LONG_LINE, model, text],
        capture_output=True,
        text=True,
        check=True,
    )
    # In KiB: 4.2 MB of text. It was 240 bytes for each of its bytes.
    assert int(result.stdout) < 400_000


# "Language" in 30 scripts, among them some that are written from right to left.
SCRIPTS = """
language γλώσσα язык լեզու ენა שפה لغة ܠܫܢܐ ބަސް ߞߊ߲ भाषा ভাষা ਭਾਸ਼ਾ ભાષા
ଭାଷା மொழி భాష ಭಾಷೆ ഭാഷ භාෂාව ภาษา ພາສາ སྐད་ཡིག ဘာသာ ቋንቋ ភាសា 语言 ことば
언어 ᏗᎦᏬᏂᎯᏍᏗ ᐅᖃᐅᓯᖅ ⵜⵓⵜⵍⴰⵢⵜ
""".split()
HOSTILE = [
    *SCRIPTS,
    *["ba", "ro nti", "selkamurelopindra", "x" * 300, "a.b!c", "1,2", "▁", "_"],
    *["...", "?!" * 40, "(" * 70, "[SEP]", "[CLS][MASK]", "<pad>", "<unk>"],
    *[
        "😀",
        "👩‍👩‍👧‍👦" * 20,
        "🇦🇶",
        "e\u0301\u0327",
        "\u202eabc\u202c",
        "\ufeff",
    ],
    *[
        "\0",
        "\ufffd",
        "\u00ad",
        "\x1b[0m",
        "\u2028",
        "\U0010ffff",
        "ß",
        "İ",
        "ﷺ",
    ],
]
TEXTS = st.lists(st.sampled_from(HOSTILE) | st.text(), max_size=40).map(
    " ".join
)


# The same cases in every run; a new one must not fail whoever pushes next.
@settings(deadline=None, derandomize=True)
@given(
    lines=st.lists(TEXTS, min_size=1, max_size=12),
    max_tokens=st.integers(2, 40),
    short_seq_prob=st.sampled_from([0.0, 0.5]),
    pairs=st.booleans(),
)
@example(lines=[""], max_tokens=9, short_seq_prob=0.0, pairs=False)
@example(lines=["ba"], max_tokens=2, short_seq_prob=0.0, pairs=False)
@example(lines=["▁"], max_tokens=2, short_seq_prob=0.0, pairs=False)
@example(lines=["?" * 999], max_tokens=9, short_seq_prob=0.0, pairs=True)
@example(
    lines=[" ".join(SCRIPTS)], max_tokens=9, short_seq_prob=0.5, pairs=True
)
@example(  # a line of 10 MB
    lines=["ba ro nti, 9 " * 770_000],
    max_tokens=509,
    short_seq_prob=0.1,
    pairs=False,
)
def test_hostile_text_is_kept(
    small_tokenizer, lines, max_tokens, short_seq_prob, pairs
):
    content = "\n".join(lines).encode("utf-8-sig")  # Our mark, not theirs.
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "a.txt")
        path.write_bytes(content)
        if not "".join(lines).strip():
            with pytest.raises(InputError, match="holds no text"):
                list(read_documents(path))
            return
        found = list(read_documents(path))
    # Nothing is lost but white space.
    text = "".join(itertools.chain(*found))
    assert "".join(text.split()) == "".join("".join(lines).split())
    sentences = [sentence for document in found for sentence in document]
    encoded = list(itertools.chain(*small_tokenizer.encode(sentences)))
    documents = TokenizedDocuments.from_text(found, small_tokenizer)
    assert documents.tokens.tolist() == encoded
    table = VocabularyTable.from_tokenizer(small_tokenizer)
    assert np.isin(documents.tokens, table.text_ids).all()
    chunks, counts = cut_chunks(
        documents,
        table,
        np.random.default_rng(0),
        max_tokens=max_tokens,
        short_seq_prob=short_seq_prob,
        pairs=pairs,
    )
    lengths = chunks.ends - chunks.starts
    assert (
        lengths.size == 0 or 1 <= lengths.min() <= lengths.max() <= max_tokens
    )
    # Every token is in one chunk, in order, but those of dropped chunks.
    assert (chunks.starts[1:] >= chunks.ends[:-1]).all()
    kept = chunks.tokens[chunks.tokens != table.sep_id]
    assert kept.tolist() == encoded
    dropped = len(encoded) - counts["kept_tokens"]
    assert dropped <= 2 * counts["dropped_chunks"]
    if not pairs:
        assert dropped == 0
        assert lengths.sum() == len(chunks.tokens)
    # A chunk that begins inside a word follows one of that word alone.
    starts = table.word_starts[chunks.tokens]
    boundaries = documents.sentence_starts[documents.document_starts]
    for before, after in itertools.pairwise(range(len(chunks))):
        start = chunks.starts[after]
        if not starts[start] and not (pairs and start in boundaries):
            assert chunks.ends[before] == start
            assert not starts[chunks.starts[before] + 1 : start].any()


MAX_SEQ, MAX_PREDICTIONS = 24, 5


@pytest.fixture(scope="module")
def tokenizers(small_tokenizer, documents, tmp_path_factory):
    """A SentencePiece and a WordPiece vocabulary of the same text."""
    path = train_vocabulary(
        itertools.chain(*documents),
        tmp_path_factory.mktemp("wordpiece") / "tiny",
        VocabularyConfig(model_type="wordpiece", vocab_size=200),
    )
    wordpiece = AlbertTokenizer.from_file(path)
    return {"sentencepiece": small_tokenizer, "wordpiece": wordpiece}


@pytest.fixture(scope="module")
def make_masked(tokenizers):
    """Returns `make(documents, case) -> features of masked sequences`."""

    @functools.cache
    def workers(case):
        config = PretrainingDataConfig(
            **{
                "input": "-",
                "output": "-",
                "tokenizer": tokenizers[case.vocabulary],
                "masking": case.masking,
                "sentence_order": case.order,
                "max_seq_length": MAX_SEQ,
                "max_predictions_per_seq": MAX_PREDICTIONS,
                "short_seq_prob": 0.3,
                "dupe_factor": 2 if case.masking == "static" else 10,
                "pack": case.pack,
                "masked_lm_prob": case.rate,
            }
        )
        return config, BlockWorker(config, {"train": 1, "heldout": 1})

    def make(found, case):
        config, worker = workers(case)
        split = "train" if case.pack else "heldout"
        block = worker(TextBlock(split, 0, found, 1))
        # Held-out text is masked by the same graph as batches of training.
        if case.masking == "dynamic" and not case.pack:
            block = HeldoutMasker(config)(block)
        [(lengths, joined)] = block.shards
        ends = np.cumsum(lengths, dtype=int)
        records = [
            unframed(joined[end - length : end])
            for end, length in zip(ends, lengths, strict=True)
        ]
        if not case.pack or not records:
            return list(map(parse_example, records))
        batch = make_examples(
            tf.io.parse_example(records, ROW_FEATURES),
            ExampleSettings(
                worker.table,
                MAX_SEQ,
                case.order,
                config,
                config.max_sequences_per_row,
            ),
            tf.constant([1, 2], tf.int64),
        )
        rows = {name: values.numpy() for name, values in batch.items()}
        return [
            sequence
            for row in range(len(records))
            for sequence in sequences_of({x: y[row] for x, y in rows.items()})
        ]

    return make


def sequences_of(row):
    """Yields the sequences of a packed row as records of their own."""

    def padded(values, length):
        return np.pad(values, (0, length - len(values)))

    assert (row["masked_lm_weights"] > 0).sum() <= MAX_PREDICTIONS
    for number in range(1, row["sequence_ids"].max() + 1):
        columns = np.flatnonzero(row["sequence_ids"] == number)
        start, end = columns[0], columns[-1] + 1
        assert end - start == len(columns)
        assert row["sequence_starts"][number - 1] == start
        positions = row["masked_lm_positions"]
        inside = (positions >= start) & (positions < end)
        inside &= row["masked_lm_weights"] > 0
        yield {
            theirs: padded(row[ours][columns], MAX_SEQ)
            for theirs, ours in (
                ("input_ids", "input_word_ids"),
                ("input_mask", "input_mask"),
                ("segment_ids", "input_type_ids"),
            )
        } | {
            "masked_lm_positions": padded(
                positions[inside] - start, MAX_PREDICTIONS
            ),
            "masked_lm_ids": padded(
                row["masked_lm_ids"][inside], MAX_PREDICTIONS
            ),
            "masked_lm_weights": padded(
                row["masked_lm_weights"][inside], MAX_PREDICTIONS
            ),
            "next_sentence_labels": row["sentence_order_labels"][
                number - 1 : number
            ],
        }


def check_record(record, table, texts, case):
    """Checks one masked record; `texts` are the ids of each document."""
    length = int(record["input_mask"].sum())
    assert length <= MAX_SEQ == len(record["input_ids"])
    assert record["input_mask"].tolist() == [1] * length + [0] * (
        MAX_SEQ - length
    )
    used = int((record["masked_lm_weights"] > 0).sum())
    wanted = np.clip(round(length * case.rate), 1, MAX_PREDICTIONS)
    assert used <= (wanted if case.rate else 0)
    positions = record["masked_lm_positions"]
    assert (np.diff(positions[:used]) > 0).all()  # sorted and unique
    for name in ("positions", "ids", "weights"):
        assert not record[f"masked_lm_{name}"][used:].any()
    ids = record["input_ids"].copy()
    ids[positions[:used]] = record["masked_lm_ids"][:used]
    assert (ids[length:] == table.pad_id).all()
    is_text = np.isin(ids, table.text_ids)
    assert is_text[positions[:used]].all()  # No control token is predicted.
    unmasked = np.setdiff1d(np.arange(MAX_SEQ), positions[:used])
    assert (record["input_ids"][unmasked] == ids[unmasked]).all()
    # Words are masked whole.
    chosen = np.isin(np.arange(MAX_SEQ), positions[:used])
    words = np.cumsum(table.word_starts[ids] & is_text)[is_text]
    for word in np.unique(words):
        assert len(set(chosen[is_text][words == word])) == 1
    # What is left without masks is text as it was.
    assert ids[0] == table.cls_id
    assert ids[length - 1] == table.sep_id
    types = record["segment_ids"]
    start = int(np.argmax(types)) if types.any() else length
    assert types[start:length].all()
    assert not types[length:].any()
    first = ids[1 : start - 1].tolist()
    second = ids[start : length - 1].tolist()
    assert first
    if types.any():
        assert second
        assert first != second
    assert record["next_sentence_labels"][0] in (
        (0,) if case.order == "none" else (0, 1)
    )
    parts = [second]
    for is_sep, part in itertools.groupby(
        first, lambda x: x == table.sep_id
    ):  # One segment may reach over the ends of documents.
        if not is_sep:
            parts.append(list(part))
    for part in parts:
        assert any(part_of(part, text) for text in texts)


def triples(line):
    words = line.split()
    return [" ".join(words[i : i + 3]) for i in range(0, len(words), 3)]


def part_of(part, text):
    width = len(part)
    starts = range(len(text) - width + 1)
    return any(text[i : i + width] == part for i in starts)


@dataclasses.dataclass(frozen=True)
class Case:
    """How records are made."""

    masking: str
    order: str
    vocabulary: str = "sentencepiece"
    rate: float = 0.15  # Phases of a run have their own.
    pack: bool = False


CASES = [
    *(Case("static", order) for order in ("sop", "nsp", "none")),
    *(Case("dynamic", order) for order in ("sop", "nsp", "none")),
    *(Case("dynamic", order, pack=True) for order in ("sop", "nsp")),
    *(Case(masking, "sop", "wordpiece") for masking in ("static", "dynamic")),
    Case("dynamic", "sop", "wordpiece", pack=True),
    *(Case(masking, "sop", rate=0.6) for masking in ("static", "dynamic")),
    *(Case(masking, "sop", rate=0.0) for masking in ("static", "dynamic")),
]


@settings(deadline=None, derandomize=True, max_examples=8)
@given(lines=st.lists(TEXTS | st.just(""), min_size=1, max_size=12))
@example(lines=["ba"])
@example(lines=["ba ba", "ba ba"])
@example(lines=["selkamurelopindra" * 40, "ro nti"])
@example(lines=["?" * 99, "!" * 99])
@example(lines=[" ".join(SCRIPTS), "שפה لغة " * 9, "😀 👩‍👩‍👧‍👦" * 9])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_masked_records_of_hostile_text(tokenizers, make_masked, case, lines):
    # Long sentences, and short ones, of which several go into a record.
    found = [
        [sentence for line in group for sentence in (line, *triples(line))]
        for is_blank, group in itertools.groupby(
            lines, lambda line: not line.strip()
        )
        if not is_blank
    ]
    tokenizer = tokenizers[case.vocabulary]
    table = VocabularyTable.from_tokenizer(tokenizer)
    texts = [
        list(itertools.chain(*tokenizer.encode(document))) for document in found
    ]
    for record in make_masked(found, case):
        check_record(record, table, texts, case)


@pytest.mark.parametrize("end", [b"", b"\n", b"\n\n"])
def test_slices_of_a_file_have_each_line_once(tmp_path, end):
    rng = np.random.default_rng(0)
    lines = [b"x" * n for n in rng.integers(0, 60, 200)]
    lines[50] = b"long " * (MAX_LINE_BYTES // 4)
    (tmp_path / "a").write_bytes(b"\n".join(lines) + end)
    expected = [text for _, _, text in read_lines(tmp_path / "a")]
    size = (tmp_path / "a").stat().st_size
    for number in (2, 9, 300):
        cuts = np.sort(rng.integers(1, size, number))
        found = [
            text
            for a, b in itertools.pairwise([0, *cuts.tolist(), size])
            for _, _, text in read_lines(TextSlice(tmp_path / "a", a, b))
        ]
        assert found == expected
    whole = [text for _, _, text in read_lines(tmp_path / "a", whole=True)]
    parts = [
        text
        for a in range(0, size, 1000)
        for _, _, text in read_lines(
            TextSlice(tmp_path / "a", a, min(a + 1000, size)), whole=True
        )
    ]
    assert parts == whole


def test_blocks_of_large_text_are_sampled(tmp_path):
    lines = [f"Line {i} of the text.\n" for i in range(200_000)]
    (tmp_path / "a.txt").write_text("".join(lines))
    with gzip.open(tmp_path / "b.gz", "wt") as file:
        file.write("Packed.\n")
    files = find_text_files(f"{tmp_path}/*")
    assert sample_blocks(files, 5 << 20, seed=0) == files
    seen = set()
    for seed in range(8):
        blocks = sample_blocks(files, 2 << 20, seed)
        assert blocks == sample_blocks(files, 2 << 20, seed)
        documents = read_corpus(blocks, TextConfig(input=f"{tmp_path}/*"))
        found = [f"{x}\n" for x in itertools.chain(*documents)]
        plain = [line for line in found if line != "Packed.\n"]
        assert len(plain) == len(set(plain)) > 40_000
        assert set(plain) <= set(lines)
        assert 1 << 20 < len("".join(found)) < 3.1 * 2**20
        seen.update(found)
    assert seen == {*lines, "Packed.\n"}
