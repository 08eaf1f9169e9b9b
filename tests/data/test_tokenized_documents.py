import numpy as np

from albert_tf.data.tokenized_documents import TokenizedDocuments


def test_sentences_lie_end_to_end(documents, tokenizer):
    tokenized = TokenizedDocuments.from_text(documents, tokenizer)
    assert tokenized.num_documents == len(documents)
    assert tokenized.num_sentences == sum(map(len, documents))
    sentence = 0
    for number, document in enumerate(documents):
        assert tokenized.document_starts[number] == sentence
        for text in document:
            begin, end = tokenized.sentence_starts[sentence : sentence + 2]
            assert tokenized.tokens[begin:end].tolist() == tokenizer.encode(
                text
            )
            sentence += 1
    assert tokenized.sentence_starts[-1] == len(tokenized.tokens)


def test_what_has_no_token_is_left_out(tokenizer):
    # A lone combining accent is nothing once accents are stripped.
    nothing = "\u0301"
    assert tokenizer.encode(nothing) == []
    texts = [[nothing, "A ba."], [nothing, nothing], ["Ro.", nothing, "Ka."]]
    tokenized = TokenizedDocuments.from_text(texts, tokenizer)
    kept = TokenizedDocuments.from_text([["A ba."], ["Ro.", "Ka."]], tokenizer)
    for name in ("tokens", "sentence_starts", "document_starts"):
        np.testing.assert_array_equal(
            getattr(tokenized, name), getattr(kept, name)
        )


def test_no_text_at_all(tokenizer):
    for documents in ([], [["\u0301"]]):
        tokenized = TokenizedDocuments.from_text(documents, tokenizer)
        assert tokenized.num_documents == tokenized.num_sentences == 0
        assert tokenized.tokens.dtype == np.int32
