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
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from albert_tf.cli.flags import CommandFlags
from albert_tf.data.data_config import PretrainingDataConfig
from albert_tf.data.documents import describe_oddities
from albert_tf.data.order_shortcuts import describe_shortcuts, is_leak
from albert_tf.data.tokenized_documents import VocabularyTable
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
        "Drop accents (combining marks after NFKD). In Japanese, Thai or Hindi "
        "they are parts of letters: give --nostrip_accents. Default: true; "
        "with a vocab.txt the value of --do_lower_case, as in BERT.",
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
# Warn if a smaller share of the tokens that were asked for is masked.
_MIN_MASKED_SHARE = 0.75
# Say if a larger share of the pieces is masked alone inside words.
_MAX_INSIDE_WORDS = 0.1
# Warn if a larger share of the tokens is unknown.
_MAX_UNKNOWN_SHARE = 0.01

CONFIGS = (PretrainingDataConfig, TokenizerFlags, BeamFlags)
DEFAULTS = {"num_workers": os.cpu_count() or 1}


def main(flags: CommandFlags) -> None:
    """Creates the data and prints a summary."""
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
            _describe(read_manifest(folder), config)
    else:
        _describe(manifest, config)
    inside = _share_inside_words(config)
    if inside > _MAX_INSIDE_WORDS:
        print(
            f"{inside:.0%} of the vocabulary's pieces count as words without a "
            "space before them, as in the original, so parts of words are "
            "masked; --word_starts=spaces masks whole words"
        )
    print(f"wrote {config.output}")


def _share_inside_words(config: PretrainingDataConfig) -> float:
    """Returns how many pieces start a word only because of `word_starts`."""
    if not config.do_whole_word_mask or config.word_starts == "spaces":
        return 0.0
    tokenizer = config.tokenizer
    used = VocabularyTable.from_tokenizer(tokenizer, config.word_starts)
    spaces = VocabularyTable.from_tokenizer(tokenizer, "spaces")
    return float((used.word_starts & ~spaces.word_starts).mean())


def _describe(
    manifest: Mapping[str, Any], config: PretrainingDataConfig
) -> None:
    """Prints a summary of a data set, and warns of what is probably wrong."""
    for line in describe_oddities(manifest["oddities"]):
        print(line)
    for split, description in manifest["splits"].items():
        counts = description["counts"]
        packed = ""
        if "sequences" in counts:
            packed = f" with {counted(counts['sequences'], 'sequence')}"
        unknown = counts.get("unknown_tokens", 0) / max(1, counts["tokens"])
        print(
            f"{split}: {counted(counts['instances'], 'record')}{packed} of "
            f"{counted(counts['documents'], 'document')}, "
            f"{counted(counts['tokens'], 'token')}, "
            f"of which {description['kept_fraction']:.1%} are kept and "
            f"{unknown:.2%} unknown; "
            f"padding {description['padding_fraction']:.1%}, masking rate "
            f"{description['masking_rate']:.1%}"
        )
        if description.get("shortcuts"):
            print(f"{split}: {_describe_order(description)}")
        for warning in _warnings(description, unknown, config):
            print(f"warning: {split}: {warning}", file=sys.stderr)


def _warnings(
    split: Mapping[str, Any], unknown: float, config: PretrainingDataConfig
) -> Iterator[str]:
    """Yields what is probably wrong with a split, and what to do about it."""
    if (shortcuts := split.get("shortcuts")) and is_leak(shortcuts):
        yield (
            "the ends, starts and lengths of the segments reveal their order, "
            "which a model will learn instead of what sentences mean; check "
            "that the text is split between sentences (--text_format), or give "
            "longer documents"
        )
    if split["kept_fraction"] < _MIN_KEPT_FRACTION:
        yield (
            f"{1 - split['kept_fraction']:.1%} of the tokens are in no record; "
            "--masking=dynamic keeps nearly all, and a longer --max_seq_length "
            "keeps more"
        )
    if unknown > _MAX_UNKNOWN_SHARE:
        yield (
            f"{unknown:.1%} of the tokens are unknown to the vocabulary, and a "
            "model learns nothing about them; use a vocabulary of this "
            "language (train-vocab, with a higher --character_coverage if "
            "characters are missing), with the --nostrip_accents and "
            "--nodo_lower_case that it was trained with"
        )
    assert config.max_predictions_per_seq is not None  # The config sets it.
    wanted = min(
        config.masked_lm_prob,
        config.max_predictions_per_seq / config.max_seq_length,
    )
    rate = split["masking_rate"]
    if config.do_whole_word_mask and rate < _MIN_MASKED_SHARE * wanted:
        yield (
            f"only {rate:.1%} of the tokens are masked instead of "
            f"{wanted:.1%}, as words with more tokens than a record may "
            "predict are never masked; use a SentencePiece vocabulary for "
            "scripts without spaces, a longer --max_seq_length or "
            "--nodo_whole_word_mask"
        )


def _describe_order(split: Mapping[str, Any]) -> str:
    """Describes the pairs of a split, and how well baselines order them."""
    counts = split["counts"]
    sequences = counts.get("sequences", counts["instances"])
    return (
        f"{counts['pairs'] / sequences:.1%} of the sequences are pairs; their "
        f"order without a model: {describe_shortcuts(split['shortcuts'])}"
    )
