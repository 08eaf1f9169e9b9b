import bz2
import gzip
import lzma
import pathlib
import shutil
import tempfile

import pytest
from backports import zstd

from albert_tf.data.data_config import ReadingConfig
from albert_tf.data.documents import read_documents
from albert_tf.errors import InputError

UTF16 = "Some text.\n"


def archived(archive_format):
    """Returns an archive of a file, as `shutil.make_archive` writes it."""
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "text").mkdir()
        pathlib.Path(folder, "text", "a.txt").write_text("Some text.\n")
        path = shutil.make_archive(
            f"{folder}/archive", archive_format, f"{folder}/text", "a.txt"
        )
        return pathlib.Path(path).read_bytes()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("plain.gz", b"text", "cannot be read: Not a gzipped file"),
        ("a.txt", UTF16.encode("utf-16"), "UTF-16, not text.*-f UTF-16 -t"),
        ("a.txt", UTF16.encode("utf-16-le"), "UTF-16, .* iconv -f UTF-16LE"),
        ("a.txt", UTF16.encode("utf-16-be"), "UTF-16, .* iconv -f UTF-16BE"),
        ("a.txt", gzip.compress(b"text"), "a gzip file.*name end in .gz"),
        ("a.gz", gzip.compress(gzip.compress(b"text")), "a gzip file"),
        ("a.txt", bz2.compress(b"text"), "a bzip2 file.*name end in .bz2"),
        ("a.txt", zstd.compress(b"text"), "a Zstandard file"),
        ("a.xz", lzma.compress(b"text"), "an xz file, .*; decompress it"),
        ("a.parquet", b"PAR1\x15\x04", "a Parquet file.*JSON lines.*tfds:"),
        ("a.zip", archived("zip"), "a zip file, not text.*unpack it"),
        ("a.tar", archived("tar"), "a tar file, not text"),
        ("a.tar.gz", archived("gztar"), "a tar file, not text"),
        ("a.pdf", b"%PDF-1.4", "a PDF file"),
    ],
    # Archives have the time in them, and test processes must agree on names.
    ids=lambda value: "content" if isinstance(value, bytes) else None,
)
@pytest.mark.parametrize("encoding_errors", ["strict", "replace"])
def test_unusable_files_are_named(
    tmp_path, name, content, message, encoding_errors
):
    path = tmp_path / name
    path.write_bytes(content)
    config = ReadingConfig(encoding_errors=encoding_errors)
    with pytest.raises(InputError, match=message) as caught:
        list(read_documents(path, config))
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
