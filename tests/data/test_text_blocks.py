import itertools

from albert_tf.data.documents import find_text_files, read_documents
from albert_tf.data.text_blocks import read_blocks


def blocks_of(corpus, block_bytes=5000, **settings):
    files = find_text_files(f"{corpus}/*")
    return list(read_blocks(files, block_bytes, **settings))


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


def test_repeated_texts_are_in_the_same_split(tmp_path):
    names = []
    for name in ("a.txt", "b.txt"):
        lines = [f"Document {number}." for number in range(200)]
        (tmp_path / name).write_text("\n\n".join(lines), "utf-8")
        names.append(tmp_path / name)
    found = {"train": set(), "heldout": set()}
    for block in read_blocks(names, 999, heldout_fraction=0.5):
        found[block.split].update(map(tuple, block.documents))
    assert not found["train"] & found["heldout"]
    assert len(found["train"] | found["heldout"]) == 200
