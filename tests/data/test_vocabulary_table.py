import json

import numpy as np
import pytest

from albert_tf.data.vocabulary_table import (
    VocabularyTable,
    starts_word,
)
from albert_tf.text.wordpiece_tokenizer import WordPieceTokenizer


def test_word_starts_are_the_originals(shared, google_tokenizer):
    path = shared("golden", "google", "tokenization", "word_start.json")
    golden = json.loads(path.read_text("utf-8"))
    wanted = np.array([flag == "1" for flag in golden["flags"]])
    table = VocabularyTable.from_tokenizer(google_tokenizer)
    found = table.word_starts[golden["first_id"] :: golden["step"]]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("piece", "expected"),
    [
        ("▁the", True),
        ("▁", True),
        ("ing", False),
        ("ING", False),
        (".", True),
        (".com", False),
        ("'", True),  # not in the original's table of punctuation
        ("<unk>", True),
        ("[MASK]", False),
        ("é", True),
        ("日", True),
        ("9", True),
        ("a9", True),
    ],
)
def test_starts_word(piece, expected):
    assert starts_word(piece) is expected


def test_word_pieces_continue_with_two_hashes():
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    # A vocabulary of characters may have a ▁, too.
    pieces = [*special, "play", "##ing", "中", "##文", "▁"]
    tokenizer = WordPieceTokenizer("\n".join(pieces).encode())
    table = VocabularyTable.from_tokenizer(tokenizer)
    starts = [*[True] * 5, True, False, True, False, True]
    np.testing.assert_array_equal(table.word_starts, starts)


def test_text_ids_leave_out_what_text_never_has(tokenizer):
    table = VocabularyTable.from_tokenizer(tokenizer)
    special = {table.pad_id, table.cls_id, table.sep_id, table.mask_id}
    assert len(special) == 4
    assert set(table.text_ids) == set(range(tokenizer.vocab_size)) - special
