"""Training a SentencePiece vocabulary by ALBERT's recipe."""

from __future__ import annotations

import dataclasses
import io
import os
import pathlib
import random
import re
from collections.abc import Iterable, Iterator

import sentencepiece

from albert_tf.errors import InputError
from albert_tf.files import is_remote, write_together
from albert_tf.settings import check_settings, setting
from albert_tf.text.normalizer import Normalizer

_SUFFIXES = (".model", ".vocab")
# Sentences are cut, as SentencePiece skips those of more than 4192 bytes. A
# character has at most 4 bytes.
_MAX_CHARACTERS = 1000


@dataclasses.dataclass(frozen=True, kw_only=True)
class VocabularyConfig:
    """Settings of a vocabulary, also the flags of `albert train-vocab`.

    `num_threads` has a fixed default because it affects the result: it sets the
    order of SentencePiece's sums, and so the last digits of the scores.
    """

    vocab_size: int = setting(
        30_000,
        "Number of pieces, the 12 special ones included.",
        bounds="[13, inf)",
    )
    do_lower_case: bool = setting(True, "Lower-case all text.")
    strip_accents: bool = setting(
        True, "Drop accents (combining marks after NFKD)."
    )
    # 0.9995 is usual for Chinese and Japanese.
    character_coverage: float = setting(
        0.99995,
        "Share of the characters that get pieces; the rest is <unk>.",
        bounds="[0.98, 1]",
    )
    max_sentences: int = setting(
        10_000_000,
        "Most sentences to use; of more, that many are drawn at random.",
        bounds="[1, inf)",
    )
    seed: int = setting(12345, "Seed of that drawing.", bounds=f"[0, {2**63})")
    num_threads: int = setting(
        16, "SentencePiece's threads.", flag=None, bounds="[1, 1024]"
    )

    def __post_init__(self) -> None:
        check_settings(self)


def train_vocabulary(
    sentences: Iterable[str],
    output: str | os.PathLike[str],
    config: VocabularyConfig | None = None,
) -> pathlib.Path:
    """Trains a unigram vocabulary and writes OUTPUT.model and OUTPUT.vocab.

    The recipe is the original's, on text normalized like that of
    `AlbertTokenizer`: `<pad>` 0, `<unk>` 1, `[CLS]` 2, `[SEP]` 3, `[MASK]` 4,
    then the user-defined pieces `( ) " - . – £ €`, then the learned pieces.

    The same sentences and settings give the same bytes on any machine with the
    same release of sentencepiece.

    Args:
      sentences: the text, such as the lines of a corpus; read once. Blank
        sentences are skipped. The others are held in memory.
      output: prefix of the paths of the files. Missing folders are created.
      config: the settings; None for the defaults.

    Returns:
      The path of OUTPUT.model.

    Raises:
      InputError: there is no text, there is too little text for `vocab_size`,
        `vocab_size` is too small for the characters of the text, or the output
        cannot be written.
    """
    config = config or VocabularyConfig()
    if isinstance(sentences, str):
        raise TypeError("sentences must be many strings, not one str.")
    if is_remote(output):
        raise InputError(
            f"output={os.fspath(output)!r}: a vocabulary is "
            "written to a local folder; name one, and copy it there."
        )
    prefix = pathlib.Path(output)
    _make_folder(prefix)  # Fails before the training, not after it.
    sample = _sample(sentences, config.max_sentences, config.seed)
    # SentencePiece aborts the process if there is no text to train on.
    if not any(c.isalnum() for sentence in sample for c in sentence):
        raise InputError(
            "sentences: no text to train a vocabulary on (no letter or digit); "
            "check the input files."
        )
    normalizer = Normalizer(config.do_lower_case, config.strip_accents)
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_consume(sample, normalizer),
            model_writer=model,
            model_type="unigram",
            vocab_size=config.vocab_size,
            character_coverage=config.character_coverage,
            pad_id=0,
            unk_id=1,
            bos_id=-1,
            eos_id=-1,
            control_symbols=["[CLS]", "[SEP]", "[MASK]"],
            # A list, because in a string, as on the original's command line,
            # the quotation mark would start a quoted field.
            user_defined_symbols=["(", ")", '"', "-", ".", "–", "£", "€"],
            input_sentence_size=0,  # Use the whole sample.
            shuffle_input_sentence=False,
            num_threads=config.num_threads,
            minloglevel=2,  # Log only errors, which are also raised.
        )
    except RuntimeError as error:
        raise _explained(error, config) from error
    return _write(model.getvalue(), prefix)


def _make_folder(prefix: pathlib.Path) -> None:
    """Creates the folder of the output files."""
    reason = None
    try:
        prefix.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror
    if reason is None and not os.access(prefix.parent, os.W_OK):
        reason = "no permission to write there"
    if reason is not None or not prefix.name:
        raise InputError(
            f"output={str(prefix)!r}: cannot be written: "
            f"{reason or 'no file name'}; give another prefix."
        )


def _sample(
    sentences: Iterable[str], max_sentences: int, seed: int
) -> list[str]:
    """Draws a random sample in one pass (reservoir sampling)."""
    generator = random.Random(seed)
    sample: list[str] = []
    seen = 0
    for sentence in sentences:
        if not sentence or sentence.isspace():
            continue
        seen += 1
        if len(sample) < max_sentences:
            sample.append(sentence)
        else:
            index = generator.randrange(seen)
            if index < max_sentences:
                sample[index] = sentence
    return sample


def _consume(sample: list[str], normalizer: Normalizer) -> Iterator[str]:
    """Yields normalized sentences, freeing those SentencePiece has copied."""
    sample.reverse()
    while sample:
        text = normalizer(sample.pop())
        while len(text) > _MAX_CHARACTERS:
            cut = text.rfind(" ", 1, _MAX_CHARACTERS)
            cut = cut if cut > 0 else _MAX_CHARACTERS
            yield text[:cut]
            text = text[cut:].lstrip()
        if text:
            yield text


def _explained(error: RuntimeError, config: VocabularyConfig) -> Exception:
    """Returns an `InputError` for an error of SentencePiece if it is one."""
    message = str(error)
    if match := re.search(r"too high.*<= (\d+)", message):
        return InputError(
            f"vocab_size={config.vocab_size} is too large for this text, which "
            f"gives at most {match[1]} pieces; use more text, or "
            f"vocab_size={match[1]} or less."
        )
    if match := re.search(r"required_chars\. \d+ vs (\d+)", message):
        return InputError(
            f"vocab_size={config.vocab_size} is too small for the characters "
            f"of the text and the special pieces; use at least {match[1]}, or "
            f"lower character_coverage={config.character_coverage}."
        )
    return RuntimeError(f"SentencePiece could not train: {message}")


def vocabulary_files(
    prefix: str | os.PathLike[str],
) -> tuple[pathlib.Path, pathlib.Path]:
    """Returns the paths of the files that a vocabulary is written to.

    Raises:
      InputError: the prefix names a folder.
    """
    prefix = pathlib.Path(prefix)
    if prefix.name in ("", ".."):
        raise InputError(
            f"output={os.fspath(prefix)!r} must be a prefix of file names, "
            "such as vocab/spiece"
        )
    model, vocab = (prefix.with_name(prefix.name + x) for x in _SUFFIXES)
    return model, vocab


def _write(model: bytes, prefix: pathlib.Path) -> pathlib.Path:
    """Writes PREFIX.model and PREFIX.vocab, which lists its pieces."""
    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(model)
    # The format of SentencePiece's own command.
    listing = "".join(
        f"{processor.id_to_piece(i)}\t{processor.get_score(i):g}\n"
        for i in range(processor.get_piece_size())
    )
    model_path, vocab_path = vocabulary_files(prefix)
    write_together({model_path: model, vocab_path: listing})
    return model_path
