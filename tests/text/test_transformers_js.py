"""Ids of transformers.js, from the files of exports for it."""

import re
import unicodedata

import pytest

from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.tokenizer_config import (
    HUGGING_FACE_SLOW,
    HUGGING_FACE_SLOW_WORDPIECE,
)
from albert_tf.text.tokenizer_files import tokenizer_files
from albert_tf.text.tokenizer_json import tokenizer_json, wordpiece_json
from albert_tf.text.wordpiece_tokenizer import AlbertWordPieceTokenizer

pytestmark = pytest.mark.peer

# What it takes for special tokens, in any case and in unusual characters.
SPECIAL = r"<pad>|<unk>|\[(pad|unk|cls|sep|mask)\]"
# In words of WordPiece, it knows no rare ideographs, and lower-cases a final
# sigma in its own way.
UNLIKE = {"spiece.model": SPECIAL, "vocab.txt": rf"{SPECIAL}|σ|ς|[^\0-\uffff]"}


@pytest.mark.parametrize("name", ["spiece.model", "vocab.txt"])
def test_ids(
    name,
    clean_model,
    odd_vocabulary,
    vectors,
    sentences,
    special_texts,
    odd_texts,
    transformers_js,
    tmp_path,
):
    if name == "spiece.model":
        tokenizer = AlbertTokenizer.from_file(clean_model, **HUGGING_FACE_SLOW)
        content = tokenizer_json(tokenizer)
    else:
        tokenizer = AlbertWordPieceTokenizer(
            odd_vocabulary, **HUGGING_FACE_SLOW_WORDPIECE
        )
        content = wordpiece_json(tokenizer)
    files = tokenizer_files(tokenizer, max_length=512)
    files["tokenizer.json"] = content
    files["config.json"] = b'{"model_type": "albert"}'
    for file, content in files.items():
        (tmp_path / file).write_bytes(content)
    texts = [*sentences("en", 500), *sentences("zh", 100), *vectors]
    texts += ["हिन्दी में", "ภาษาที่", "தமிழ் மொழி", "বাংলা", "မြန်မာ"]
    hostile = [
        text.encode(errors="replace").decode()
        for text in (*special_texts[:2000], *odd_texts[:2000])
    ]
    texts += hostile
    job = {"task": "tokenize", "folder": str(tmp_path), "inputs": texts}
    (found,) = transformers_js([job])
    different = [
        text
        for text, ids, expected in zip(
            texts, found, tokenizer.encode(texts), strict=True
        )
        if ids != expected
    ]
    assert len(different) < 0.2 * len(hostile)
    unlike = re.compile(UNLIKE[name], re.IGNORECASE)
    for text in different:
        assert unlike.search(unicodedata.normalize("NFKD", text)), ascii(text)
