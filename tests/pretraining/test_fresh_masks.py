"""examples/fresh_masks.py: masks and sentence order drawn in every step."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.convert_records import convert_records
from albert_tf.data.example_arrays import ConvertDataConfig, ExampleArrays
from albert_tf.data.tokenized_documents import VocabularyTable
from albert_tf.errors import InputError
from albert_tf.layers.dropout import dropout_seeds
from albert_tf.models.base import AlbertModel
from albert_tf.objectives.masked_language_modeling import MaskedLanguageModeling
from albert_tf.objectives.objective import original_ids
from albert_tf.objectives.registry import load_objective_module, make_objective

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "fresh_masks.py"
SIZE = 96


@pytest.fixture(scope="module")
def examples(make_records, tmp_path_factory):
    folder = tmp_path_factory.mktemp("arrays") / "arrays"
    records = make_records(masking="dynamic", dupe_factor=10, max_seq_length=64)
    convert_records(ConvertDataConfig(input=str(records), output=folder))
    return folder


@pytest.fixture(scope="module")
def batch(examples):
    found = ExampleArrays(examples).batch(0, SIZE)
    return {name: tf.constant(x) for name, x in found.items()}


@pytest.fixture(scope="module")
def make_fresh(examples, tokenizer):
    load_objective_module(EXAMPLE)

    def make(**settings):
        return make_objective(
            "fresh_masks",
            {"vocabulary": str(examples), **settings},
            pair_task="sop",
            mask_id=tokenizer.mask_id,
        )

    return make


def pairs(batch, tokenizer):
    """Yields the segments of each row, as tuples of ids."""
    cls, sep = tokenizer.cls_id, tokenizer.sep_id
    for ids, types, mask in zip(
        *(
            np.asarray(batch[name])
            for name in ("input_word_ids", "input_type_ids", "input_mask")
        ),
        strict=True,
    ):
        length = mask.sum()
        assert mask[:length].all()
        assert not ids[length:].any()
        assert ids[0] == cls
        assert ids[length - 1] == sep
        second = types.sum()
        assert (types[length - second : length] == 1).all()
        first = ids[1 : length - second - 1] if second else ids[1 : length - 1]
        assert not second or ids[length - second - 1] == sep
        segments = tuple(first), tuple(ids[length - second : length - 1])
        assert not {cls, sep} & {*segments[0], *segments[1]}
        yield segments


def in_text_order(batch, tokenizer):
    ids = original_ids(batch)
    found = pairs({**batch, "input_word_ids": ids}, tokenizer)
    labels = np.asarray(batch["sentence_order_labels"])
    return [x[::-1] if y else x for x, y in zip(found, labels, strict=True)]


@pytest.mark.parametrize("partner_length", [0.0, 1.0])
def test_pairs_are_kept_swapped_or_given_another_second(
    batch, make_fresh, tokenizer, partner_length
):
    before = in_text_order(batch, tokenizer)
    objective = make_fresh(partner_length=partner_length)
    kinds = []
    for step in range(4):
        with dropout_seeds(tf.constant([1, step])):
            new = objective.draw_pairs(batch, original_ids(batch))
        after = list(pairs(new, tokenizer))
        labels = np.asarray(new["sentence_order_labels"])
        for row, (old, drawn) in enumerate(zip(before, after, strict=True)):
            if not old[1]:
                assert drawn == old
                assert not labels[row]
                continue
            other = before[row - 1][1]
            kind = [old, old[::-1], (old[0], other)].index(drawn)
            assert labels[row] == (kind > 0)
            kinds.append(kind)
    shares = np.bincount(kinds, minlength=3) / len(kinds)
    assert len(kinds) > 100
    assert shares[0] == pytest.approx(0.5, abs=0.1)
    assert (shares[2] > 0.05) == (partner_length == 1)


def test_what_is_masked_is_scored(batch, make_fresh, monkeypatch):
    """Also in pairs whose new second segment has another length."""
    objective = make_fresh(partner_length=1.0)
    seen = []
    monkeypatch.setattr(
        MaskedLanguageModeling,
        "terms",
        lambda self, model, batch, training: seen.append(batch),
    )
    changed = 0
    for step in range(4):
        with dropout_seeds(tf.constant([1, step])):
            objective.terms(None, batch, True)
        lengths = np.asarray(seen[-1]["input_mask"]).sum(1)
        changed += (lengths != np.asarray(batch["input_mask"]).sum(1)).sum()
        np.testing.assert_array_equal(
            seen[-1]["masked_lm_weights"], objective.weights(batch)["mlm"]
        )
    assert changed > 10


def test_masks_are_new_in_every_step(batch, make_fresh, tokenizer):
    objective = make_fresh()
    text = np.asarray(original_ids(batch))
    weights = np.asarray(objective.weights(batch)["mlm"])
    real = np.asarray(batch["input_mask"]).sum()
    picks = weights.shape[1]
    limit = np.minimum(np.asarray(batch["input_mask"]).sum(1) * 0.15, picks)
    assert weights.sum() == pytest.approx(limit.sum(), rel=0.1)
    special = [
        tokenizer.pad_id,
        tokenizer.cls_id,
        tokenizer.sep_id,
        tokenizer.mask_id,
    ]
    chosen, kept, masked = [], 0, 0
    for step in range(6):
        with dropout_seeds(tf.constant([2, step])):
            new = objective.draw_masks(batch, original_ids(batch), weights)
        ids, positions, labels = (
            np.asarray(new[name])
            for name in (
                "input_word_ids",
                "masked_lm_positions",
                "masked_lm_ids",
            )
        )
        used = weights > 0
        rows = np.nonzero(used)[0]
        np.testing.assert_array_equal(labels[used], text[rows, positions[used]])
        assert not np.isin(labels[used], special).any()
        cells = set(zip(rows, positions[used], strict=True))
        assert len(cells) == used.sum()  # No token is masked twice.
        changed = set(zip(*np.nonzero(ids != text), strict=True))
        assert changed <= cells
        kept += used.sum() - len(changed)
        masked += (ids[rows, positions[used]] == tokenizer.mask_id).sum()
        chosen.append(cells)
    assert len(chosen[0] & chosen[1]) < len(chosen[0]) / 2
    total = 6 * weights.sum()
    assert masked / total == pytest.approx(0.8, abs=0.04)
    assert kept / total == pytest.approx(0.1, abs=0.04)
    assert real > 1000


def test_whole_words_are_masked(batch, make_fresh, tokenizer):
    """Of the words with a masked piece, only a row's last may be cut."""
    objective = make_fresh()
    weights = np.asarray(objective.weights(batch)["mlm"])
    with dropout_seeds(tf.constant([3, 0])):
        new = objective.draw_masks(batch, original_ids(batch), weights)
    table = VocabularyTable.from_tokenizer(tokenizer)
    begins = table.word_starts.copy()
    begins[[tokenizer.pad_id, tokenizer.sep_id]] = True
    for ids, positions, used in zip(
        np.asarray(original_ids(batch)),
        np.asarray(new["masked_lm_positions"]),
        weights > 0,
        strict=True,
    ):
        chosen = set(positions[used].tolist())
        following = {position + 1 for position in chosen} - chosen
        missing = [x for x in following if not begins[ids[x]]]
        assert len(missing) <= 1


@pytest.mark.usefixtures("without_graphs")
def test_its_loss_is_that_of_the_objective(batch, make_fresh, tiny_model):
    objective = make_fresh()
    model: AlbertModel = objective.create_model(tiny_model)
    totals = objective.normalizers(batch)
    first, second, again = (
        objective(model, batch, totals, tf.constant([0, step]))[1]
        for step in (1, 2, 1)
    )
    assert float(first["mlm_loss"][1]) == float(totals["mlm"])
    assert float(first["mlm_loss"][0]) == float(again["mlm_loss"][0])
    assert float(first["mlm_loss"][0]) != float(second["mlm_loss"][0])


def test_its_draws_in_a_graph_are_the_same(batch, make_fresh):
    objective = make_fresh(partner_length=1.0)

    def draw(batch):
        with dropout_seeds(tf.constant([1, 2])):
            ids = original_ids(batch)
            weights = objective.weights(batch)["mlm"]
            pairs = objective.draw_pairs(batch, ids)
            return {**pairs, **objective.draw_masks(batch, ids, weights)}

    eager = draw(batch)
    graph = tf.function(draw)(batch)
    for name, value in eager.items():
        np.testing.assert_array_equal(graph[name], value)


def test_a_pair_is_not_its_own_partner(batch, make_fresh):
    objective = make_fresh(partner_length=1.0)
    with dropout_seeds(tf.constant([1, 0])):
        for row in range(SIZE):
            one = {name: x[row : row + 1] for name, x in batch.items()}
            ids = original_ids(one)
            new = objective.draw_pairs(one, ids)
            label = np.asarray(one["sentence_order_labels"])
            was_swapped = int(new["sentence_order_labels"][0]) != int(label[0])
            is_same = np.array_equal(new["input_word_ids"], ids)
            assert is_same != was_swapped


def test_it_needs_the_vocabulary(make_fresh):
    with pytest.raises(InputError, match="fresh_masks: vocabulary=FOLDER"):
        make_fresh(vocabulary="")


@pytest.mark.parametrize("share", [-1.0, 0.0, 1.5])
def test_share_of_masked_tokens_has_bounds(make_fresh, share):
    """Special tokens and padding would be masked for want of others."""
    with pytest.raises(InputError, match="masked_lm_prob=.* must be in"):
        make_fresh(masked_lm_prob=share)


def test_other_records_are_refused(examples, batch, make_fresh):
    with pytest.raises(InputError, match="with --sentence_order=sop or none"):
        make_objective(
            "fresh_masks",
            {"vocabulary": str(examples)},
            pair_task="nsp",
            mask_id=4,
        )
    with pytest.raises(InputError, match="create them with --nopack"):
        make_fresh().weights({**batch, "sequence_ids": batch["input_mask"]})
