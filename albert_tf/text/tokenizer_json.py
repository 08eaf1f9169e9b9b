"""`tokenizer.json`, the format of Hugging Face's `tokenizers`."""

from __future__ import annotations

import base64
import functools
import itertools
import json
import sys
import unicodedata
from collections.abc import Container
from typing import Any

from sentencepiece import sentencepiece_model_pb2

from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.sentencepiece_model import WORD_MARK
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.wordpiece_tokenizer import (
    CONTINUATION,
    AlbertWordPieceTokenizer,
)

TOKENIZER_JSON = "tokenizer.json"
WHITESPACE = r"[\s\x1c-\x1f\x85]+"  # As in Python's `str.split`.
# How `accents_pattern` begins, whatever the release of Unicode.
FIRST_ACCENTS = "[\u0300-\u034e"
# Added to the score of a piece that is used only if there is no alternative.
PENALTY = -100.0
_METASPACE = {
    "type": "Metaspace",
    "replacement": WORD_MARK,
    "prepend_scheme": "always",
}
_HEAD = {"version": "1.0", "truncation": None, "padding": None}


def has_tokenizer_json(tokenizer: AlbertTokenizer) -> bool:
    """Returns whether a `tokenizer.json` would give the tokenizer's ids.

    It would not with byte fallback, or with user-defined pieces of several
    characters in a BPE vocabulary, which are no merges.
    """
    model = sentencepiece_model_pb2.ModelProto.FromString(tokenizer.model_bytes)
    if model.trainer_spec.byte_fallback:
        return False
    is_bpe = model.trainer_spec.model_type == model.trainer_spec.BPE
    return not is_bpe or not any(
        p.type == p.USER_DEFINED and len(p.piece) > 1 for p in model.pieces
    )


def tokenizer_json(tokenizer: AlbertTokenizer) -> bytes:
    """Returns a `tokenizer.json` that approximates a tokenizer.

    transformers 5 has no slow tokenizer. Given only `spiece.model`, it does not
    split commas from digits, and begins a new word after `-`, `(` and other
    user-defined pieces, so that half of all English sentences get other ids.
    Therefore the pieces that the comma rule splits have a penalty here, as in
    the files of transformers 4, so that other pieces are used. Texts are split
    only at special tokens, unless `cut_at_user_defined_pieces` is set: then
    user-defined pieces are non-special added tokens, as both releases of
    transformers save them.

    In a byte-pair vocabulary, a piece that the comma rule splits is never
    merged, which may change other pieces of texts with a digit before a comma.

    The format cannot express `lower_characters_first`,
    `match_special_tokens=False` and the difference between `google` and
    `corrected` commas. Other ids differ, too:

    - The normalizer applies to the `tokenizers` library, to transformers.js and
      to transformers 4. transformers 5 derives its own from `do_lower_case` and
      `keep_accents`: it always replaces quotes, and with accents it drops all
      combining marks, such as the vowel signs of Hindi, Thai and Tamil.
    - Where two ways to split a word have the same score, the libraries choose
      another than SentencePiece: for some numbers, such as 5,777 or 999.
    - The `tokenizers` library never lower-cases a sigma to a final one ("ς").
    - If accents are kept, a ligature or fraction before a combining mark is not
      decomposed: the libraries apply the charsmap to grapheme clusters.
    """
    model = sentencepiece_model_pb2.ModelProto.FromString(tokenizer.model_bytes)
    special = {
        *(tokenizer.pad_id, tokenizer.unk_id, tokenizer.mask_id),
        *(tokenizer.cls_id, tokenizer.sep_id),
    }
    config = {
        **_HEAD,
        "added_tokens": [
            _added_token(
                tokenizer,
                piece_id,
                lstrip=piece_id == tokenizer.mask_id,
                special=piece_id in special,
            )
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
        "model": _library_model(model, tokenizer.unk_id, tokenizer.splits),
    }
    return (json.dumps(config, ensure_ascii=False) + "\n").encode()


def wordpiece_json(tokenizer: AlbertWordPieceTokenizer) -> bytes:
    """Returns a `tokenizer.json` for a WordPiece tokenizer.

    The library's rules are those of `rules="hugging_face"`. The format cannot
    express `match_special_tokens=False`.
    """
    normalizer = tokenizer.normalizer
    config = {
        **_HEAD,
        "added_tokens": [
            _added_token(tokenizer, piece_id)
            for piece_id in sorted(tokenizer.special_tokens.ids.values())
        ],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": normalizer.tokenize_chinese_chars,
            "strip_accents": normalizer.strip_accents,
            "lowercase": normalizer.do_lower_case,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": _template(tokenizer),
        "decoder": {
            "type": "WordPiece",
            "prefix": CONTINUATION,
            "cleanup": True,
        },
        "model": {
            "type": "WordPiece",
            "unk_token": tokenizer.id_to_piece(tokenizer.unk_id),
            "continuing_subword_prefix": CONTINUATION,
            "max_input_chars_per_word": tokenizer.max_characters_per_word,
            "vocab": tokenizer.get_vocab(),
        },
    }
    return (json.dumps(config, ensure_ascii=False) + "\n").encode()


def _added_token(
    tokenizer: Tokenizer,
    piece_id: int,
    *,
    lstrip: bool = False,
    special: bool = True,
) -> dict[str, Any]:
    return {
        "id": piece_id,
        "content": tokenizer.id_to_piece(piece_id),
        "single_word": False,
        "lstrip": lstrip,
        "rstrip": False,
        "normalized": False,
        "special": special,
    }


def _normalizers(
    tokenizer: AlbertTokenizer, charsmap: bytes
) -> list[dict[str, Any]]:
    """Returns the steps of `Normalizer`, followed by SentencePiece's."""

    def replace(syntax: str, pattern: str, by: str) -> dict[str, Any]:
        return {"type": "Replace", "pattern": {syntax: pattern}, "content": by}

    normalizer = tokenizer.normalizer
    steps = [
        replace("Regex", WHITESPACE, " "),
        {"type": "Strip", "strip_left": True, "strip_right": True},
    ]
    if normalizer.replace_latex_quotes:
        steps += [replace("String", quote, '"') for quote in ("``", "''")]
    if normalizer.strip_accents:
        # `StripAccents` would drop vowel signs, too.
        accents = replace("Regex", accents_pattern(), "")
        steps += [{"type": "NFKD"}, accents]
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


@functools.cache
def accents_pattern() -> str:
    """Returns a regular expression of what `Normalizer` drops as accents."""
    code_points = [
        c for c in range(sys.maxunicode + 1) if unicodedata.combining(chr(c))
    ]
    runs = itertools.groupby(enumerate(code_points), lambda x: x[1] - x[0])
    ranges = []
    for _, run in runs:
        (_, first), *others = run
        last = f"-{chr(others[-1][1])}" if others else ""
        ranges.append(chr(first) + last)
    return f"[{''.join(ranges)}]"


def _template(tokenizer: Tokenizer) -> dict[str, Any]:
    """Returns the templates `[CLS] A [SEP]` and `[CLS] A [SEP] B [SEP]`."""

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


def _library_model(
    model: sentencepiece_model_pb2.ModelProto,
    unk_id: int,
    avoided: Container[int],
) -> dict[str, Any]:
    """Converts a SentencePiece model to the `model` of a `tokenizer.json`.

    Pieces whose ids are in `avoided` are used only if there is no alternative.
    """
    if model.trainer_spec.model_type != model.trainer_spec.BPE:
        return {
            "type": "Unigram",
            "unk_id": unk_id,
            "vocab": [
                [p.piece, p.score + PENALTY * (i in avoided)]
                for i, p in enumerate(model.pieces)
            ],
            "byte_fallback": False,
        }
    ids = {p.piece: i for i, p in enumerate(model.pieces)}
    # Best scores first. Any two pieces that join to a third are merged.
    learned = [
        (-p.score, p.piece)
        for i, p in enumerate(model.pieces)
        if p.type == p.NORMAL and i not in avoided
    ]
    return {
        "type": "BPE",
        "unk_token": model.pieces[unk_id].piece,
        "fuse_unk": True,
        "byte_fallback": False,
        "vocab": ids,
        "merges": [
            [piece[:cut], piece[cut:]]
            for _, piece in sorted(learned)
            for cut in range(1, len(piece))
            if piece[:cut] in ids and piece[cut:] in ids
        ],
    }
