"""The tokenizer in the format of Hugging Face's `tokenizers` library."""

import base64
import json
from typing import Any

from sentencepiece import sentencepiece_model_pb2

from albert_tf.text.digit_comma import WORD_MARK
from albert_tf.text.tokenizer import AlbertTokenizer

TOKENIZER_JSON = "tokenizer.json"

# What Python's `str.split` splits at.
WHITESPACE = r"[\s\x1c-\x1f\x85]+"
# So improbable that a piece is only taken where there is no other.
PENALTY = -100.0


def tokenizer_json(tokenizer: AlbertTokenizer) -> bytes:
    """Returns a `tokenizer.json`, as near to the tokenizer as the format gets.

    transformers 5 has no slow tokenizer. From `spiece.model` alone it leaves
    commas at their digits, and cuts texts at `-`, `(` and other pieces of their
    own as if a word began after them: half of all English sentences get other
    ids. Here a piece that the comma rule splits has a penalty, as in the files
    of transformers 4, so that others are taken in its place; and a text is cut
    at special tokens only, unless `cut_at_user_defined_pieces` is set. Then
    these are added tokens that are not special, as both transformers write it.

    Not expressed are `lower_characters_first`, `match_special_tokens=False`
    (they always match) and the two ways of the comma rule inside words. The
    normalizer is for the library itself and for transformers 4: transformers 5
    has its own, by `do_lower_case` and `keep_accents`, which always replaces
    quotes.
    """
    model = sentencepiece_model_pb2.ModelProto.FromString(tokenizer.model_bytes)
    special = {
        *(tokenizer.pad_id, tokenizer.unk_id, tokenizer.mask_id),
        *(tokenizer.cls_id, tokenizer.sep_id),
    }
    described = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": piece_id,
                "content": tokenizer.id_to_piece(piece_id),
                "single_word": False,
                "lstrip": piece_id == tokenizer.mask_id,
                "rstrip": False,
                "normalized": False,
                "special": piece_id in special,
            }
            for piece_id in sorted(
                special.union(tokenizer.special_tokens.ids.values())
            )
        ],
        "normalizer": {
            "type": "Sequence",
            "normalizers": _normalizers(
                tokenizer, model.normalizer_spec.precompiled_charsmap
            ),
        },
        "pre_tokenizer": {**_METASPACE, "split": False},
        "post_processor": _template(tokenizer),
        "decoder": {**_METASPACE, "split": True},
        "model": {
            "type": "Unigram",
            "unk_id": tokenizer.unk_id,
            "vocab": [
                [p.piece, p.score + PENALTY * (i in tokenizer.splits)]
                for i, p in enumerate(model.pieces)
            ],
            "byte_fallback": False,
        },
    }
    return (json.dumps(described, ensure_ascii=False) + "\n").encode()


_METASPACE = {
    "type": "Metaspace",
    "replacement": WORD_MARK,
    "prepend_scheme": "always",
}


def _normalizers(
    tokenizer: AlbertTokenizer, charsmap: bytes
) -> list[dict[str, Any]]:
    """Returns what `Normalizer` does, then what SentencePiece does."""

    def replace(kind: str, pattern: str, content: str) -> dict[str, Any]:
        return {
            "type": "Replace",
            "pattern": {kind: pattern},
            "content": content,
        }

    normalizer = tokenizer.normalizer
    steps = [
        replace("Regex", WHITESPACE, " "),
        {"type": "Strip", "strip_left": True, "strip_right": True},
    ]
    if normalizer.replace_latex_quotes:
        steps += [replace("String", quote, '"') for quote in ("``", "''")]
    if normalizer.strip_accents:
        steps += [{"type": "NFKD"}, {"type": "StripAccents"}]
    if normalizer.do_lower_case:
        steps.append({"type": "Lowercase"})
    if charsmap:
        encoded = base64.b64encode(charsmap).decode()
        steps.append({"type": "Precompiled", "precompiled_charsmap": encoded})
    return [
        *steps,
        replace("Regex", " {2,}", " "),
        {"type": "Strip", "strip_left": True, "strip_right": True},
    ]


def _template(tokenizer: AlbertTokenizer) -> dict[str, Any]:
    """Returns `[CLS] A [SEP]` and `[CLS] A [SEP] B [SEP]`, with types."""

    def special(token: str, segment: int) -> dict[str, Any]:
        return {"SpecialToken": {"id": token, "type_id": segment}}

    def text(name: str, segment: int) -> dict[str, Any]:
        return {"Sequence": {"id": name, "type_id": segment}}

    first = [special("[CLS]", 0), text("A", 0), special("[SEP]", 0)]
    ids = {"[CLS]": tokenizer.cls_id, "[SEP]": tokenizer.sep_id}
    return {
        "type": "TemplateProcessing",
        "single": first,
        "pair": [*first, text("B", 1), special("[SEP]", 1)],
        "special_tokens": {
            token: {"id": token, "ids": [piece_id], "tokens": [token]}
            for token, piece_id in ids.items()
        },
    }
