"""SavedModels: TF-Hub modules, Model Garden's encoders, our own exports."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.input_files import read_json
from albert_tf.interop.canonical_names import canonical_names
from albert_tf.interop.checkpoint import (
    Checkpoint,
    HeadSettings,
    OpenOptions,
    Vocabulary,
    folder_vocabulary,
)
from albert_tf.interop.file_types import TensorFile
from albert_tf.interop.google import CONFIG_FILE
from albert_tf.interop.matching import match_tensors
from albert_tf.interop.names import OURS, tensors_of
from albert_tf.interop.tf_checkpoint import open_tf_checkpoint
from albert_tf.interop.tf_graph import (
    GraphFacts,
    facts_of_saved_model,
    lower_cases_text,
    read_saved_model,
)
from albert_tf.schema import check_type, typed

_OUR_MANIFEST = "export.json"


def open_saved_model(folder: pathlib.Path, options: OpenOptions) -> Checkpoint:
    """Opens the folder of a SavedModel.

    The architecture is read from `albert_config.json` in its assets or from our
    `export.json`. Otherwise, sizes are inferred from the weights' shapes, and
    depth, heads, activation and dropout from the graph.
    """
    variables = folder / "variables" / "variables"
    if not variables.with_suffix(".index").exists():
        raise InputError(
            f"{folder} is a SavedModel without variables/variables.index, "
            "such as a preprocessor or an incomplete copy"
        )
    file = open_tf_checkpoint(variables)
    file = dataclasses.replace(file, source=str(folder))
    saved_model = read_saved_model(folder)
    system, description = _detect_system(folder, file)
    config, notes = options.config, ()
    lower_cases = lower_cases_text(saved_model)
    described: dict[str, Any] = {}
    task: dict[str, Any] = {}
    max_seq_length = None
    source = str(folder / _OUR_MANIFEST)
    if system == OURS:
        manifest = read_json(source)
        if typed(manifest, "config", dict, None, source) is None:
            raise InputError(f"{source}: key 'config' is missing")
        described = typed(manifest, "tokenizer", dict, None, source) or {}
        lower_cases = typed(described, "do_lower_case", bool, None, source)
        task = typed(manifest, "task", dict, None, source) or {}
        max_seq_length = typed(manifest, "seq_length", int, None, source)
        if task.get("task_type") == "embedding":
            settings = typed(task, "settings", dict, {}, source)
            max_seq_length = typed(settings, "max_seq_length", int, 0, source)
        if config is None:
            config = AlbertConfig.from_dict(manifest["config"], source)
    if config is None:
        facts = facts_of_saved_model(saved_model)
        config, notes = _config(system, folder, file, facts, options.overrides)
    config = config.replace(**options.overrides)
    vocabulary = folder_vocabulary(
        folder / "assets", "google", lower_cases is not False
    )
    if task:
        notes += ("task: not read; task.json is in the folder of the model",)
    matched = match_tensors(system, file, config, head=options.head)
    return dataclasses.replace(
        matched,
        head=_with_labels(matched.head, task, source),
        vocabulary=_with_settings(vocabulary, described, source),
        max_seq_length=max_seq_length,
        format=description,
        notes=notes,
    )


def _with_labels(
    head: HeadSettings, task: Mapping[str, Any], source: str
) -> HeadSettings:
    """Returns a head with the names of the labels of a manifest's task."""
    labels = typed(task, "labels", list[str], None, source) or []
    if len(labels) != head.num_labels:
        return head
    return dataclasses.replace(head, labels=tuple(labels))


def _with_settings(
    vocabulary: Vocabulary, described: Mapping[str, Any], source: str
) -> Vocabulary:
    """Returns a vocabulary with the settings of a manifest's tokenizer."""
    tokenizer = vocabulary.tokenizer
    if tokenizer is None:
        return vocabulary
    changes = {}
    for name, value in tokenizer.settings.items():
        kind = bool | None if value is None else type(value)
        if name in described:
            check_type(described[name], kind, f"{source}: tokenizer[{name!r}]")
            changes[name] = described[name]
    return Vocabulary(tokenizer.with_settings(**changes))


def _detect_system(folder: pathlib.Path, file: TensorFile) -> tuple[str, str]:
    """Returns one of `names.FORMATS` or `OURS`, and the format's name."""
    names = file.shapes
    if any(name.startswith("encoder/embeddings/") for name in names):
        if (folder / _OUR_MANIFEST).exists():
            return OURS, "SavedModel of albert_tf"
    if any("embeddings/word_embeddings" in name for name in names):
        return "google", "TF-Hub module of TF1"
    if any("word_embeddings/embeddings" in name for name in names):
        return "model_garden", "TF-Hub SavedModel of Model Garden"
    raise InputError(
        f"{folder} is a SavedModel, but not of a known ALBERT (its variables: "
        f"{', '.join(list(names)[:3]) or 'none'}, ...); give a TF-Hub module "
        "of ALBERT, or an encoder of albert export"
    )


def _config(
    system: str,
    folder: pathlib.Path,
    file: TensorFile,
    facts: GraphFacts,
    overrides: Mapping[str, Any],
) -> tuple[AlbertConfig, tuple[str, ...]]:
    """Returns the config, and notes on its origin."""
    shapes = {
        ours: file.shapes[theirs]
        for ours, theirs in canonical_names(
            system, file.shapes, file.source
        ).items()
    }
    asset = folder / "assets" / CONFIG_FILE
    if asset.exists():
        config = AlbertConfig.from_json(asset)
        heads = facts.num_attention_heads
        if heads in (None, config.num_attention_heads):
            return config, ()
        return config.replace(num_attention_heads=heads), (
            f"num_attention_heads={heads} according to the graph; "
            f"{CONFIG_FILE} says {config.num_attention_heads}",
        )
    try:
        sizes = _sizes(system, shapes)
    except KeyError as error:
        raise InputError(f"{folder}: missing tensor {error}") from None
    except (IndexError, ValueError):
        raise InputError(
            f"{folder}: its tensors do not have the shapes of an ALBERT's"
        ) from None
    values = {
        # Dropout of rate 0 leaves nothing in the graph.
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        **sizes,
        **facts.known(),
        **overrides,
    }
    for field in ("num_hidden_layers", "num_attention_heads"):
        if field not in values:
            raise InputError(
                f"{folder}: {field} is neither in the weights nor in the "
                f"graph; set it with --config_overrides={field}=..."
            )
    config = AlbertConfig.from_dict(values, str(folder))
    return config, ("config: inferred from the weights' shapes and the graph",)


def _sizes(system: str, shapes) -> dict[str, int]:
    """Infers sizes from the shapes of the encoder's tensors."""
    ours = {
        tensor.path.removeprefix("encoder/"): shapes[tensor.names[system].name]
        for tensor in tensors_of(AlbertConfig(), {"encoder"})
    }
    block = "transformer/group_0/inner_0/"
    hidden, intermediate = ours[f"{block}feed_forward/intermediate/kernel"]
    sizes = {
        "vocab_size": ours["embeddings/word_embeddings"][0],
        "embedding_size": ours["embeddings/word_embeddings"][1],
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "max_position_embeddings": ours["embeddings/position_embeddings"][0],
        "type_vocab_size": ours["embeddings/token_type_embeddings"][0],
    }
    if system == "model_garden":
        sizes["num_attention_heads"] = ours[f"{block}attention/query/bias"][0]
    else:
        scopes = [n.split("/") for n in shapes if "/transformer/group_" in n]
        sizes["num_hidden_groups"] = len({scope[3] for scope in scopes})
        sizes["inner_group_num"] = len({scope[4] for scope in scopes})
    return sizes
