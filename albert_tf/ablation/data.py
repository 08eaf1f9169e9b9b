"""Data of ablation studies: text, vocabulary, records and pairs of passages."""

from __future__ import annotations

import collections
import csv
import dataclasses
import functools
import itertools
import os
import pathlib
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from albert_tf.ablation.chronicles import Pair, chronicles, pairs
from albert_tf.ablation.config import AblationConfig
from albert_tf.data.create_data import create_pretraining_data
from albert_tf.data.data_config import PretrainingDataConfig, SentenceOrder
from albert_tf.data.documents import (
    read_corpus,
    read_documents,
    split_documents,
    uniform_hash,
)
from albert_tf.data.records import PLATEAU, Records, open_records
from albert_tf.demo.corpora import write_default_text
from albert_tf.errors import InputError
from albert_tf.files import new_file
from albert_tf.folders import new_folder
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import VocabularyConfig, train_vocabulary

_HELDOUT_SHARE = 0.05
_MIN_HELDOUT = 10
# A rarer word is not worth a piece of its own.
_MIN_WORD_COUNT = 5
_SPECIAL_PIECES = 14  # special and user-defined ones, and the mark of words
_SPLIT_SEED = 0
# Documents of the pairs are not those of the pretraining text.
_TRAIN_PAIRS_SEED, _DEV_PAIRS_SEED = 1, 2


@dataclasses.dataclass(frozen=True)
class StudyData:
    """Data of the studies in one folder."""

    config: AblationConfig
    folder: pathlib.Path

    @property
    def text(self) -> pathlib.Path:
        """The text, one sentence per line."""
        return self.folder / "text.txt"

    def records(self, order: str) -> pathlib.Path:
        """Returns the folder of the records of a sentence order."""
        return self.folder / f"data-{order}"

    def prepare(self, orders: Collection[SentenceOrder]) -> None:
        """Creates the text, vocabulary and records that do not exist yet.

        The text must be long enough to hold out a part of it. `orders` are the
        sentence orders of the records.
        """
        scale = self.config.scale_settings
        if not self.text.exists():
            with new_file(self.text) as file:
                for document in self._documents():
                    file.write("\n".join(document) + "\n\n")
        vocabulary = self.folder / "vocabulary"
        if not vocabulary.exists():
            with new_folder(vocabulary) as new:
                train_vocabulary(
                    itertools.chain.from_iterable(read_documents(self.text)),
                    new / "spiece",
                    VocabularyConfig(
                        vocab_size=scale.vocab_size, model_type=scale.model_type
                    ),
                )
        missing = [x for x in orders if not self.records(x).exists()]
        if not missing:
            return
        tokenizer = AlbertTokenizer.from_file(vocabulary / "spiece.model")
        fraction = heldout_fraction(read_documents(self.text))
        for order in missing:
            config = PretrainingDataConfig(
                input=[os.fspath(self.text)],
                output=self.records(order),
                tokenizer=tokenizer,
                max_seq_length=scale.max_seq_length,
                ngram=scale.ngram,
                max_predictions_per_seq=scale.max_predictions_per_seq,
                sentence_order=order,
                heldout_fraction=fraction,
                seed=_SPLIT_SEED,
            )
            if self.has_pairs:
                # Each document of the chronicles is a record.
                config = dataclasses.replace(
                    config, pack=False, short_seq_prob=0.0
                )
            create_pretraining_data(config)

    @functools.cache  # noqa: B019 - one for each order, of a few studies
    def plateau_accuracy(self, order: str) -> float:
        """Returns the MLM accuracy up to which models are on the plateau.

        There a model knows how frequent words are and, in text that is made by
        a rule, where in a sequence they are. It is left at `PLATEAU` times the
        accuracy of the most frequent token on held-out records, and a tenth
        more than that of the most frequent token at each position.
        """
        records = open_records(os.fspath(self.records(order)), "heldout")
        unigram = records.baselines()["mlm_unigram_accuracy"]
        return max(PLATEAU * unigram, 1.1 * _position_accuracy(records))

    @property
    def has_pairs(self) -> bool:
        """Whether the text is the chronicles, which pairs can be made of."""
        chronicles = self.config.scale_settings.default_text == "chronicles"
        return chronicles and self.config.input is None

    def pair_tables(self) -> tuple[pathlib.Path, pathlib.Path]:
        """Returns the tables to train and score on pairs of chronicles."""
        scale = self.config.scale_settings
        tables = []
        for name, seed, count in (
            ("train", _TRAIN_PAIRS_SEED, scale.train_pairs),
            ("dev", _DEV_PAIRS_SEED, scale.dev_pairs),
        ):
            table = self.folder / f"pairs-{name}.csv"
            if not table.exists():
                _write_pairs(table, itertools.islice(pairs(seed), count))
            tables.append(table)
        train, dev = tables
        return train, dev

    def _documents(self) -> Iterator[list[str]]:
        """Yields parts of documents up to the scale's amount of text."""
        if self.config.input is not None:
            return documents_of(self.config)
        documents = chronicles()
        if not self.has_pairs:
            folder = self.folder / "default_text"
            folder.mkdir(exist_ok=True)
            files = write_default_text(folder)
            documents = itertools.chain.from_iterable(
                map(read_documents, files)
            )
        return _limited(documents, self.config.scale_settings.text_megabytes)


def _position_accuracy(records: Records) -> float:
    """Returns the accuracy of the most frequent label at each position."""
    labels: dict[int, collections.Counter[int]] = {}
    for batch in records.dataset(64, training=False):
        masked = batch["masked_lm_weights"].numpy() > 0
        positions = batch["masked_lm_positions"].numpy()[masked]
        ids = batch["masked_lm_ids"].numpy()[masked]
        for position, label in zip(positions, ids, strict=True):
            counts = labels.setdefault(position, collections.Counter())
            counts[label] += 1
    right = sum(max(counts.values()) for counts in labels.values())
    return right / sum(counts.total() for counts in labels.values())


def documents_of(config: AblationConfig) -> Iterator[list[str]]:
    """Yields parts of the documents of `input`, up to the scale's size."""
    return _limited(
        read_corpus(config.text_files(), config),
        config.scale_settings.text_megabytes,
    )


def _limited(
    documents: Iterable[list[str]], megabytes: float
) -> Iterator[list[str]]:
    remaining = megabytes * 1e6
    for part in split_documents(documents):
        yield part
        remaining -= sum(len(sentence.encode()) + 1 for sentence in part)
        if remaining <= 0:
            return


def choose_vocab_size(config: AblationConfig) -> AblationConfig:
    """Sets the size of the vocabulary by the user's text, if there is one.

    Every character and every word that occurs several times can get a piece, up
    to the scale's `max_vocab_size`.
    """
    if config.input is None or config.vocab_size is not None:
        return config
    characters: set[str] = set()
    words: collections.Counter[str] = collections.Counter()
    for document in documents_of(config):
        for sentence in document:
            sentence = sentence.lower()
            characters.update(sentence)
            words.update(re.findall(r"\w+", sentence))
    frequent = sum(count >= _MIN_WORD_COUNT for count in words.values())
    return dataclasses.replace(
        config,
        vocab_size=min(
            _SPECIAL_PIECES + len(characters) + frequent,
            config.scale_settings.max_vocab_size,
        ),
    )


def check_documents(documents: Iterable[Any]) -> None:
    """Raises an `InputError` if no part of the documents can be held out.

    No more of them, or of their hashes, are read than are needed: two that
    differ.
    """
    documents = iter(documents)
    first = next(documents, None)
    if all(document == first for document in documents):
        found = "no document" if first is None else "a single document"
        raise InputError(
            f"input: has {found}, so nothing can be held out; give more text, "
            "or separate documents as --text_format describes"
        )


def heldout_fraction(documents: Iterable[Sequence[str]]) -> float:
    """Returns the `heldout_fraction` that holds out a fixed share exactly.

    A twentieth of the documents, or at least ten of few, but at most a fifth.
    """
    hashes = sorted(
        {uniform_hash("\n".join(x).encode(), _SPLIT_SEED) for x in documents}
    )
    check_documents(hashes)
    count = len(hashes)
    held = max(round(_HELDOUT_SHARE * count), min(_MIN_HELDOUT, count // 5), 1)
    return (hashes[held - 1] + hashes[held]) / 2


def _write_pairs(path: pathlib.Path, rows: Iterable[Pair]) -> None:
    with new_file(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Pair._fields)
        writer.writerows(rows)
