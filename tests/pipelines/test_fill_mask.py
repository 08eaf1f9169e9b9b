import keras
import numpy as np
import pytest

import albert_tf
from albert_tf.errors import InputError
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrainer import AlbertPretrainer


def test_masks_are_filled_with_the_most_probable_tokens(checkpoint, fill):
    text = "The [MASK] is imported once."
    fills = fill(text, top_k=3)
    model = AlbertPretrainer.from_pretrained(checkpoint)
    tokenizer = model.tokenizer.with_settings(match_special_tokens=True)
    inputs = tokenizer([text])
    (position,) = np.flatnonzero(
        inputs["input_word_ids"][0] == tokenizer.mask_id
    )
    logits = model({**inputs, "masked_lm_positions": np.array([[position]])})
    scores = keras.ops.softmax(logits["mlm_logits"][0, 0]).numpy()
    best = np.argsort(-scores)[:3]
    assert [x["token"] for x in fills] == best.tolist()
    # Rows without padding are summed in another order.
    np.testing.assert_allclose(
        [x["score"] for x in fills], scores[best], rtol=1e-4
    )
    inputs["input_word_ids"][0, position] = best[0]
    ids = inputs["input_word_ids"][0, 1:-1]
    assert fills[0]["sequence"] == tokenizer.decode(ids)
    assert fills[0]["token_str"] == tokenizer.decode([best[0]])


def test_several_masks_and_texts(fill):
    one, two = "A [MASK] is one.", "The [MASK] of a [MASK] is here."
    filled = fill([one, two], top_k=2)
    assert [len(x) for x in filled[1]] == [2, 2]
    for mine, alone in zip(filled[0], fill(one, top_k=2), strict=True):
        assert mine["token"] == alone["token"]
        np.testing.assert_allclose(mine["score"], alone["score"], rtol=1e-4)
    assert fill([]) == []


@pytest.mark.parametrize(
    ("texts", "top_k", "message"),
    [
        (["A [MASK].", "nothing"], 5, r"the text 'nothing' has no \[MASK\]"),
        (["long " * 80 + "[MASK]"], 5, "1 are not within the first 64 tokens"),
        (["[MASK] " + "long " * 80 + "[MASK]"], 5, r"2 \[MASK\], of which 1 "),
        (["A [MASK]."], 0, r"top_k=0 must be in \[1, 600\]"),
        ([3], 1, r"texts\[0\]=3 must be a text, not int"),
        (3, 1, "texts=3 must be a text or a list of texts"),
        (None, 1, "texts=None must be a text or a list of texts"),
        (b"A [MASK].", 1, "must be a text or a list of texts"),
        ("A [MASK].", "a", "top_k='a' must be an integer"),
        ("A [MASK].", 2.0, "top_k=2.0 must be an integer"),
    ],
)
def test_invalid_arguments_of_fill_mask(fill, texts, top_k, message):
    with pytest.raises(InputError, match=message):
        fill(texts, top_k=top_k)


def test_rows_of_the_table_that_are_no_pieces(checkpoint, tmp_path):
    """Tables are often padded, to a multiple of 64 for example."""
    tokenizer = albert_tf.load_tokenizer(checkpoint)
    config = AlbertEncoder.from_pretrained(checkpoint).config
    model = AlbertPretrainer(config.replace(vocab_size=640))
    model.save_pretrained(tmp_path / "padded", tokenizer)
    padded = albert_tf.FillMask(tmp_path / "padded")
    fills = padded("A [MASK].", top_k=600)
    assert {x["token"] for x in fills} == set(range(600))
    assert sum(x["score"] for x in fills) == pytest.approx(1, abs=1e-4)
    with pytest.raises(InputError, match=r"top_k=601 must be in \[1, 600\]"):
        padded("A [MASK].", top_k=601)


@pytest.mark.peer
def test_fill_mask_equals_transformers(checkpoint, fill):
    transformers = pytest.importorskip("transformers")
    theirs = transformers.pipeline(
        "fill-mask",
        transformers.AlbertForMaskedLM.from_pretrained(checkpoint),
        tokenizer=transformers.AutoTokenizer.from_pretrained(checkpoint),
        top_k=4,
    )
    text = "the [MASK] of the expression is returned."
    for mine, their in zip(fill(text, top_k=4), theirs(text), strict=True):
        assert mine["token"] == their["token"]
        np.testing.assert_allclose(mine["score"], their["score"], rtol=1e-4)
        assert mine["token_str"] == their["token_str"]
        assert mine["sequence"] == their["sequence"]
