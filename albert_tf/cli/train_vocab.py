"""Train a SentencePiece vocabulary with ALBERT's symbols on your text."""

from __future__ import annotations

from absl import flags

from albert_tf.cli import text_flags

flags.adopt_module_key_flags(text_flags)

_OUTPUT = flags.DEFINE_string(
    "output", None, "Prefix of the .model and .vocab files.", required=True
)
_VOCAB_SIZE = flags.DEFINE_integer(
    "vocab_size", 30000, "Number of pieces.", lower_bound=16
)
_CHARACTER_COVERAGE = flags.DEFINE_float(
    "character_coverage",
    0.99995,
    "Share of the characters that get pieces; the rest is <unk>.",
    lower_bound=0.98,
    upper_bound=1.0,
)
_MAX_SENTENCES = flags.DEFINE_integer(
    "max_sentences", 10_000_000, "Sentences sampled at most.", lower_bound=1
)


def main() -> None:
    """Trains the vocabulary that the flags describe."""
    # Imported here: help and wrong flags need not wait for TensorFlow.
    from albert_tf.data.documents import find_text_files, read_documents
    from albert_tf.text.vocabulary import train_vocabulary

    files = find_text_files(text_flags.INPUT.value)
    sentences = (
        sentence
        for file in files
        for document in read_documents(
            file, text_flags.TEXT_FORMAT.value, text_flags.LANGUAGE.value
        )
        for sentence in document
    )
    path = train_vocabulary(
        sentences,
        _OUTPUT.value,
        vocab_size=_VOCAB_SIZE.value,
        do_lower_case=text_flags.DO_LOWER_CASE.value,
        strip_accents=text_flags.STRIP_ACCENTS.value,
        character_coverage=_CHARACTER_COVERAGE.value,
        max_sentences=_MAX_SENTENCES.value,
    )
    print(f"wrote {path}")
