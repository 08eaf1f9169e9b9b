import gzip

import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.examples import (
    BadExamples,
    file_extension,
    load_json,
    read_lines,
)


@pytest.mark.parametrize(
    "content", [b"one\n\ntwo", b"\xef\xbb\xbfone\r\n\r\ntwo\r\n"]
)
@pytest.mark.parametrize("packed", [False, True])
def test_lines_have_numbers_and_no_ends(tmp_path, content, packed):
    path = tmp_path / ("a.tsv.gz" if packed else "a.tsv")
    path.write_bytes(gzip.compress(content) if packed else content)
    lines = list(read_lines(path, BadExamples()))
    assert lines == [(1, "one"), (2, ""), (3, "two")]


def test_only_line_feeds_end_lines(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("one\u2028still\x85one\x0c\n", "utf-8")
    [(_, line)] = read_lines(path, BadExamples())
    assert line == "one\u2028still\x85one\x0c"


def test_invalid_utf8_is_reported_with_its_line(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_bytes(b"good\nbad\xff\ngood\n")
    with pytest.raises(InputError, match=r"a.tsv:2: byte 4 of the line is not"):
        list(read_lines(path, BadExamples()))
    bad = BadExamples("skip")
    assert list(read_lines(path, bad)) == [(1, "good"), (2, None), (3, "good")]
    assert bad.counted == 1


def test_unreadable_files_are_errors_under_any_policy(tmp_path):
    bad = BadExamples("skip")
    (tmp_path / "plain.gz").write_bytes(b"text")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"text" * 99)[:-9])
    with pytest.raises(InputError, match="none.tsv: cannot be read: No such"):
        list(read_lines(tmp_path / "none.tsv", bad))
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        list(read_lines(tmp_path, bad))
    with pytest.raises(InputError, match="cannot be read: Not a gzipped"):
        list(read_lines(tmp_path / "plain.gz", bad))
    with pytest.raises(InputError, match="stream is damaged"):
        list(read_lines(tmp_path / "cut.gz", bad))


def test_json(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(b'\xef\xbb\xbf{"a": "\\u00e9"}')
    assert load_json(path) == {"a": "é"}
    path.write_bytes(b'{"a":\n 1,\n oh}')
    with pytest.raises(InputError, match=r"a.json:3: not JSON \(Expecting"):
        load_json(path)
    path.write_bytes(b'{"a":\n "\xff"}')
    with pytest.raises(InputError, match=r"a.json:2: byte 9 of the file is"):
        load_json(path)


def test_file_extension():
    assert file_extension("x/a.b.TSV") == ".tsv"
    assert file_extension("x/a.csv.gz") == ".csv"
    assert file_extension("a") == ""


def test_stop_raises_one_line():
    bad = BadExamples()
    with pytest.raises(InputError, match="^a.tsv:3: no label; mend") as caught:
        bad.report("a.tsv:3", "no label;\n mend it")
    assert "\n" not in str(caught.value)
    assert "--on_bad_example=skip" in str(caught.value)
    assert bad.counted == 1


def test_skip_counts_all_and_keeps_the_first():
    bad = BadExamples("skip")
    for line in range(23):
        bad.report(f"a.tsv:{line}", "the text is empty")
    assert bad.counted == 23
    assert len(bad.lines) == 20
    first, *lines, last = bad.summary().splitlines()
    assert first == "23 bad examples left out"
    assert lines == [f"  {line}" for line in bad.lines]
    assert lines[1] == "  a.tsv:1: the text is empty"
    assert last == "  and 3 more"
