"""Canonical names of tensors, whose spelling varies between checkpoints."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from albert_tf.errors import InputError

# The first part of the encoder's names in the table, the separator, and a
# tensor that every checkpoint has: what stands before it is the prefix.
_ANCHORS = {
    "google": ("bert/", "/", "embeddings/word_embeddings"),
    "huggingface": ("albert.", ".", "embeddings.word_embeddings.weight"),
    "model_garden": ("", "/", "word_embeddings/embeddings"),
}
# Slots of a training checkpoint of Model Garden's, which end like the weights.
_SLOT = re.compile(r"(^|/)(Adam|AdamW|AdamWeightDecay|LAMB|optimizer)/")
_ENCODER = ("embeddings", "encoder", "pooler")
_NORM_OF_A_LAYER = re.compile(r"/layer_\d+/.*(LayerNorm|layer_normalization)")
_LAYER_NORMALIZATION = re.compile(r"layer_normalization(?:_(\d{1,9}))?(?=/|$)")


def canonical_names(
    system: str, names: Iterable[str], source: str
) -> dict[str, str]:
    """Returns the name in the table -> the name in the source.

    Prefixes (`module/`, `module.`, a missing or doubled `bert/` or `albert.`)
    are those before the word embeddings; `layer_normalization` becomes
    `LayerNorm`; names that the table lacks stay as they are.

    Raises:
      InputError: no word embeddings, or two sets of them; two spellings of
        one tensor; LayerNorms that the layers do not share.
    """
    if system not in _ANCHORS:
        return {name: name for name in names}
    spelled = _spell(system, names, source)
    root, separator, anchor = _ANCHORS[system]
    found = [
        name
        for name in spelled
        if name == anchor
        or (name.endswith(separator + anchor) and not _SLOT.search(name))
    ]
    if len(found) != 1:
        held = ", ".join([*list(spelled)[:4], "..."])
        raise InputError(
            f"{source}: expected one tensor that ends in {anchor!r}, as every "
            f"ALBERT has it, found {', '.join(found) or f'none among {held}'}"
        )
    prefix = found[0].removesuffix(anchor)
    outer = prefix.removesuffix(root)
    canonical: dict[str, str] = {}
    for name, original in spelled.items():
        inside = name.removeprefix(prefix)
        is_encoder = not root or inside.split(separator)[0] in _ENCODER
        if name.startswith(prefix) and is_encoder:
            ours = root + inside
        else:
            ours = name.removeprefix(outer)
        if ours in canonical:
            raise _twice(source, ours, original, canonical[ours])
        canonical[ours] = original
    return canonical


def _twice(source: str, ours: str, one: str, other: str) -> InputError:
    return InputError(f"{source}: {one} and {other} are both the tensor {ours}")


def _spell(system: str, names: Iterable[str], source: str) -> dict[str, str]:
    """Returns current spelling -> name, sorted."""
    names = sorted(names)
    if system == "google":
        _check_norms_are_shared(names, source)
        spell = _layer_norm_spelling(names)
    elif system == "model_garden":
        spell = _model_garden_spelling
    else:
        spell = str
    spelled: dict[str, str] = {}
    for name in names:
        ours = spell(name)
        if ours in spelled:
            raise _twice(source, ours, name, spelled[ours])
        spelled[ours] = name
    return spelled


def _check_norms_are_shared(names: list[str], source: str) -> None:
    """Refuses models of forks such as google-research/albert#241's."""
    for name in names:
        if _NORM_OF_A_LAYER.search(name):
            raise InputError(
                f"{source}: each layer has LayerNorms of its own ({name}, ...) "
                "while the layers share their matrices; such models of forks "
                "are not ALBERTs and are not supported"
            )


def _model_garden_spelling(name: str) -> str:
    """Model Garden's scopes changed between its releases."""
    if _SLOT.search(name):
        return name
    name = re.sub(r"^(.*/)?(?=cls/predictions/)", "", name)
    name = re.sub(
        r"/self_attention(_output|/output)/",
        "/self_attention/attention_output/",
        name,
    )
    return re.sub(r"(?<=predictions/output_bias)/bias$", "", name)


def _layer_norm_spelling(names: list[str]) -> Callable[[str], str]:
    """`layer_normalization[_n]` -> `LayerNorm`, `LayerNorm_1` by its number.

    Forks that build LayerNorms with Keras (google-research/albert#241) number
    them as they please; the lower number of a scope is the one after attention.
    """
    numbers: dict[str, set[int]] = {}
    for name in names:
        for match in _LAYER_NORMALIZATION.finditer(name):
            scope = name[: match.start()]
            numbers.setdefault(scope, set()).add(int(match[1] or 0))

    def spell(name: str) -> str:
        match = _LAYER_NORMALIZATION.search(name)
        if not match:
            return name
        scope = name[: match.start()]
        order = sorted(numbers[scope]).index(int(match[1] or 0))
        tail = name[match.end() :]
        return f"{scope}LayerNorm{f'_{order}' if order else ''}{tail}"

    return spell
