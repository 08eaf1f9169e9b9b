r"""Make pretraining records (sentence pairs, masked words) from text.

Examples:
  albert create-data --input='text/*.txt' --text_format=prose \
      --spm_model_file=vocab.model --output=data
  albert create-data --input='news=0.7:news/*.txt,books=0.3:books/*.txt' \
      --spm_model_file=vocab.model --output=data --max_seq_length=512
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Mapping
from typing import Any, Literal

from albert_tf.cli.flags import CommandFlags
from albert_tf.data.data_config import PretrainingDataConfig
from albert_tf.data.documents import describe_oddities
from albert_tf.data.order_shortcuts import describe_shortcuts, is_leak
from albert_tf.errors import InputError, counted
from albert_tf.pretrained_models import vocabulary_path
from albert_tf.settings import described, setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenizerFlags:
    """Flags for the tokenizer."""

    spm_model_file: str = dataclasses.field(
        metadata=described(
            "SentencePiece model or WordPiece vocab.txt; or albert_tiny_en, "
            "the vocabulary of the packaged model."
        )
    )
    do_lower_case: bool = setting(True, "Lower-case all text.")
    strip_accents: bool | None = setting(
        None,
        "Drop accents (combining marks after NFKD, which are part of the "
        "letters in Japanese, Thai or Hindi: --nostrip_accents). Default: "
        "true; with a vocab.txt the value of --do_lower_case, as in BERT.",
    )
    digit_comma: Literal["google", "corrected"] = setting(
        "google",
        "How pieces such as '9,' are split: google as in the original, which "
        "trained the released models; corrected as in Hugging Face's "
        "tokenizers.",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class BeamFlags:
    """Flags for Apache Beam."""

    runner: str = setting(
        "",
        "Apache Beam runner to use instead of local processes: DirectRunner, "
        "DataflowRunner, FlinkRunner or SparkRunner.",
    )
    beam_options: str = setting(
        "", "Flags of the runner, such as '--project=p --region=r'."
    )


# Warn if a smaller fraction of the tokens is used.
_MIN_KEPT_FRACTION = 0.8

CONFIGS = (PretrainingDataConfig, TokenizerFlags, BeamFlags)
DEFAULTS = {"num_workers": os.cpu_count() or 1}


def main(flags: CommandFlags) -> None:
    """Creates the data and prints a summary."""
    # Imported here, so that help and flag errors do not wait for TensorFlow.
    from albert_tf.data.create_data import create_pretraining_data
    from albert_tf.data.manifest import read_manifest
    from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer

    text = flags.build(TokenizerFlags)
    # Their defaults depend on the tokenizer: SentencePiece or WordPiece.
    settings = {
        name: getattr(text, name)
        for name in flags.given("strip_accents", "digit_comma")
    }
    tokenizer = AlbertTokenizer.from_file(
        vocabulary_path(text.spm_model_file),
        do_lower_case=text.do_lower_case,
        **settings,
    )
    config = flags.build(PretrainingDataConfig, tokenizer=tokenizer)
    pipeline = flags.build(BeamFlags)
    if pipeline.runner:
        from albert_tf.data.beam_pipeline import create_with_beam

        manifest = create_with_beam(
            config, pipeline.runner, pipeline.beam_options
        )
    elif pipeline.beam_options:
        raise InputError("--beam_options requires --runner")
    else:
        manifest = create_pretraining_data(config, progress=sys.stderr.isatty())
    if "corpora" in manifest:
        for corpus in manifest["corpora"]:
            folder = os.path.join(config.output, corpus["name"])
            print(f"{corpus['name']}, {corpus['weight']:.1%} of the mixture:")
            _describe(read_manifest(folder))
    else:
        _describe(manifest)
    print(f"wrote {config.output}")


def _describe(manifest: Mapping[str, Any]) -> None:
    """Prints a summary of a data set, and warns of unused text."""
    for line in describe_oddities(manifest["oddities"]):
        print(line)
    for split, description in manifest["splits"].items():
        counts = description["counts"]
        packed = ""
        if "sequences" in counts:
            packed = f" with {counted(counts['sequences'], 'sequence')}"
        print(
            f"{split}: {counted(counts['instances'], 'record')}{packed} of "
            f"{counted(counts['documents'], 'document')}, "
            f"{counted(counts['tokens'], 'token')}, "
            f"of which {description['kept_fraction']:.1%} are kept; "
            f"padding {description['padding_fraction']:.1%}, masking rate "
            f"{description['masking_rate']:.1%}"
        )
        if shortcuts := description.get("shortcuts"):
            print(f"{split}: {_describe_order(description)}")
            if is_leak(shortcuts):
                print(
                    f"warning: {split}: the ends, starts and lengths of the "
                    "segments reveal their order, which a model will learn "
                    "instead of what sentences mean; check that the text is "
                    "split between sentences (--text_format), or give longer "
                    "documents",
                    file=sys.stderr,
                )
        if description["kept_fraction"] < _MIN_KEPT_FRACTION:
            print(
                f"warning: {split}: {1 - description['kept_fraction']:.1%} of "
                "the tokens are in no record; --masking=dynamic keeps nearly "
                "all, and a longer --max_seq_length keeps more",
                file=sys.stderr,
            )


def _describe_order(split: Mapping[str, Any]) -> str:
    """Describes the pairs of a split, and their order without a model."""
    counts = split["counts"]
    sequences = counts.get("sequences", counts["instances"])
    return (
        f"{counts['pairs'] / sequences:.1%} of the sequences are pairs; their "
        f"order without a model: {describe_shortcuts(split['shortcuts'])}"
    )
