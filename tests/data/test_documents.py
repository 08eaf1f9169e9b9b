import collections
import gzip
import itertools
import json

import pytest
import sentencex

from albert_tf import input_files
from albert_tf.data import documents as documents_module
from albert_tf.data import text_files
from albert_tf.data.data_config import ReadingConfig
from albert_tf.data.documents import (
    describe_oddities,
    make_blocks,
    read_corpus,
    read_documents,
)
from albert_tf.data.text_files import find_text_files
from albert_tf.errors import InputError

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
def test_lines_format(documents_of, content):
    assert documents_of(content) == WANTED


@pytest.fixture
def path(tmp_path):
    return tmp_path / "text.txt"


@pytest.fixture
def documents_of(path):
    """Returns `documents_of(content, ...)`: the documents of a file."""

    def read(content, text_format="lines", **settings):
        is_text = isinstance(content, str)
        path.write_bytes(content.encode() if is_text else content)
        config = ReadingConfig(text_format=text_format, **settings)
        return list(read_documents(path, config))

    return read


def test_jsonl(documents_of):
    rows = [
        {"text": "One. Two by Mr. Smith.\nThree\r\n\n\nFour.", "id": 1},
        {"id": 2, "text": " \n"},
        {"text": "Nächstes. \u0000 [SEP]\u2028"},
    ]
    wanted = [
        ["One.", "Two by Mr. Smith.", "Three", "Four."],
        ["Nächstes.", "\0 [SEP]"],
    ]
    # A byte-order mark in each file that was concatenated.
    lines = ["\ufeff" + json.dumps(row) for row in rows]
    content = "\r\n".join([lines[0], "", *lines[1:]])
    assert documents_of(content, "jsonl") == wanted
    content = "\n".join(json.dumps({"Body": row["text"]}) for row in rows)
    assert documents_of(content, "jsonl", text_field="Body") == wanted


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
        (b"{}", "has no field 'text' \\(its fields: none\\)"),
        (b'{"content": "a"}', "its fields: 'content'\\); choose another one"),
        (b'{"text": null}', "text=None must be a string"),
        (b'{"text": ["a"]}', "must be a string"),
    ],
)
def test_invalid_lines_of_jsonl(path, documents_of, line, message):
    content = b'{"text": "good"}\n\n' + line + b'\n{"text": "good"}\n'
    with pytest.raises(InputError, match=message) as caught:
        documents_of(content, "jsonl")
    assert str(caught.value).startswith(f"{path}:3")
    assert "\n" not in str(caught.value)


def test_long_lines_of_jsonl(documents_of, monkeypatch, short_lines):
    line = json.dumps({"text": "0123456789 bcdefg hi\nx"})
    assert documents_of(line, "jsonl") == [["0123456789", "bcdefg hi", "x"]]
    monkeypatch.setattr(input_files, "MAX_BYTES", len(line) + 1)
    assert len(documents_of(f"{line}\n{line}", "jsonl")) == 2
    with pytest.raises(InputError, match="text.txt:2: longer than"):
        documents_of(f"{line}\n{line}  \n", "jsonl")


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
def test_invalid_utf8_is_replaced(
    path, documents_of, short_lines, content, text, replaced
):
    path.write_bytes(content)
    counts = collections.Counter()
    config = ReadingConfig(encoding_errors="replace")
    [document] = read_corpus([path], config, counts)
    assert "".join(document) == text
    assert counts["invalid_utf8"] == replaced
    assert len(list(describe_oddities(counts))) == bool(replaced)
    if replaced:
        with pytest.raises(InputError, match="text.txt:1: byte .* not UTF-8"):
            documents_of(content)


def test_only_line_feeds_separate_lines(documents_of):
    [document] = documents_of("one\u2028still one\x85too\ntwo\n")
    assert len(document) == 2


def test_prose_format(documents_of):
    assert documents_of(
        "CHAPTER I\n\n"
        "Mr. Smith went to Washington,\nD.C., on Jan. 5. He met Dr. J. R. Brown"
        " at 3 p.m.\nThen he left.\n\n"
        '"Who are you?" he asked.\n\n\n'
        "CHAPTER II\n\nNobody knew.\fAn appendix.\n",
        "prose",
    ) == [
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


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("我们在\n这里。", "我们在这里。"),
        ("東京タワー\nです、\nまた", "東京タワーです、また"),
        ("ｶﾞ\nｷﾞ", "ｶﾞｷﾞ"),
        ("ภาษาที่\nไทย", "ภาษาที่ไทย"),
        ("ພາສາ\nລາວ", "ພາສາລາວ"),
        ("ភាសា\nខ្មែរ", "ភាសាខ្មែរ"),
        ("မြန်မာ\nဘာသာ", "မြန်မာဘာသာ"),
        ("我用\nKeras\n训练", "我用 Keras 训练"),
        ("他说：“你好”\n然后走了——\n不知道…", "他说：“你好”然后走了——不知道…"),
        ("他说：“\nKeras”\n“好”", "他说：“ Keras” “好”"),
        ("我说“好”\n“不”他说", "我说“好”“不”他说"),
        ("He left —\n“so” they\n…", "He left — “so” they …"),
        ("한국\n사람", "한국 사람"),
        ("one 😀\n😀 two", "one 😀 😀 two"),
    ],
)
def test_lines_of_a_paragraph_are_joined(documents_of, text, joined):
    assert documents_of(text, "prose") == [[joined]]


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", 'Mr. Smith left "home. Really." He was (not. at) happy. '),
        ("zh", "這是一個句子。他說：「你好。再見！」然後走了。"),
        ("zh", "沒有句號，"),
        ("th", "ภาษาไทย นี่คือ。"),
    ],
)
def test_long_paragraphs_are_segmented_in_parts(
    documents_of, monkeypatch, language, text
):
    """In parts, as the time for each is quadratic, but as if in one."""
    repeats = 100_000 // len(text)
    segment, lengths = sentencex.segment, []

    def spy(language, part):
        lengths.append(len(part))
        return segment(language, part)

    monkeypatch.setattr(sentencex, "segment", spy)
    [found] = documents_of(text * repeats, "prose", language=language)
    if "，" in text:  # A sentence of any length is one.
        assert found == [text * repeats]
    else:
        assert found == [x.strip() for x in segment(language, text)] * repeats
        assert max(lengths) <= 16_000


@pytest.mark.parametrize("space", "\u00a0\u2009\u202f\u3000\u0085\u2028\u1680")
def test_spaces_before_a_full_stop(documents_of, space):
    """After an initial, sentencex 1.0 panics at those that are not ASCII."""
    text = f"Carrots have vitamin{space}A{space}. Really. They are orange."
    for language in ("en", "fr", "zh", "xx"):
        [found] = documents_of(text, "prose", language=language)
        assert found[-1] == "They are orange."
        assert "".join(found).replace(" ", "") == text.replace(" ", "")


@pytest.mark.parametrize("text_format", ["lines", "prose"])
@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('{"id": 3, "text": "A film."}', "jsonl"),
        ('<doc id="3" url="x" title="A">', "wikiextractor"),
        ('{"id": 3, "title": "A film."}', None),
        ('{"text": 3}', None),
        ("{" * 100_000, None),
    ],
)
def test_other_formats_are_not_plain_text(
    documents_of, text_format, line, found
):
    if found is None:
        assert documents_of(f"{line}\n", text_format)[0][0][0] == "{"
        return
    for blank, number in (("", 1), (" \n", 2)):
        with pytest.raises(
            InputError, match=f"text.txt:{number}: .*text_format={found}"
        ):
            documents_of(f"{blank}{line}\nThe film.\n", text_format)


def test_parts_of_a_file_may_begin_with_json(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text('A film.\n{"text": "A film."}\n')
    config = ReadingConfig(text_format="lines")
    [found] = read_corpus([text_files.TextSlice(str(path), 8, 31)], config)
    assert found == ['{"text": "A film."}']


def test_prose_follows_the_language(documents_of):
    text = "Er kam am 5. Mai. Dann ging er.\n"
    [german] = documents_of(text, "prose", language="de")
    [english] = documents_of(text, "prose")
    assert german == ["Er kam am 5. Mai.", "Dann ging er."]
    assert english == ["Er kam am 5.", "Mai.", "Dann ging er."]


def test_wikiextractor_format_of_real_articles(shared):
    path = shared("data", "wikiextractor-raw-sample", "wiki_00")
    documents = list(
        read_documents(path, ReadingConfig(text_format="wikiextractor"))
    )
    text = path.read_text("utf-8")
    assert len(documents) == text.count("<doc ")
    assert [document[0] for document in documents[:2]] == [
        "Anarchism",
        "Autism",
    ]
    sentences = list(itertools.chain(*documents))
    assert not any("<doc" in s or "</doc>" in s for s in sentences)
    # Only white space and tags are lost.
    letters = sum(len("".join(s.split())) for s in sentences)
    kept = [x for x in text.split("\n") if not x.startswith(("<doc", "</doc"))]
    assert letters == len("".join("".join(kept).split()))
    # Sentences, not paragraphs: English sentences have about 20 words.
    assert 10 < sum(len(s.split()) for s in sentences) / len(sentences) < 30


def test_wikiextractor_format_without_tags(documents_of):
    line = json.dumps({"id": "12", "text": "Anarchism\n\nIt is."})
    with pytest.raises(InputError, match="text.txt: no line .*_format=jsonl"):
        documents_of(f"{line}\n{line}\n", "wikiextractor")
    # The rest of a file that was cut.
    found = documents_of("The end.\n</doc>\n", "wikiextractor")
    assert found == [["The end."]]


def test_long_documents_are_split(documents_of, monkeypatch):
    monkeypatch.setattr(documents_module, "MAX_DOCUMENT_CHARACTERS", 10)
    found = documents_of("aaaaaa\nbbbbbb\ncc\n")
    assert found == [["aaaaaa", "bbbbbb"], ["cc"]]


def test_reading_is_lazy(path):
    path.write_bytes(b"good\n\nbad \xff\n")
    reader = read_documents(path)
    assert next(reader) == ["good"]
    with pytest.raises(InputError, match=r"text.txt:3: byte 5 is not"):
        next(reader)


@pytest.mark.parametrize("content", ["", "\n \n"])
def test_a_file_without_text(documents_of, content):
    with pytest.raises(InputError, match="text.txt: the file contains no text"):
        documents_of(content)


def test_files_without_text_are_skipped_and_counted(tmp_path):
    for name, content in (("a", "One.\n"), ("b", "\n \n"), ("c", "Two.\n")):
        (tmp_path / name).write_text(content)
    counts = collections.Counter()
    files = find_text_files(f"{tmp_path}/*")
    found = list(read_corpus(files, ReadingConfig(), counts))
    assert found == [["One."], ["Two."]]
    [line] = describe_oddities(counts)
    assert line == "text: 1 files without text, skipped"


def test_carriage_returns_within_lines_are_counted(tmp_path):
    (tmp_path / "old").write_bytes(b"One.\rTwo.\r\rThree.\r\nFour.\r\n")
    counts = collections.Counter()
    [found] = read_corpus([tmp_path / "old"], ReadingConfig(), counts)
    assert found == ["One.\rTwo.\r\rThree.", "Four."]
    [line] = describe_oddities(counts)
    assert line.startswith("text: 3 carriage returns within lines")


def blocks_of(corpus, block_bytes=5000, **settings):
    files = find_text_files(f"{corpus}/*")
    documents = itertools.chain(*map(read_documents, files))
    return list(make_blocks(documents, block_bytes, **settings))


def test_blocks_have_all_documents_in_order(corpus, documents):
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


def test_a_fixed_share_of_documents_is_held_out(corpus, documents):
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


def test_duplicates_are_in_the_same_split():
    texts = [[f"Document {number}."] for number in range(200)]
    found = {"train": set(), "heldout": set()}
    for block in make_blocks(texts * 2, 999, heldout_fraction=0.5):
        found[block.split].update(map(tuple, block.documents))
    assert not found["train"] & found["heldout"]
    assert len(found["train"] | found["heldout"]) == 200


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
        # Characters are not split.
        ("é" * 12 + "\n", [["é" * 8, "é" * 4]]),
        ("x" + "é" * 12, [["x" + "é" * 7, "é" * 5]]),
        ("xx" + "😀" * 5, [["xx" + "😀" * 3, "😀" * 2]]),
        # A blank piece of a line does not end a document.
        ("a" + " " * 50 + "b\nc\n", [["a", "b", "c"]]),
        (" " * 50 + "b" + " " * 50 + "\nc", [["b", "c"]]),
    ],
)
def test_long_lines_are_split_at_spaces(
    tmp_path, documents_of, short_lines, text, found
):
    assert documents_of(text) == found
    packed = gzip.compress(text.encode())
    (tmp_path / "a.txt.gz").write_bytes(packed)
    assert list(read_documents(tmp_path / "a.txt.gz")) == found


def test_long_paragraphs_are_split(documents_of, short_lines):
    text = "One two three. Four five.\nSix seven.\nEight.\n\n\nNine.\n"
    first, second = documents_of(text, "prose")
    words = " ".join(first).split()
    assert words == "One two three. Four five. Six seven. Eight.".split()
    assert second == ["Nine."]


def test_errors_have_the_offset_in_long_lines(documents_of, short_lines):
    with pytest.raises(InputError, match="text.txt:2: byte 45 is not UTF-8"):
        documents_of(b"ok\n" + b"0123456789 " * 4 + b"\xff\n")
