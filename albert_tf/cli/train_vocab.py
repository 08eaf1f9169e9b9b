"""Train a SentencePiece vocabulary with ALBERT's symbols on your text."""

from __future__ import annotations

import dataclasses

from albert_tf.cli.flags import CommandFlags
from albert_tf.files import check_not_input
from albert_tf.pretraining.data_config import TextConfig
from albert_tf.pretraining.documents import find_text_files, read_documents
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
    sentences = (
        sentence
        for file in files
        for document in read_documents(file, text.text_format, text.language)
        for sentence in document
    )
    path = train_vocabulary(sentences, output, config)
    print(f"wrote {path}")
