import itertools
import shutil

import numpy as np
import pytest

from albert_tf.analysis.record_report import (
    example_text,
    examples_text,
    plot_records,
    record_table,
)
from albert_tf.analysis.records import MaskedExample, analyze_records
from albert_tf.data.records import open_records
from albert_tf.data.tokenized_documents import VocabularyTable


@pytest.fixture(scope="module")
def opened(request, records, make_records):
    """Records; those that are masked while they are read unless "static"."""
    kind = getattr(request, "param", "static")
    if kind == "static":
        return open_records(records)
    pack = kind == "packed"
    return open_records(
        make_records(masking="dynamic", dupe_factor=10, pack=pack)
    )


def spans_of(row):
    """Yields (tokens, words) of each span in a row of (masked, begins)."""
    for masked, group in itertools.groupby(row, key=lambda cell: cell[0]):
        if masked:
            begins = [begin for _, begin in group]
            yield len(begins), 1 + sum(begins[1:])


@pytest.mark.parametrize(
    "opened",
    ["static", "dynamic", pytest.param("packed", marks=pytest.mark.long)],
    indirect=True,
)
def test_counts_are_those_of_the_batches(opened):
    found = analyze_records(opened, num_examples=3)
    table = VocabularyTable.from_tokenizer(opened.tokenizer)
    begins = table.word_starts.tolist()
    lengths, spans, kept, masked = [], [], 0, 0
    labels = np.zeros(2, int)
    sequences, sequence_lengths = [], []
    batches = opened.dataset(1024, training=False).as_numpy_iterator()
    for batch in batches:
        for row in range(len(batch["input_mask"])):
            ids = batch["input_word_ids"][row].tolist()
            original, is_masked = list(ids), [False] * len(ids)
            for position, label, weight in zip(
                batch["masked_lm_positions"][row].tolist(),
                batch["masked_lm_ids"][row].tolist(),
                batch["masked_lm_weights"][row].tolist(),
                strict=True,
            ):
                if weight:
                    original[position], is_masked[position] = label, True
                    kept += ids[position] == label
                    masked += ids[position] == opened.tokenizer.mask_id
            cells = [
                (m, begins[x]) for m, x in zip(is_masked, original, strict=True)
            ]
            spans += spans_of(cells)
            lengths.append(int(batch["input_mask"][row].sum()))
            numbers = batch.get("sequence_ids", batch["input_mask"])[row]
            sequences.append(numbers.max())
            sequence_lengths += np.bincount(numbers)[-numbers.max() :].tolist()
            orders, weights = (
                np.atleast_1d(batch[f"sentence_order_{name}"][row])
                for name in ("labels", "weights")
            )
            labels += np.bincount(orders[weights > 0], minlength=2)
    tokens, words = np.array(spans).T
    assert found.num_records == found.num_measured == len(lengths)
    size = len(found.lengths)
    for histogram, values in (
        (found.lengths, lengths),
        (found.sequences, sequences),
        (found.sequence_lengths, sequence_lengths),
        (found.span_tokens, tokens),
        (found.span_words, words),
    ):
        assert histogram.tolist() == np.bincount(values, None, size).tolist()
    assert found.labels.tolist() == labels.tolist()
    assert (found.kept, found.replaced[found.mask_id]) == (kept, masked)
    assert sum(found.label_counts.values()) == tokens.sum()
    assert len(found.examples) == 3


@pytest.mark.parametrize("opened", ["static", "dynamic"], indirect=True)
def test_shares(opened):
    found = analyze_records(opened)
    split = opened.manifest["splits"]["train"]
    assert found.kept_fraction == pytest.approx(split["kept_fraction"])
    assert found.masking_rate == pytest.approx(0.15, abs=0.02)
    shares = list(found.replacement_shares.values())
    assert shares == pytest.approx([0.8, 0.1, 0.1], abs=0.02)
    assert found.swapped_fraction == pytest.approx(0.5, abs=0.05)
    assert 0.5 < found.used_pieces <= 1
    table = record_table(found)
    assert f"{found.padding_fraction:.1%}" in table
    assert max(map(len, table.splitlines())) <= 80


def test_the_first_records_without_examples(opened):
    found = analyze_records(opened, max_records=7, num_examples=0)
    assert found.num_measured == found.lengths.sum() == 7
    assert found.num_records > 7
    assert not found.examples
    assert "statistics of the first 7" in record_table(found)


def test_records_of_a_mixture_are_drawn_as_in_training(records, make_records):
    other = make_records(masking="static", seed=1)
    mixture = open_records(f"a=9:{records},b=1:{other}")
    found = analyze_records(mixture, max_records=100)
    batch = next(iter(mixture.dataset(100)))
    for histogram, values in (
        (found.lengths, batch["input_mask"].numpy().sum(1)),
        (found.predictions, batch["masked_lm_weights"].numpy().sum(1)),
    ):
        expected = np.bincount(values.astype(int), None, len(histogram))
        assert histogram.tolist() == expected.tolist()
    ids = batch["input_word_ids"][0, : len(found.examples[0].ids)]
    assert found.examples[0].ids.tolist() == ids.numpy().tolist()
    assert analyze_records(mixture).num_measured == found.num_records


def test_plot(opened, tmp_path):
    pytest.importorskip("matplotlib", reason="pip install .[plots]")
    found = analyze_records(opened, max_records=100)
    plot_records(found, tmp_path / "data.png")
    assert (tmp_path / "data.png").stat().st_size > 10_000


def test_records_without_a_manifest(records, tokenizer, tmp_path):
    name = "pretraining-00000-of-00008.tfrecord"
    shutil.copy(records / name, tmp_path)
    alone = open_records(str(tmp_path / "*.tfrecord"))
    bare = analyze_records(alone)
    known = analyze_records(alone, tokenizer=tokenizer)
    assert bare.span_words is bare.used_pieces is bare.kept_fraction is None
    assert bare.mask_id == known.mask_id == tokenizer.mask_id
    assert bare.replacement_shares == known.replacement_shares
    assert "taken to be" in " ".join(record_table(bare).split())
    assert f" {tokenizer.cls_id} " in examples_text(bare)
    assert "[CLS] " in examples_text(known)


def test_marks(tokenizer):
    def piece(text):
        return tokenizer.convert_tokens_to_ids(text)

    pieces = ["[CLS]", "▁the", "s", "▁", "▁a", "▁", "s", "[SEP]"]
    original = np.array([piece(each) for each in pieces])
    ids = original.copy()
    ids[[1, 3, 4]] = piece("[MASK]"), piece("[MASK]"), piece("▁the")
    example = MaskedExample(ids, original, np.isin(range(8), [1, 2, 3, 4]), 0)
    mask = tokenizer.mask_id
    assert example_text(example, tokenizer, mask) == (
        "[CLS] {the}{s=} {▁} {a>the} s [SEP]"
    )
    assert example_text(example, None, mask) == (
        f"{ids[0]} {{{original[1]}}} {{{original[2]}=}} {{{original[3]}}} "
        f"{{{original[4]}>{ids[4]}}} {ids[5]} "
        f"{ids[6]} {ids[7]}"
    )
