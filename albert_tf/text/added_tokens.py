"""Added tokens of Hugging Face's tokenizer files.

The `tokenizers` library and the slow tokenizers split texts at added tokens.
Supported are added tokens that are pieces of the vocabulary: the special ones,
and in SentencePiece either all user-defined pieces or none.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

from albert_tf.input_files import shown
from albert_tf.schema import type_problem, typed
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.sentencepiece_model import (
    SPECIAL_PIECES,
    user_defined_pieces,
)

_SPECIAL = {*SPECIAL_PIECES, "<unk>"}


def special_by_id(
    added_tokens: Iterable[Mapping[str, Any]], vocab: list[tuple[str, float]]
) -> dict[int, bool]:
    """Returns the ids of a `tokenizer.json`'s added tokens, and if special.

    Raises:
      ValueError: an added token is not in `vocab`, (piece, score) pairs, or has
        an option that changes how it is matched.
    """
    special = {}
    for token in added_tokens:
        content, i = token["content"], token["id"]
        if (
            type_problem(i, int, "id")
            or not 0 <= i < len(vocab)
            or vocab[i][0] != content
        ):
            raise ValueError(
                f"the added token {shown(content)}, id {shown(i)}, is not in "
                "the vocabulary"
            )
        if typed(token, "single_word", bool, False):
            raise ValueError(f"single_word of {content!r} is not supported")
        special[i] = typed(token, "special", bool, False)
        if typed(token, "normalized", bool, False) and not special[i]:
            raise ValueError(f"normalized of {content!r} is not supported")
    return special


def are_all_added(
    user_defined: Mapping[str, int], added: Container[int]
) -> bool:
    """Returns whether the user-defined pieces are added tokens.

    Raises:
      ValueError: only some of them are.
    """
    others = [piece for piece, i in user_defined.items() if i not in added]
    if 0 < len(others) < len(user_defined):
        raise ValueError(
            f"the user-defined piece {others[0]!r} is not an added token, but "
            "others are"
        )
    return len(others) < len(user_defined)


def added_tokens_without_specials(config: Mapping[str, Any]) -> set[str]:
    """Returns the added tokens of a config that are not special tokens."""
    added = typed(config, "added_tokens_decoder", dict, {}).values()
    return set(map(content_of, added)) - _SPECIAL


def check_added_tokens(config: Mapping[str, Any], tokenizer: Tokenizer) -> None:
    """Checks the added tokens in the `tokenizer_config.json` of a tokenizer.

    Raises:
      ValueError: an added token is not in the vocabulary, or the added tokens
        are not the pieces at which the tokenizer splits texts.
    """
    for i, token in typed(config, "added_tokens_decoder", dict, {}).items():
        token, i = content_of(token), int(i)
        known = 0 <= i < tokenizer.vocab_size
        if not known or tokenizer.id_to_piece(i) != token:
            raise ValueError(f"the added token {shown(token)} is not supported")
    added = added_tokens_without_specials(config)
    if added and tokenizer.settings.get("cut_at_user_defined_pieces"):
        user_defined = user_defined_pieces(tokenizer.model_bytes)
        if wrong := sorted(added ^ user_defined.keys()):
            raise ValueError(
                f"{wrong[0]!r} is {'an' if wrong[0] in added else 'not an'} "
                "added token; the added tokens must be all user-defined "
                "pieces, or none of them"
            )


def check_special_tokens(
    config: Mapping[str, Any],
    special_tokens: Mapping[str, str],
    beside: str = "",
) -> None:
    """Checks the special tokens in a `tokenizer_config.json`.

    Args:
      config: its content.
      special_tokens: key, such as "cls_token" -> the only token supported.
      beside: " with vocab.txt" for the error, or "".
    """
    for role, piece in special_tokens.items():
        token = content_of(config.get(role) or piece)
        if token != piece:
            raise ValueError(
                f"{role}={token!r} is not supported{beside}, only {piece}"
            )


def content_of(token: str | Mapping[str, Any]) -> str:
    """Returns the text of a token, which may be an object with properties."""
    content = token["content"] if isinstance(token, Mapping) else token
    if not isinstance(content, str):
        raise ValueError(f"the token {shown(token)} must be a string")
    return content
