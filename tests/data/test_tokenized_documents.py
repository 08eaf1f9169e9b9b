import json

import numpy as np

from albert_tf.data.tokenized_documents import (
    TokenizedDocuments,
    VocabularyTable,
    starts_word,
)
from albert_tf.text.wordpiece_tokenizer import AlbertWordPieceTokenizer


def test_sentences_are_concatenated(documents, small_tokenizer):
    tokenized = TokenizedDocuments.from_text(documents, small_tokenizer)
    assert tokenized.num_documents == len(documents)
    assert tokenized.num_sentences == sum(map(len, documents))
    sentence = 0
    for number, document in enumerate(documents):
        assert tokenized.document_starts[number] == sentence
        for text in document:
            begin, end = tokenized.sentence_starts[sentence : sentence + 2]
            assert tokenized.tokens[
                begin:end
            ].tolist() == small_tokenizer.encode(text)
            sentence += 1
    assert tokenized.sentence_starts[-1] == len(tokenized.tokens)


def test_sentences_without_tokens_are_left_out(small_tokenizer):
    # A single combining accent is removed when accents are stripped.
    nothing = "\u0301"
    assert small_tokenizer.encode(nothing) == []
    texts = [[nothing, "A ba."], [nothing, nothing], ["Ro.", nothing, "Ka."]]
    tokenized = TokenizedDocuments.from_text(texts, small_tokenizer)
    kept = [["A ba."], ["Ro.", "Ka."]]
    expected = TokenizedDocuments.from_text(kept, small_tokenizer)
    np.testing.assert_equal(vars(tokenized), vars(expected))


def test_no_text_at_all(small_tokenizer):
    for documents in ([], [["\u0301"]]):
        tokenized = TokenizedDocuments.from_text(documents, small_tokenizer)
        assert tokenized.num_documents == tokenized.num_sentences == 0
        assert tokenized.tokens.dtype == np.int32


def test_word_starts_are_the_originals(shared, google_tokenizer):
    path = shared("golden", "google", "tokenization", "word_start.json")
    golden = json.loads(path.read_text("utf-8"))
    wanted = np.array([flag == "1" for flag in golden["flags"]])
    table = VocabularyTable.from_tokenizer(google_tokenizer)
    found = table.word_starts[golden["first_id"] :: golden["step"]]
    np.testing.assert_array_equal(found, wanted)


def test_starts_word():
    # An apostrophe is not in the original's table of punctuation.
    assert all(map(starts_word, "▁the ▁ . ' <unk> é 日 9 a9".split()))
    assert not any(map(starts_word, "ing ING .com [MASK]".split()))
    # Letters of scripts with spaces, and the marks and joiners between them.
    inside = "é ing ющий ς ी क्\u200dष یم 한 ığı".split()
    assert not any(starts_word(piece, "spaces") for piece in inside)
    assert all(map(starts_word, inside[2:] + inside[:1]))
    outside = "▁при ▁ . 日 々 かな ー ไทย 9 a9 । й9 <unk>".split()
    assert all(starts_word(piece, "spaces") for piece in outside)


def test_word_pieces_continue_with_two_hashes():
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    # A vocabulary of characters may have a ▁, too.
    pieces = [*special, "play", "##ing", "中", "##文", "▁"]
    tokenizer = AlbertWordPieceTokenizer("\n".join(pieces).encode())
    table = VocabularyTable.from_tokenizer(tokenizer)
    starts = [*[True] * 5, True, False, True, False, True]
    np.testing.assert_array_equal(table.word_starts, starts)


def test_text_ids_leave_out_what_text_never_has(small_tokenizer):
    table = VocabularyTable.from_tokenizer(small_tokenizer)
    special = {table.pad_id, table.cls_id, table.sep_id, table.mask_id}
    assert len(special) == 4
    assert (
        set(table.text_ids) == set(range(small_tokenizer.vocab_size)) - special
    )
