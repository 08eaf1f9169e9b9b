"""Train a SentencePiece vocabulary with ALBERT's symbols on your text."""

from __future__ import annotations

import dataclasses

from albert_tf.cli.flags import CommandFlags
from albert_tf.pretraining.data_config import TextConfig
from albert_tf.pretraining.documents import find_text_files, read_documents
from albert_tf.settings import described
from albert_tf.text.vocabulary import VocabularyConfig, train_vocabulary


@dataclasses.dataclass(frozen=True, kw_only=True)
class OutputFlags:
    """Where the vocabulary goes."""

    output: str = dataclasses.field(
        metadata=described("Prefix of the .model and .vocab files.")
    )


CONFIGS = (TextConfig, OutputFlags, VocabularyConfig)


def main(flags: CommandFlags) -> None:
    """Trains the vocabulary that the flags describe."""
    text = flags.build(TextConfig)
    sentences = (
        sentence
        for file in find_text_files(text.input)
        for document in read_documents(file, text.text_format, text.language)
        for sentence in document
    )
    path = train_vocabulary(
        sentences,
        flags.build(OutputFlags).output,
        flags.build(VocabularyConfig),
    )
    print(f"wrote {path}")
