"""Train a SentencePiece vocabulary with ALBERT's symbols on your text."""

from __future__ import annotations

import collections
import dataclasses

from albert_tf.cli.flags import CommandFlags
from albert_tf.files import check_not_input
from albert_tf.pretraining.data_config import TextConfig
from albert_tf.pretraining.documents import describe_oddities, read_corpus
from albert_tf.pretraining.text_files import find_text_files
from albert_tf.settings import described
from albert_tf.text.vocabulary import (
    VocabularyConfig,
    train_vocabulary,
    vocabulary_files,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class OutputFlags:
    """Where the vocabulary goes."""

    output: str = dataclasses.field(
        metadata=described("Prefix of the .model and .vocab files.")
    )


CONFIGS = (TextConfig, OutputFlags, VocabularyConfig)


def main(flags: CommandFlags) -> None:
    """Trains the vocabulary that the flags describe."""
    text, config = flags.build(TextConfig), flags.build(VocabularyConfig)
    output = flags.build(OutputFlags).output
    files = find_text_files(text.input)
    for path in vocabulary_files(output):
        check_not_input(path, files)
    oddities: collections.Counter[str] = collections.Counter()
    sentences = (
        sentence
        for document in read_corpus(files, text, oddities)
        for sentence in document
    )
    path = train_vocabulary(sentences, output, config)
    for line in describe_oddities(oddities):
        print(line)
    print(f"wrote {path}")
