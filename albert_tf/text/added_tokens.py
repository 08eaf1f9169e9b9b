"""Added tokens in Hugging Face's tokenizer files.

Hugging Face's tokenizers split text at added tokens. Only added tokens that are
already in the vocabulary are supported: the special tokens and, with
SentencePiece, either all user-defined pieces or none of them.
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
    """Maps the id of each added token to whether the token is special.

    Args:
      added_tokens: the `added_tokens` of a `tokenizer.json`.
      vocab: the vocabulary, as (piece, score) pairs.

    Raises:
      ValueError: if an added token is not in the vocabulary, or has an option
        that changes how it is matched.
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


def splits_at_user_defined(
    user_defined: Mapping[str, int], added: Container[int]
) -> bool:
    """Returns whether the user-defined pieces are added tokens.

    Raises:
      ValueError: if only some of the user-defined pieces are added tokens.
    """
    missing = [piece for piece, i in user_defined.items() if i not in added]
    if 0 < len(missing) < len(user_defined):
        raise ValueError(
            f"the user-defined piece {missing[0]!r} is not an added token, but "
            "other user-defined pieces are"
        )
    return len(missing) < len(user_defined)


def non_special_added_tokens(config: Mapping[str, Any]) -> set[str]:
    """Returns the added tokens that are not special tokens."""
    added = typed(config, "added_tokens_decoder", dict, {}).values()
    return set(map(content_of, added)) - _SPECIAL


def check_added_tokens(config: Mapping[str, Any], tokenizer: Tokenizer) -> None:
    """Checks the added tokens in a `tokenizer_config.json`.

    Raises:
      ValueError: if an added token is not in the vocabulary, or if the added
        tokens differ from the pieces at which the tokenizer splits text.
    """
    for i, token in typed(config, "added_tokens_decoder", dict, {}).items():
        token, i = content_of(token), int(i)
        known = 0 <= i < tokenizer.vocab_size
        if not known or tokenizer.id_to_piece(i) != token:
            raise ValueError(f"the added token {shown(token)} is not supported")
    added = non_special_added_tokens(config)
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
    context: str = "",
) -> None:
    """Checks the special tokens in a `tokenizer_config.json`.

    Args:
      config: content of the file.
      special_tokens: the one supported token for each key, such as "cls_token".
      context: appended to the error message, such as " with vocab.txt".

    Raises:
      ValueError: if a special token is not the supported one.
    """
    for role, piece in special_tokens.items():
        token = content_of(config.get(role) or piece)
        if token != piece:
            raise ValueError(
                f"{role}={token!r} is not supported{context}, only {piece}"
            )


def content_of(token: str | Mapping[str, Any]) -> str:
    """Returns the text of a token: a string or an `AddedToken` object."""
    content = token["content"] if isinstance(token, Mapping) else token
    if not isinstance(content, str):
        raise ValueError(f"the token {shown(token)} must be a string")
    return content
