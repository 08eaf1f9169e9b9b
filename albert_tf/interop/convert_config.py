"""Settings of a conversion."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from albert_tf.config import AlbertConfig, named_config, parse_overrides
from albert_tf.settings import check_settings, described, setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConvertConfig:
    """Settings of a conversion: flags of `albert convert`."""

    input: str | os.PathLike[str] = dataclasses.field(
        metadata=described(
            "Checkpoint: a folder, an archive, a file, or a name such as "
            "albert_tiny_en, albert/albert-base-v2 or "
            "kaggle://keras/albert/keras/... ."
        )
    )
    output: str | os.PathLike[str] = dataclasses.field(
        metadata=described("Output folder.")
    )
    to: Literal["huggingface", "google", "keras_hub"] = setting(
        "huggingface",
        "Output format. huggingface is also the library's own format.",
    )
    dtype: Literal["float32", "float16", "bfloat16"] = setting(
        "float32",
        "Type of the weights. float16 and bfloat16 halve the files, require "
        "--to=huggingface, and are read as float32.",
    )
    head: (
        Literal["classifier", "multiple_choice", "token_classifier"] | None
    ) = setting(None, "Type of the task head, if the checkpoint does not tell.")
    drop: Sequence[str] = setting(
        (),
        "Components to omit, such as sop_head, pooler, objective (the heads of "
        "a pretraining objective) or pooling (that of sentence-transformers).",
    )
    spm_model_file: str | os.PathLike[str] | None = setting(
        None,
        "Another vocabulary: a SentencePiece model, a WordPiece vocab.txt or "
        "albert_tiny_en, that of the packaged model. "
        "Pieces that are new start with the mean of their parts' embeddings.",
    )
    do_lower_case: bool | None = setting(
        None,
        "With --spm_model_file: lower-case all text. Default: as the model "
        "does.",
    )
    strip_accents: bool | None = setting(
        None, "With --spm_model_file: drop accents. Default: as the model does."
    )
    config: AlbertConfig | None = setting(
        None,
        "Config of a TensorFlow checkpoint that has no config file: an "
        "official name or a JSON file.",
        parse=named_config,
    )
    config_overrides: Mapping[str, Any] = dataclasses.field(
        default_factory=dict,
        metadata=described(
            "Fields of the config to change, such as num_attention_heads=32.",
            parse=parse_overrides,
        ),
    )
    revision: str | None = setting(
        None, "Branch, tag or commit on the Hugging Face Hub."
    )
    overwrite: bool = setting(
        False, "Replace an existing result in the output folder."
    )

    def __post_init__(self) -> None:
        check_settings(self)
