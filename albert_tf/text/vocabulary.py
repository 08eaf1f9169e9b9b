"""Training a SentencePiece vocabulary by ALBERT's recipe."""

import io
import os
import pathlib
import random
import re
from collections.abc import Iterable, Iterator

import sentencepiece

from albert_tf.errors import InputError
from albert_tf.text.normalizer import Normalizer

# SentencePiece leaves out longer sentences (4192 bytes), so they are cut; a
# character has at most 4 bytes.
_MAX_CHARACTERS = 1000


def train_vocabulary(
    sentences: Iterable[str],
    output_prefix: str | os.PathLike,
    *,
    vocab_size: int = 30_000,
    do_lower_case: bool = True,
    strip_accents: bool = True,
    character_coverage: float = 0.99995,
    max_sentences: int = 10_000_000,
    seed: int = 12345,
    num_threads: int = 16,
    verbose: bool = False,
) -> pathlib.Path:
    """Trains a unigram vocabulary and writes PREFIX.model and PREFIX.vocab.

    The recipe is the original's, on text normalized as `AlbertTokenizer` does:
    `<pad>` 0, `<unk>` 1, `[CLS]` 2, `[SEP]` 3, `[MASK]` 4, then the pieces
    `( ) " - . – £ €` that are always on their own, then what is learned.

    The same sentences and arguments give the same bytes, on any machine with
    the same release of sentencepiece. `num_threads` belongs to the recipe: it
    decides the order in which SentencePiece adds up, and so the last digits of
    the scores. Hence its default is a fixed number.

    Args:
      sentences: the text, such as lines of a corpus; read once. Blank ones are
        ignored. All that are used are held in memory.
      output_prefix: path of the files, without `.model` and `.vocab`. Its
        folder is made if need be.
      vocab_size: number of pieces, special ones included.
      do_lower_case: see `Normalizer`.
      strip_accents: see `Normalizer`.
      character_coverage: share of the text's characters that the vocabulary
        must spell, from 0.98 to 1; 0.9995 is usual for Chinese or Japanese.
      max_sentences: if there are more sentences, that many are drawn at random.
      seed: of that drawing.
      num_threads: SentencePiece's threads.
      verbose: let SentencePiece report its progress on stderr.

    Returns:
      The path of PREFIX.model.

    Raises:
      InputError: if there is no text, if it is too small for `vocab_size`, if
        `vocab_size` is too small for its characters, or if the output cannot
        be written.
    """
    for argument, value, least, most in (
        ("vocab_size", vocab_size, 1, float("inf")),
        ("max_sentences", max_sentences, 1, float("inf")),
        ("num_threads", num_threads, 1, 1024),
        ("character_coverage", character_coverage, 0.98, 1),
    ):
        if not least <= value <= most:
            raise ValueError(
                f"{argument} must be in [{least}, {most}], not {value}."
            )
    if isinstance(sentences, str):
        raise TypeError("sentences must be many strings, not one str.")
    if "://" in os.fspath(output_prefix):
        raise InputError(
            f"output_prefix={os.fspath(output_prefix)!r}: a vocabulary is "
            "written to a local folder; name one, and copy it there."
        )
    prefix = pathlib.Path(output_prefix)
    _make_folder(prefix)  # Now, not after hours of training.
    sample = _sample(sentences, max_sentences, seed)
    # SentencePiece aborts the process when nothing is left of the text.
    if not any(c.isalnum() for sentence in sample for c in sentence):
        raise InputError(
            "sentences: no text to train a vocabulary on (no letter or digit); "
            "check the input files."
        )
    normalizer = Normalizer(do_lower_case, strip_accents)
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_consume(sample, normalizer),
            model_writer=model,
            model_type="unigram",
            vocab_size=vocab_size,
            character_coverage=character_coverage,
            pad_id=0,
            unk_id=1,
            bos_id=-1,
            eos_id=-1,
            control_symbols=["[CLS]", "[SEP]", "[MASK]"],
            # A list: as the one string of the original's command line, the
            # quotation mark begins a quoted field and swallows the rest.
            user_defined_symbols=["(", ")", '"', "-", ".", "–", "£", "€"],
            input_sentence_size=0,  # All of the sample.
            shuffle_input_sentence=False,
            num_threads=num_threads,
            minloglevel=0 if verbose else 2,  # Errors, which are raised too.
        )
    except RuntimeError as error:
        raise _explained(error, vocab_size, character_coverage) from error
    return _write(model.getvalue(), prefix)


def _make_folder(prefix: pathlib.Path) -> None:
    """Makes the folder of the output files, or says why it cannot be."""
    reason = None
    try:
        prefix.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror
    if reason is None and not os.access(prefix.parent, os.W_OK):
        reason = "no permission to write there"
    if reason is not None or not prefix.name:
        raise InputError(
            f"output_prefix={str(prefix)!r}: cannot be written: "
            f"{reason or 'no file name'}; give another prefix."
        )


def _sample(
    sentences: Iterable[str], max_sentences: int, seed: int
) -> list[str]:
    """Draws sentences without bias in one pass (reservoir sampling)."""
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
            place = generator.randrange(seen)
            if place < max_sentences:
                sample[place] = sentence
    return sample


def _consume(sample: list[str], normalizer: Normalizer) -> Iterator[str]:
    """Yields normalized sentences, and frees them: SentencePiece copies."""
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


def _explained(
    error: RuntimeError, vocab_size: int, character_coverage: float
) -> Exception:
    """Returns the input error that SentencePiece's error means, if it does."""
    message = str(error)
    if match := re.search(r"too high.*<= (\d+)", message):
        return InputError(
            f"vocab_size={vocab_size} is too large for this text, which gives "
            f"at most {match[1]} pieces; give more text, or "
            f"vocab_size={match[1]} or less."
        )
    if match := re.search(r"required_chars\. \d+ vs (\d+)", message):
        return InputError(
            f"vocab_size={vocab_size} is too small: the text's characters and "
            f"the special pieces are {match[1]}; give at least that, or lower "
            f"character_coverage={character_coverage}."
        )
    return RuntimeError(f"SentencePiece could not train: {message}")


def _write(model: bytes, prefix: pathlib.Path) -> pathlib.Path:
    """Writes PREFIX.model and PREFIX.vocab, each whole or not at all."""
    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(model)
    # As SentencePiece's own command writes it.
    listing = "".join(
        f"{processor.id_to_piece(i)}\t{processor.get_score(i):g}\n"
        for i in range(processor.get_piece_size())
    )
    for suffix, content in ((".vocab", listing.encode()), (".model", model)):
        path = prefix.with_name(prefix.name + suffix)
        partial = path.with_name(f"{path.name}.partial-{os.getpid()}")
        partial.write_bytes(content)
        partial.replace(path)
    return path
