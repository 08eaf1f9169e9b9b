"""Settings of pretraining data."""

from __future__ import annotations

import dataclasses
import os
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

_LATER = ("text_field", "encoding_errors")
_PACKING = ("pack", "max_sequences_per_row")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReadingConfig:
    """How text files are read; see `read_documents`."""

    text_format: TextFormat = setting(
        "lines",
        "lines: a sentence a line, a blank line ends a document. prose: blank "
        "lines between paragraphs, two between documents. wikiextractor: its "
        "<doc> files. jsonl: a JSON object a line.",
    )
    text_field: str = setting(
        "text", "jsonl, tfds: name of the text in an object or example."
    )
    language: str = setting(
        "en",
        "ISO 639 code of the language, for splitting prose into sentences.",
    )
    encoding_errors: EncodingErrors = setting(
        "strict",
        "Bytes that are not UTF-8: strict stops, replace puts U+FFFD and "
        "counts them.",
    )

    def __post_init__(self) -> None:
        check_settings(self)
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
            "are unpacked. tfds:NAME is a data set of TensorFlow Datasets. "
            "Or NAME=WEIGHT:PATTERN,... for corpora that training mixes, or "
            "that a vocabulary is sampled from.",
            on_resume="not_recorded",
        )
    )
    data_dir: str | None = setting(
        None,
        "tfds: folder of the data sets; default: TFDS_DATA_DIR, or the "
        "library's own.",
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
        20,
        "Most predictions of a record; the original's 20 are 3.9 % of 512 "
        "tokens.",
        bounds="[1, 1048576]",
    )
    masked_lm_prob: float = setting(
        0.15,
        "Share of the tokens to predict, up to that.",
        bounds="[0, 1]",
    )
    ngram: int = setting(3, "Most words masked together.", bounds="[1, 1000]")
    favor_shorter_ngram: bool = setting(
        True, "Draw n words with probability ~ 1/n."
    )
    do_whole_word_mask: bool = setting(
        True, "Mask all pieces of a word or none."
    )

    def __post_init__(self) -> None:
        check_settings(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingDataConfig(MaskingConfig, TextConfig):
    """Settings of pretraining data.

    Defaults are the original's unless the help says otherwise. Every field but
    the tokenizer is a flag of `albert create-data`, whose help describes it.

    Attributes:
      tokenizer: turns sentences into ids.
    """

    tokenizer: Tokenizer
    output: str | os.PathLike[str] = dataclasses.field(
        metadata=described("Folder to make.", on_resume="not_recorded")
    )
    masking: Masking = setting(
        "dynamic",
        "dynamic: records hold text once, and pretraining draws segments, "
        "order and masks anew in every epoch. static: Google's records, masked "
        "--dupe_factor times; other programs read them, too.",
    )
    max_seq_length: int = setting(
        512,
        "Tokens of a record, special tokens included.",
        bounds="[5, 1048576]",  # [CLS] A [SEP] B [SEP], a token each
    )
    short_seq_prob: float = setting(
        0.1,
        "Share of shorter records; static: of documents cut into them.",
        bounds="[0, 1]",
    )
    sentence_order: SentenceOrder = setting(
        "sop",
        "sop: half of the pairs are swapped (ALBERT). nsp: half have a random "
        "second segment (BERT). none: always in order; dynamic: one segment, "
        "which may reach over the ends of documents (RoBERTa).",
    )
    pack: bool = setting(
        False,
        "dynamic: fill records with several sequences, each a pair with its "
        "own sentence order, which do not see each other.",
    )
    max_sequences_per_row: int = setting(
        8, "pack: most sequences of a record.", bounds="[1, 1024]"
    )
    one_sentence_chunks: OneSentenceChunks = setting(
        "drop",
        "static: what becomes of a chunk that has no second sentence to swap "
        "with; random_next is the original's way, which mixes NSP into SOP.",
    )
    # 10 is BERT's; the original ALBERT made 40, at four times the disk space.
    dupe_factor: int = setting(
        10,
        "static: passes over the text, each with its own masks.",
        bounds="[1, 10000]",
    )
    # Chosen by a hash of seed and text, so repeats of a text stay together.
    heldout_fraction: float = setting(
        0.0, "Share of documents kept for evaluation.", bounds="[0, 1)"
    )
    seed: int = setting(
        12345,
        "Equal settings and seeds give equal bytes.",
        bounds=f"[0, {2**63})",
    )
    num_shards: int | None = setting(
        None,
        "Record files. Chosen by size if not given: 8, or more so that none "
        "has over 256 MiB.",
        bounds="[1, 99999]",
    )
    compress: bool = setting(False, "Write .tfrecord.gz.")
    # With more than one, a script must guard its start with
    # `if __name__ == "__main__":`.
    num_workers: int = setting(
        1,
        "Processes; the output is the same.",
        bounds="[1, 1024]",
        on_resume="not_recorded",
    )
    overwrite: bool = setting(
        False,
        "Replace finished data in the output folder.",
        on_resume="not_recorded",
    )

    def __post_init__(self) -> None:
        # The other base checks nothing else.
        TextConfig.__post_init__(self)
        require(
            self,
            "max_predictions_per_seq",
            self.max_predictions_per_seq < self.max_seq_length,
            f"below max_seq_length={self.max_seq_length}",
        )
        require(
            self,
            "pack",
            not self.pack or self.masking == "dynamic",
            "False with masking=static: Google's records hold one sequence "
            "each; use masking=dynamic",
        )
        require(
            self,
            "pack",
            not self.pack or self.sentence_order != "none",
            "False with sentence_order=none, whose records are full already: "
            "their text goes on over the ends of documents",
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
        """Most tokens of text in a record."""
        one_segment = (
            self.masking == "dynamic" and self.sentence_order == "none"
        )
        return self.max_seq_length - (2 if one_segment else 3)

    def passes(self, split: str) -> int:
        """Returns the number of passes over the text of a split."""
        repeats = split == "train" and self.masking == "static"
        return self.dupe_factor if repeats else 1

    @property
    def masks_heldout(self) -> bool:
        """Whether held-out text is masked once, as training masks its own."""
        return self.masking == "dynamic" and self.heldout_fraction > 0

    def settings(self) -> dict[str, Any]:
        """Returns the settings that decide the records, as JSON values.

        Those that version 0.1.0 lacked and that have their defaults are left
        out, so that the same text has the same settings; so are those of
        packing unless records are packed.
        """
        return {
            x.name: getattr(self, x.name)
            for x in settings_of(type(self))
            if x.description.on_resume != "not_recorded"
            and not (x.name in _LATER and getattr(self, x.name) == x.default)
            and (self.pack or x.name not in _PACKING)
        }
