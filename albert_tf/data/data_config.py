"""Settings for creating pretraining data."""

from __future__ import annotations

import dataclasses
import math
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from albert_tf.settings import (
    check_settings,
    described,
    require,
    setting,
    settings_of,
)

if TYPE_CHECKING:
    from albert_tf.text.base_tokenizer import Tokenizer

TextFormat = Literal["lines", "prose", "wikiextractor", "jsonl"]
EncodingErrors = Literal["strict", "replace"]
SentenceOrder = Literal["sop", "nsp", "none"]
OneSentenceChunks = Literal["drop", "random_next"]
Masking = Literal["dynamic", "static"]
WordStarts = Literal["google", "spaces"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReadingConfig:
    """How text files are read; see `read_documents`."""

    text_format: TextFormat = setting(
        "lines",
        "lines: one sentence per line, a blank line ends a document. prose: a "
        "blank line between paragraphs, two between documents. wikiextractor: "
        "its <doc> files. jsonl: one JSON object per line.",
    )
    text_field: str = setting(
        "text", "jsonl, tfds: name of the field that contains the text."
    )
    language: str = setting(
        "en",
        "ISO 639 code of the language, for splitting prose into sentences. "
        "Languages unknown to the sentencex library have general rules.",
    )
    encoding_errors: EncodingErrors = setting(
        "strict",
        "Bytes that are not UTF-8: strict stops with an error, replace "
        "substitutes U+FFFD and counts them.",
    )

    def __post_init__(self) -> None:
        check_settings(self)
        # The library has no list of the languages that it knows.
        require(
            self,
            "language",
            re.fullmatch(r"[a-z]{2,3}(-[A-Za-z0-9]+)*", self.language),
            "an ISO 639 code, such as en, de or zh",
        )
        require(
            self,
            "text_field",
            self.text_format == "jsonl"
            or self.text_field == "text"
            or "tfds:" in str(getattr(self, "input", "")),
            "text unless text_format=jsonl or the input is tfds:",
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextConfig(ReadingConfig):
    """Text files, and how they are read."""

    input: str | os.PathLike[str] | Sequence[str] = dataclasses.field(
        metadata=described(
            "Text files: glob patterns separated by commas; .gz, .bz2 and .zst "
            "are decompressed. tfds:NAME is a data set of TensorFlow Datasets. "
            "NAME=WEIGHT:PATTERN,... names corpora that training mixes, or "
            "that a vocabulary is sampled from.",
            on_resume="not_recorded",
        )
    )
    data_dir: str | None = setting(
        None,
        "tfds: folder of the data sets; default: TFDS_DATA_DIR or the "
        "library's default.",
        on_resume="not_recorded",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self,
            "data_dir",
            self.data_dir is None or "tfds:" in str(self.input),
            "left out unless the input is tfds:",
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskingConfig:
    """Masking for the masked language model (paper, section 4.1)."""

    max_predictions_per_seq: int = setting(
        20, "Maximum number of predictions per record.", bounds="[1, 1048576]"
    )
    masked_lm_prob: float = setting(
        0.15,
        "Share of the tokens to predict, up to max_predictions_per_seq.",
        bounds="[0, 1]",
    )
    ngram: int = setting(
        3, "Maximum number of words masked together.", bounds="[1, 1000]"
    )
    favor_shorter_ngram: bool = setting(
        True, "Draw n words with a probability proportional to 1/n."
    )
    do_whole_word_mask: bool = setting(
        True,
        "Mask either all pieces of a word or none. By default, as in the "
        "original, SentencePiece pieces with a non-ASCII letter are words of "
        "their own (--word_starts).",
    )
    word_starts: WordStarts = setting(
        "google",
        "SentencePiece pieces that start a word. google: all with a space "
        "before them or a character other than ASCII letters and punctuation, "
        "as in the original, so that parts of Russian or Hindi words are "
        "masked. spaces: letters of scripts with spaces between words "
        "continue a word.",
    )

    def __post_init__(self) -> None:
        check_settings(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingDataConfig(MaskingConfig, TextConfig):
    """Settings for creating pretraining data.

    Defaults are the original's unless the help says otherwise. Every field
    except the tokenizer is a flag of `albert create-data`, whose help describes
    it. `max_predictions_per_seq` and `pack` are never None afterwards.

    Attributes:
      tokenizer: converts sentences to ids.
    """

    tokenizer: Tokenizer
    output: str | os.PathLike[str] = dataclasses.field(
        metadata=described("Folder to create.", on_resume="not_recorded")
    )
    # pyrefly: ignore[bad-override]
    max_predictions_per_seq: int | None = setting(
        None,
        "Maximum number of predictions per record; default: --masked_lm_prob "
        "of --max_seq_length; static: the original's 20, which are 3.9 % of "
        "512 tokens.",
        bounds="[1, 1048576]",
    )
    masking: Masking = setting(
        "dynamic",
        "dynamic: records contain the text once, and pretraining draws "
        "segments, order and masks anew in every epoch. static: Google's "
        "record format, masked --dupe_factor times, which other programs can "
        "read as well.",
    )
    max_seq_length: int = setting(
        512,
        "Number of tokens in a record, special tokens included.",
        bounds="[5, 1048576]",  # [CLS] A [SEP] B [SEP], one token each
    )
    short_seq_prob: float = setting(
        0.1,
        "Probability that a record is randomly shortened, as in BERT; static: "
        "that a document is cut into shorter records.",
        bounds="[0, 1]",
    )
    sentence_order: SentenceOrder = setting(
        "sop",
        "sop: half of the pairs are swapped (ALBERT). nsp: half of the pairs "
        "have a random second segment (BERT). none: all pairs are in order; "
        "dynamic: one segment, which may cross document boundaries (RoBERTa).",
    )
    pack: bool | None = setting(
        None,
        "Pack several sequences into a record, each with its own sentence "
        "order, which do not attend to each other; default: yes, except for "
        "static records and --sentence_order=none.",
    )
    max_sequences_per_row: int = setting(
        8, "pack: maximum number of sequences per record.", bounds="[1, 1024]"
    )
    one_sentence_chunks: OneSentenceChunks = setting(
        "drop",
        "static: what to do with a chunk of a single sentence, which has no "
        "order: drop it, or, as the original does, pair it with a random "
        "segment (random_next), an example of NSP among those of SOP.",
    )
    # 10 is BERT's; the original ALBERT used 40, at four times the disk space.
    dupe_factor: int = setting(
        10,
        "static: number of passes over the text, each with its own masks.",
        bounds="[1, 10000]",
    )
    # Chosen by a hash of seed and text, so that duplicates stay together.
    heldout_fraction: float = setting(
        0.0, "Share of documents held out for evaluation.", bounds="[0, 1)"
    )
    seed: int = setting(
        12345,
        "Random seed; equal settings and seeds give equal bytes.",
        bounds=f"[0, {2**63})",
    )
    num_shards: int | None = setting(
        None,
        "Number of record files; default: 8, or more if a file would exceed "
        "256 MiB.",
        bounds="[1, 99999]",
    )
    compress: bool = setting(False, "Write .tfrecord.gz files.")
    # With more than one, a script must guard its entry point with
    # `if __name__ == "__main__":`.
    num_workers: int = setting(
        1,
        "Number of processes; does not change the output.",
        bounds="[1, 1024]",
        on_resume="not_recorded",
    )
    overwrite: bool = setting(
        False,
        "Replace finished data in the output folder.",
        on_resume="not_recorded",
    )

    def __post_init__(self) -> None:
        # `MaskingConfig` checks nothing that this does not check.
        TextConfig.__post_init__(self)
        is_dynamic = self.masking == "dynamic"
        predictions = self.max_predictions_per_seq
        if predictions is None:
            predictions = 20
            if is_dynamic:
                # Rounded first, as a product may be slightly too large.
                share = round(self.masked_lm_prob * self.max_seq_length, 6)
                predictions = max(1, math.ceil(share))
                predictions = min(predictions, self.max_seq_length - 1)
            object.__setattr__(self, "max_predictions_per_seq", predictions)
        if self.pack is None:
            packs = is_dynamic and self.sentence_order != "none"
            object.__setattr__(self, "pack", packs)
        require(
            self,
            "max_predictions_per_seq",
            predictions < self.max_seq_length,
            f"below max_seq_length={self.max_seq_length}",
        )
        require(
            self,
            "pack",
            not self.pack or self.masking == "dynamic",
            "False with masking=static, as Google's record format has one "
            "sequence per record; use masking=dynamic",
        )
        require(
            self,
            "pack",
            not self.pack or self.sentence_order != "none",
            "False with sentence_order=none, whose records are already full "
            "because their text crosses document boundaries",
        )
        require(
            self,
            "max_sequences_per_row",
            self.pack or self.max_sequences_per_row == 8,
            "8 unless pack=True",
        )
        for name, default in (
            ("one_sentence_chunks", "drop"),
            ("dupe_factor", 10),
        ):
            require(
                self,
                name,
                self.masking == "static" or getattr(self, name) == default,
                f"{default} unless masking=static",
            )

    @property
    def max_tokens(self) -> int:
        """Maximum number of tokens of text in a record."""
        one_segment = (
            self.masking == "dynamic" and self.sentence_order == "none"
        )
        return self.max_seq_length - (2 if one_segment else 3)

    def passes(self, split: str) -> int:
        """Returns the number of passes over a split."""
        repeats = split == "train" and self.masking == "static"
        return self.dupe_factor if repeats else 1

    @property
    def masks_heldout(self) -> bool:
        """Whether held-out text is masked once, when the data are created."""
        return self.masking == "dynamic" and self.heldout_fraction > 0

    def settings(self) -> dict[str, Any]:
        """Returns the settings that the records depend on, as JSON values.

        Settings of packing are left out unless records are packed, and so is
        the default of `word_starts`, which older data sets do not have.
        """
        left_out = set() if self.pack else {"pack", "max_sequences_per_row"}
        if self.word_starts == MaskingConfig.word_starts:
            left_out.add("word_starts")
        return {
            x.name: getattr(self, x.name)
            for x in settings_of(type(self))
            if x.description.on_resume != "not_recorded"
            and x.name not in left_out
        }
