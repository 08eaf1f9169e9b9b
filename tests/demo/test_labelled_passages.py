import pytest

from albert_tf.demo.corpora import label_passages


@pytest.fixture
def write(tmp_path):
    def write(name, word, documents):
        path = tmp_path / name
        path.write_text(
            "".join(
                f"{word} a{d}.\n{word} b{d}.\n{word} c{d}.\n{word} d{d}.\n\n"
                for d in range(documents)
            )
        )
        return path

    return write


def documents_of(passages):
    return {(label, text.split(".")[0][-1:]) for label, text in passages}


def test_passages_are_from_the_two_largest_files(write):
    files = [write("x.txt", "x", 9), write("y.txt", "y", 12)]
    files.append(write("small.txt", "z", 2))
    passages = label_passages(files, 12, 6, seed=3)
    assert passages.sources == ("y", "x")
    for name, size in (("train", 12), ("test", 6)):
        rows = getattr(passages, name)
        assert sorted(label for label, _ in rows) == [0] * (size // 2) + [1] * (
            size // 2
        )
        assert all(("y", "x")[label] == text[0] for label, text in rows)
    assert not documents_of(passages.train) & documents_of(passages.test)
    assert passages == label_passages(files, 12, 6, seed=3)
    assert passages != label_passages(files, 12, 6, seed=4)


def test_one_file_is_split_in_halves(write):
    passages = label_passages([write("x.txt", "x", 8)], 100, 100, seed=0)
    assert passages.sources == ("first half", "second half")
    assert {label for label, _ in passages.train} == {0, 1}
    for label, text in passages.train:
        assert (int(text.split(".")[0][-1]) >= 4) == bool(label)
