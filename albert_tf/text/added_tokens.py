"""Tokens that the files of Hugging Face add to a vocabulary.

Whatever they are, the `tokenizers` library and the slow tokenizers cut texts at
them. All that is supported is to add pieces that the vocabulary has: special
ones, and in SentencePiece all that are user-defined, or none.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.model_file import SPECIAL_PIECES, user_defined_pieces

_SPECIAL = {*SPECIAL_PIECES, "<unk>"}


def special_by_id(
    added_tokens: Iterable[Mapping[str, Any]],
    vocab: list[tuple[str, float]],
) -> dict[int, bool]:
    """Returns which pieces are added tokens, and whether they are special.

    Args:
      added_tokens: as `tokenizer.json` has them.
      vocab: pieces with their scores.

    Raises:
      ValueError: what is added is no such piece, or is not looked for as it is
        spelled, wherever it is in a text.
    """
    special = {}
    for token in added_tokens:
        content, i = token["content"], token["id"]
        if not 0 <= i < len(vocab) or vocab[i][0] != content:
            raise ValueError(
                f"the added token {content!r}, id {i}, is not in the vocabulary"
            )
        if token.get("single_word"):
            raise ValueError(f"single_word of {content!r} is not supported")
        special[i] = bool(token.get("special"))
        if token.get("normalized") and not special[i]:
            raise ValueError(f"normalized of {content!r} is not supported")
    return special


def are_all_added(
    user_defined: Mapping[int, str], added: Container[int]
) -> bool:
    """Returns whether texts are cut at user-defined pieces.

    Args:
      user_defined: id -> piece.
      added: ids of the added tokens.

    Raises:
      ValueError: some are added, and some are not.
    """
    others = [piece for i, piece in user_defined.items() if i not in added]
    if 0 < len(others) < len(user_defined):
        raise ValueError(
            "texts are cut at some user-defined pieces, and at others, such as "
            f"{others[0]!r}, are not"
        )
    return len(others) < len(user_defined)


def more_added_tokens(described: Mapping[str, Any]) -> set[str]:
    """Returns those of a `tokenizer_config.json`, but for the special ones."""
    added = described.get("added_tokens_decoder", {}).values()
    return set(map(content_of, added)) - _SPECIAL


def check_added_tokens(
    described: Mapping[str, Any], tokenizer: Tokenizer
) -> None:
    """Refuses what a `tokenizer_config.json` adds to the vocabulary.

    Args:
      described: what the file holds.
      tokenizer: what was made of it.

    Raises:
      ValueError: there is such a token, or texts are to be cut at others than
        this tokenizer cuts at.
    """
    for i, token in described.get("added_tokens_decoder", {}).items():
        token, i = content_of(token), int(i)
        if i >= tokenizer.vocab_size or tokenizer.id_to_piece(i) != token:
            raise ValueError(f"the added token {token!r} is not supported")
    added = more_added_tokens(described)
    if added and tokenizer.settings.get("cut_at_user_defined_pieces"):
        user_defined = user_defined_pieces(tokenizer.model_bytes)
        if wrong := sorted(added ^ user_defined.keys()):
            raise ValueError(
                f"{wrong[0]!r} is {'an' if wrong[0] in added else 'no'} added "
                "token; supported is to add all user-defined pieces, or none"
            )


def content_of(token: str | Mapping[str, Any]) -> str:
    """Returns a token's spelling; it may be written with its properties."""
    return token["content"] if isinstance(token, Mapping) else token
