"""Model cards: the `README.md` of an export."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.exporting.config import IDS_KINDS
from albert_tf.exporting.manifest import Origin, versions, write_manifest
from albert_tf.exporting.runtime_formats import FORMATS, format_of
from albert_tf.exporting.usage_examples import usage

_DESCRIPTIONS = {
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
    "web": "A web page with an ALBERT that runs in the browser. Put this "
    "folder on any web server, or run `python -m http.server` in it.",
    **{
        kind: f"An ALBERT for {x.runtime}: token ids in, vectors or scores out."
        for kind, x in FORMATS.items()
    },
}
_PIPELINES = {
    "encoder": "feature-extraction",
    "text_encoder": "feature-extraction",
    "text_classification": "text-classification",
    "regression": "text-classification",
    "multiple_choice": "multiple-choice",
    "question_answering": "question-answering",
    "token_classification": "token-classification",
    "embedding": "sentence-similarity",
}
# Values of export.json that have their own sections.
_NOT_IN_TABLE = (
    *("kind", "config", "tokenizer", "weights", "weights_sha256", "origin"),
    *("parameters", "versions", "task", "signatures", "files"),
)
_UNKNOWN = "Not recorded."
# An SPDX identifier. Hugging Face's front matter has it in lower case.
_SPDX = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*")


def model_card(values: Mapping[str, Any], origin: Origin) -> str:
    """Returns the text of a model card.

    Args:
      values: the contents of `export.json`.
      origin: origin of the weights.
    """
    training = [
        _section("Training data", _data(origin.data_manifest) or _UNKNOWN),
        _section("Training", _training(origin.training_flags) or _UNKNOWN),
        _section("Scores", _scores(origin) or _UNKNOWN),
    ]
    sections = [
        _front_matter(values, origin),
        f"# {origin.name}: {values['kind']}",
        _DESCRIPTIONS[values["kind"]],
        origin.source and f"Made from: {origin.source}.",
        _section("Model", _model(values)),
        _section("Task", _task(values.get("task"))),
        _section("Tokenizer", _table(values.get("tokenizer") or {})),
        # A preprocessor has no weights, so no training either.
        *(training if "weights_sha256" in values else ()),
        _section("How to load it", _usage(values)),
        _section("License", origin.license or "Not stated."),
        _section("Versions and weights", _versions(values)),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _front_matter(values: Mapping[str, Any], origin: Origin) -> str:
    """Returns the metadata for the Hugging Face hub."""
    lines = ["---"]
    if origin.license:
        known = _SPDX.fullmatch(origin.license)
        lines.append(f"license: {origin.license.lower() if known else 'other'}")
    settings = origin.data_manifest.get("settings", {})
    # Records of other text formats have no language.
    if settings.get("text_format") == "prose":
        lines.append(f"language: {settings['language']}")
    own = values["kind"] in (*IDS_KINDS, "web")
    lines.append(f"library_name: {values['kind'] if own else 'tensorflow'}")
    task = values.get("task") or {}
    pipeline = _PIPELINES.get(task.get("task_type", values["kind"]))
    if pipeline:
        lines.append(f"pipeline_tag: {pipeline}")
    lines += ["tags:", "- albert"]
    lines.append(f"- {values['kind']}" if own else "- saved-model")
    return "\n".join([*lines, "---"])


def _section(title: str, text: str) -> str:
    return text and f"## {title}\n\n{text}"


def _table(values: Mapping[str, Any], titles: Sequence[str] = ()) -> str:
    if not values:
        return ""
    first, second = titles or ("setting", "value")
    rows = [f"| {first} | {second} |", "|---|---|"]
    for name, value in values.items():
        text = _format(value).replace("|", r"\|").replace("\n", " ")
        rows.append(f"| {name} | {text} |")
    return "\n".join(rows)


def _format(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{k}: {_format(v)}" for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_format, value))
    return str(value)


def _model(values: Mapping[str, Any]) -> str:
    counts = values.get("parameters") or {}
    parameters = {f"parameters: {k}": v for k, v in counts.items()}
    if len(counts) > 1:
        parameters["parameters: all"] = sum(counts.values())
    export = {k: v for k, v in values.items() if k not in _NOT_IN_TABLE}
    return _table({**values.get("config", {}), **parameters, **export})


def _task(task: Mapping[str, Any] | None) -> str:
    """Formats the task as a table, without its scores and files."""
    return _table(
        {
            k: v
            for k, v in (task or {}).items()
            if k not in ("scores", "baselines", "source") and v is not None
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
    for corpus in manifest.get("corpora", ()):
        name = f"corpus {corpus['name']}"
        sizes = {x: y for x, y in corpus.items() if x != "name"}
        tables.append(_table(sizes, (name, "value")))
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
    return where + _table(origin.all_scores, ("metric", "score"))


def _usage(values: Mapping[str, Any]) -> str:
    parts = ["Run these programs in this folder, or replace `.` by its path."]
    for title, code in usage(values):
        parts.append(f"With {title}:\n\n```python\n{code}\n```")
    return "\n\n".join(parts)


def _versions(values: Mapping[str, Any]) -> str:
    rows = {f"made with {k}": v for k, v in values["versions"].items()}
    if "weights_sha256" in values:
        rows["sha256 of the weights"] = f"`{values['weights_sha256']}`"
    return _table(rows, ("version", "value")) + (
        "\n\n`export.json` has the same in JSON; `albert export --check=.` "
        "verifies it."
    )


CARD = "README.md"


def describe_export(
    folder: pathlib.Path, values: Mapping[str, Any], origin: Origin
) -> None:
    """Writes the model card and `export.json`, the last step of an export.

    Args:
      folder: folder of the export, with all other files.
      values: the contents of `export.json`, without versions or origin: "kind",
        those of `describe_weights`, and others.
      origin: origin of the weights.
    """
    model_format = format_of(values["kind"])
    values = {
        **values,
        "origin": origin.to_dict(),
        "versions": versions(model_format.packages if model_format else ()),
    }
    card = model_card(values, origin)
    (folder / CARD).write_text(card, encoding="utf-8")
    write_manifest(folder, values)
