import bz2
import gzip
import itertools
import os
import random
import sys

import numpy as np
import pytest
from backports import zstd

from albert_tf.data import text_files
from albert_tf.data.data_config import TextConfig
from albert_tf.data.documents import read_corpus, read_documents
from albert_tf.data.text_files import (
    TextSlice,
    find_text_files,
    read_lines,
    sample_blocks,
)
from albert_tf.errors import InputError

PACKERS = {"gz": gzip.compress, "bz2": bz2.compress, "zst": zstd.compress}


@pytest.mark.parametrize("ending", PACKERS)
def test_compressed_files(tmp_path, ending):
    """Also several streams in one file, as parallel compressors write."""
    pack = PACKERS[ending]
    path = tmp_path / f"text.txt.{ending.upper()}"
    path.write_bytes(pack(b"First on") + pack(b"e.\nSecond.\n\nThird.\n"))
    assert list(read_documents(path)) == [["First one.", "Second."], ["Third."]]
    # An end that is missing is no end of the text.
    packed = pack(random.Random(0).randbytes(9999).hex().encode())
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(InputError, match=f"the {ending} stream is damaged"):
        list(read_documents(path))


def test_zst_without_its_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, zstd.__name__, None)
    with pytest.raises(InputError, match=".zst files need .*: pip install"):
        list(read_documents(tmp_path / "text.zst"))


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
    (tmp_path / "link.txt").symlink_to("a.txt")
    twice = os.path.relpath(tmp_path / "b.txt")
    assert found(f"{tmp_path}/?.txt,{tmp_path}/link.txt,{twice}") == [
        "a.txt",
        "b.txt",
    ]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("https://b/x", "https://b/x: web addresses are not"),
        ("{}/*.csv", "no such file"),
        ("{}/*", "empty.txt: the file is empty"),
        ("{}", "only folders match"),
        (" , ", "no files given|has an empty path"),
    ],
)
def test_patterns_without_usable_files(tmp_path, pattern, message):
    (tmp_path / "empty.txt").touch()
    with pytest.raises(InputError, match=message):
        find_text_files(pattern.format(tmp_path))


@pytest.mark.parametrize("end", [b"", b"\n", b"\n\n"])
def test_slices_of_a_file_have_each_line_once(tmp_path, monkeypatch, end):
    monkeypatch.setattr(text_files, "MAX_LINE_BYTES", 4096)
    rng = np.random.default_rng(0)
    lines = [b"x" * n for n in rng.integers(0, 60, 200)]
    lines[50] = b"long " * 1024
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
    cuts = itertools.pairwise([*range(0, size, 1000), size])
    parts = [
        text
        for a, b in cuts
        for _, _, text in read_lines(
            TextSlice(tmp_path / "a", a, b), whole=True
        )
    ]
    assert parts == whole


def test_blocks_of_large_text_are_sampled(tmp_path, monkeypatch):
    block = 1 << 16
    monkeypatch.setattr(text_files, "_BLOCK_BYTES", block)
    lines = [f"Line {i} of the text.\n" for i in range(12_500)]
    (tmp_path / "a.txt").write_text("".join(lines))
    with gzip.open(tmp_path / "b.gz", "wt") as file:
        file.write("Packed.\n")
    files = find_text_files(f"{tmp_path}/*")
    assert sample_blocks(files, 5 * block, seed=0) == files
    seen = set()
    for seed in range(8):
        blocks = sample_blocks(files, 2 * block, seed)
        assert blocks == sample_blocks(files, 2 * block, seed)
        documents = read_corpus(blocks, TextConfig(input=f"{tmp_path}/*"))
        found = [f"{x}\n" for x in itertools.chain(*documents)]
        plain = [line for line in found if line != "Packed.\n"]
        assert len(plain) == len(set(plain)) > 2_500
        assert set(plain) <= set(lines)
        assert block < len("".join(found)) < 3.1 * block
        seen.update(found)
    assert seen == {*lines, "Packed.\n"}
