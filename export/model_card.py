"""The model card of an export: Markdown for people."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.export.origin import Origin
from albert_tf.export.usage import usage

_WHAT = {
    "encoder": "ALBERT's encoder: token ids in, vectors of tokens and of the "
    "whole text out. A SavedModel of [TF-Hub's text contract]"
    "(https://www.tensorflow.org/hub/common_saved_model_apis/text).",
    "preprocessor": "The preprocessor of an ALBERT: strings in, the encoder's "
    "inputs out. A SavedModel of [TF-Hub's text contract]"
    "(https://www.tensorflow.org/hub/common_saved_model_apis/text).",
    "text_encoder": "An ALBERT that takes strings and gives their embeddings: "
    "tokenizer and encoder in one SavedModel.",
    "task": "A fine-tuned ALBERT that takes strings and gives answers: "
    "tokenizer and model in one SavedModel.",
    "litert": "An ALBERT for LiteRT (TensorFlow Lite), for phones and other "
    "small machines.",
}
_PIPELINES = {
    "encoder": "feature-extraction",
    "text_encoder": "feature-extraction",
    "classes": "text-classification",
    "number": "text-classification",
    "choices": "multiple-choice",
    "spans": "question-answering",
    "words": "token-classification",
}
# What `describe_export` is given beside settings to be listed.
_ELSEWHERE = (
    *("kind", "config", "tokenizer", "weights", "weights_sha256", "origin"),
    *("parameters", "versions", "task", "signatures"),
)
_UNKNOWN = "Not recorded."
# An SPDX name, as Hugging Face's front matter has it, in lower case.
_SPDX = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*")


def model_card(values: Mapping[str, Any], origin: Origin) -> str:
    """Returns the text of the card.

    Args:
      values: what `export.json` says, "kind" among it.
      origin: of the weights.
    """
    training = [
        _section("Training data", _data(origin.data_manifest) or _UNKNOWN),
        _section("Training", _training(origin.training_flags) or _UNKNOWN),
        _section("Scores", _scores(origin) or _UNKNOWN),
    ]
    sections = [
        _front_matter(values, origin),
        f"# {origin.name}: {values['kind']}",
        _WHAT[values["kind"]],
        origin.source and f"Made from: {origin.source}.",
        _section("Model", _model(values)),
        _section("Task", _task(values.get("task"))),
        _section("Tokenizer", _table(values.get("tokenizer") or {})),
        # Without weights, there is nothing to say of their training.
        *(training if "weights_sha256" in values else ()),
        _section("How to load it", _usage(values)),
        _section("Licence", origin.licence or "Not stated."),
        _section("Versions and weights", _versions(values)),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _front_matter(values: Mapping[str, Any], origin: Origin) -> str:
    """Returns what Hugging Face's hub reads of a card."""
    lines = ["---"]
    if origin.licence:
        known = _SPDX.fullmatch(origin.licence)
        lines.append(f"license: {origin.licence.lower() if known else 'other'}")
    settings = origin.data_manifest.get("settings", {})
    # Elsewhere nobody was asked for the language.
    if settings.get("text_format") == "prose":
        lines.append(f"language: {settings['language']}")
    is_litert = values["kind"] == "litert"
    lines.append(f"library_name: {'litert' if is_litert else 'tensorflow'}")
    task = values.get("task") or {}
    pipeline = _PIPELINES.get(task.get("kind", values["kind"]))
    if pipeline:
        lines.append(f"pipeline_tag: {pipeline}")
    lines += ["tags:", "- albert"]
    lines.append("- litert" if is_litert else "- saved-model")
    return "\n".join([*lines, "---"])


def _section(title: str, text: str) -> str:
    return text and f"## {title}\n\n{text}"


def _table(values: Mapping[str, Any], titles: Sequence[str] = ()) -> str:
    if not values:
        return ""
    first, second = titles or ("setting", "value")
    rows = [f"| {first} | {second} |", "|---|---|"]
    for name, value in values.items():
        text = _words(value).replace("|", r"\|").replace("\n", " ")
        rows.append(f"| {name} | {text} |")
    return "\n".join(rows)


def _words(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{k}: {_words(v)}" for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_words, value))
    return str(value)


def _model(values: Mapping[str, Any]) -> str:
    counts = values.get("parameters") or {}
    parameters = {f"parameters: {k}": v for k, v in counts.items()}
    if len(counts) > 1:
        parameters["parameters: all"] = sum(counts.values())
    export = {k: v for k, v in values.items() if k not in _ELSEWHERE}
    return _table({**values.get("config", {}), **parameters, **export})


def _task(task: Mapping[str, Any] | None) -> str:
    """Returns a table; scores and sources of files are no part of the task."""
    return _table(
        {
            k: v
            for k, v in (task or {}).items()
            if k not in ("scores", "source") and v is not None
        }
    )


def _data(manifest: Mapping[str, Any]) -> str:
    if not manifest:
        return ""
    tables = []
    if "inputs" in manifest:
        size = sum(file["bytes"] for file in manifest["inputs"])
        tables.append(
            f"Text: {len(manifest['inputs']):,} files of {size:,} bytes."
        )
    tables.append(_table(manifest["settings"]))
    for name, split in manifest["splits"].items():
        shares = {
            "passes over the text": split["passes"],
            **{k.replace("_", " "): v for k, v in split["counts"].items()},
            "masking rate (effective)": split["masking_rate"],
            "padding": split["padding_fraction"],
            "accuracy of the most frequent piece": split[
                "constant_guess_accuracy"
            ],
        }
        tables.append(_table(shares, (f"{name} split", "value")))
    return "\n\n".join(tables)


def _training(flags: Mapping[str, str]) -> str:
    lines = [f"--{name}={value}" for name, value in flags.items()]
    return "\n".join(["```", *lines, "```"]) if lines else ""


def _scores(origin: Origin) -> str:
    if not origin.scores:
        return ""
    where = f"Of {origin.scored_on}.\n\n" if origin.scored_on else ""
    return where + _table(origin.scores, ("metric", "score"))


def _usage(values: Mapping[str, Any]) -> str:
    parts = ["In this folder; elsewhere its path takes the place of `.`."]
    for title, code in usage(values):
        parts.append(f"With {title}:\n\n```python\n{code}\n```")
    return "\n\n".join(parts)


def _versions(values: Mapping[str, Any]) -> str:
    rows = {f"made with {k}": v for k, v in values["versions"].items()}
    if "weights_sha256" in values:
        rows["sha256 of the weights"] = f"`{values['weights_sha256']}`"
    return _table(rows, ("what", "value")) + (
        "\n\n`export.json` has all this for programs; `albert export "
        "--check=.` verifies it."
    )
