"""Folders that train on documents that others hold out are found."""

import pytest

from albert_tf.data.heldout_leaks import find_leaks
from albert_tf.data.records import open_records


@pytest.fixture
def data(created, corpus):
    """Returns `data(name="a.txt", fraction=0.2, **settings)`: a folder."""

    def make(name="a.txt", fraction=0.2, **settings):
        settings = {"heldout_fraction": fraction} | settings
        return created(input=f"{corpus}/{name}", **settings)[0]

    return make


def leaks(trained, scored):
    scored = open_records(scored, heldout=True)
    trained = open_records(trained)
    heldout = scored.files.get("heldout", ())
    return list(find_leaks(trained.files["train"], heldout))


@pytest.mark.parametrize(
    ("settings", "fraction", "expected"),
    [
        ({}, 0.2, ""),
        ({}, 0.3, ""),
        ({}, 0.1, "heldout_fraction=0.1 (not 0.2), so"),
        ({}, 0.0, "heldout_fraction=0.0 (not 0.2), so"),
        ({"seed": 1}, 0.2, "seed=1 (not 12345), so"),
        ({"seed": 1}, 0.3, "seed=1 (not 12345), so"),
        ({"seed": 1}, 0.1, "seed=1 (not 12345) and heldout_fraction=0.1 (not"),
        ({"max_seq_length": 32}, 0.2, ""),
    ],
)
def test_other_seeds_and_smaller_fractions_leak(
    data, settings, fraction, expected
):
    trained, scored = data(fraction=fraction, **settings), data()
    found = leaks(trained, scored)
    assert len(found) == bool(expected)
    for line in found:
        assert line.startswith(f"records {trained}: made from text of {scored}")
        assert expected in line
        assert "\n" not in line


def test_folders_that_are_read_together(data):
    one, other = data(), data(seed=1)
    both = f"{one},{other}"
    found = leaks(both, both)
    assert [line.split(":")[0] for line in found] == [
        f"records {one}",
        f"records {other}",
    ]
    # Files are known by the manifest beside them.
    assert len(leaks(f"{other}/pretraining-*", one)) == 1


@pytest.mark.parametrize("text_format", ["lines", "prose"])
def test_sentences_of_another_language_leak(
    created, corpus, tmp_path, text_format
):
    text = (corpus / "a.txt").read_text("utf-8").replace("\n\n", "\n\n\n")
    settings = {"input": str(tmp_path / "text.txt"), "heldout_fraction": 0.2}
    (tmp_path / "text.txt").write_text(text, "utf-8")
    trained, scored = (
        created(text_format=text_format, language=language, **settings)[0]
        for language in ("de", "en")
    )
    found = leaks(trained, scored)
    assert len(found) == (text_format == "prose")
    assert all("with language=de (not en), so" in line for line in found)


def test_held_out_records_that_are_named_as_files(data):
    folder = data()
    (line,) = leaks(f"{folder}/*.tfrecord", folder)
    assert line.startswith(f"records {folder}: its held-out records are")
    assert not leaks(f"{folder}/pretraining-*", folder)


def test_other_text_does_not_leak(data):
    assert not leaks(data("b.txt.gz", seed=1), data())
    assert not leaks(data(seed=1), data("b.txt.gz"))
    assert len(leaks(data("*", seed=1), data("b.txt.gz"))) == 1


def test_without_a_held_out_split_there_is_no_leak(data):
    assert not leaks(data(seed=1), data(fraction=0.0))


def test_corpora_of_mixtures(data, create, corpus):
    patterns = f"wiki=3:{corpus}/a.txt,books=1:{corpus}/b.txt.gz"
    mixture, _ = create("mix", input=patterns, heldout_fraction=0.2, seed=1)
    one = data()
    for trained, scored in ((one, mixture), (mixture, one)):
        (line,) = leaks(trained, scored)
        folders = [
            folder / "wiki" if folder == mixture else folder
            for folder in (trained, scored)
        ]
        assert f"records {folders[0]}: " in line
        assert f"text of {folders[1]} with" in line
    assert not leaks(mixture, mixture)
    named = f"x=1:{one},y=1:{mixture}/books"
    assert len(leaks(named, mixture)) == 1
