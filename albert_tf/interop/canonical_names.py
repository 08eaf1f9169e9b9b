"""Canonical tensor names: prefixes and spellings of checkpoints, normalized."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from albert_tf.errors import InputError

# The prefix of the encoder's names in the table, the separator, and a tensor
# that every checkpoint has: a checkpoint's own prefix is read from its name.
_ANCHORS = {
    "google": ("bert/", "/", "embeddings/word_embeddings"),
    "huggingface": ("albert.", ".", "embeddings.word_embeddings.weight"),
    "model_garden": ("", "/", "word_embeddings/embeddings"),
}
# Optimizer slots of Model Garden's training checkpoints end like the weights.
_SLOT = re.compile(r"(^|/)(Adam|AdamW|AdamWeightDecay|LAMB|optimizer)/")
_ENCODER = ("embeddings", "encoder", "pooler")
_NORM_OF_A_LAYER = re.compile(r"/layer_\d+/.*(LayerNorm|layer_normalization)")
_LAYER_NORMALIZATION = re.compile(r"layer_normalization(?:_(\d{1,9}))?(?=/|$)")


def canonical_names(
    system: str, names: Iterable[str], source: str
) -> dict[str, str]:
    """Maps canonical tensor names to the names in a checkpoint.

    Prefixes (`module/`, `module.`, a missing or doubled `bert/` or `albert.`)
    are detected from the word embeddings. `layer_normalization` becomes
    `LayerNorm`. Names that are not in the table are kept.

    Raises:
      InputError: if there is not exactly one table of word embeddings, if two
        names have the same canonical name, or if the LayerNorms are not shared
        between layers.
    """
    if system not in _ANCHORS:
        return {name: name for name in names}
    names = sorted(names)
    spelled = _renamed(
        dict(zip(names, names, strict=True)),
        _spelling(system, names, source),
        source,
    )
    root, separator, anchor = _ANCHORS[system]
    found = [
        name
        for name in spelled
        if name == anchor
        or (name.endswith(separator + anchor) and not _SLOT.search(name))
    ]
    if len(found) != 1:
        examples = ", ".join([*list(spelled)[:4], "..."])
        raise InputError(
            f"{source}: expected one tensor whose name ends in {anchor!r}, "
            f"found {', '.join(found) or f'none among {examples}'}"
        )
    prefix = found[0].removesuffix(anchor)
    outer = prefix.removesuffix(root)

    def canonical(name: str) -> str:
        inside = name.removeprefix(prefix)
        is_encoder = not root or inside.split(separator)[0] in _ENCODER
        if name.startswith(prefix) and is_encoder:
            return root + inside
        return name.removeprefix(outer)

    return _renamed(spelled, canonical, source)


def _renamed(
    names: Mapping[str, str], rename: Callable[[str], str], source: str
) -> dict[str, str]:
    """Renames the keys, which must stay different."""
    renamed: dict[str, str] = {}
    for name, original in names.items():
        ours = rename(name)
        if ours in renamed:
            raise InputError(
                f"{source}: {original} and {renamed[ours]} are both the tensor "
                f"{ours}"
            )
        renamed[ours] = original
    return renamed


def _spelling(
    system: str, names: list[str], source: str
) -> Callable[[str], str]:
    """Returns a function from the spelling of a release to the current one."""
    if system == "google":
        _check_norms_are_shared(names, source)
        return _layer_norm_spelling(names)
    return _model_garden_spelling if system == "model_garden" else str


def _check_norms_are_shared(names: list[str], source: str) -> None:
    """Rejects forks with a LayerNorm per layer (google-research/albert#241)."""
    for name in names:
        if _NORM_OF_A_LAYER.search(name):
            raise InputError(
                f"{source}: each layer has its own LayerNorms ({name}, ...), "
                "although the layers share their matrices; such forks of "
                "ALBERT are not supported"
            )


def _model_garden_spelling(name: str) -> str:
    """Maps the scopes of all Model Garden releases to the current ones."""
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
    """Maps `layer_normalization[_n]` to `LayerNorm` or `LayerNorm_1`.

    Keras numbers the LayerNorms of a session (google-research/albert#241); in a
    scope, the one after attention has the lower number.
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
