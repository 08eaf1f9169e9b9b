"""Training of vocabularies: SentencePiece with ALBERT's recipe, WordPiece."""

from __future__ import annotations

import dataclasses
import io
import itertools
import os
import pathlib
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import sentencepiece

from albert_tf.errors import InputError, shown
from albert_tf.files import write_together
from albert_tf.settings import check_settings, setting
from albert_tf.text.normalizer import Normalizer
from albert_tf.text.sentencepiece_model import WORD_MARK
from albert_tf.text.vocabulary_paths import ModelType, new_vocabulary_files
from albert_tf.text.word_splitter import WordSplitter
from albert_tf.text.wordpiece_tokenizer import CONTINUATION

# Longer sentences are split, as SentencePiece skips those of more than 4192
# bytes. A character has at most 4 bytes.
_MAX_CHARACTERS = 1000
_WORDPIECE_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@dataclasses.dataclass(frozen=True, kw_only=True)
class VocabularyConfig:
    """Settings of a vocabulary, and flags of `albert train-vocab`.

    The default of `num_threads` is fixed because it affects the result: the
    order of SentencePiece's sums determines the last digits of the scores.
    """

    model_type: ModelType = setting(
        "unigram",
        "unigram, bpe: a SentencePiece model; ALBERT uses unigram. "
        "wordpiece: a vocab.txt, as BERT uses.",
    )
    vocab_size: int = setting(
        30_000, "Number of pieces, including special ones.", bounds="[13, inf)"
    )
    do_lower_case: bool = setting(True, "Lower-case all text.")
    strip_accents: bool | None = setting(
        None,
        "Drop accents (combining marks after NFKD). In Japanese, Thai or Hindi "
        "they are parts of letters: give --nostrip_accents. Default: true; "
        "with --model_type=wordpiece the value of --do_lower_case, as in BERT.",
    )
    # 0.9995 is usual for Chinese and Japanese.
    character_coverage: float = setting(
        0.99995,
        "Share of the characters that the pieces cover; others are unknown.",
        bounds="[0.98, 1]",
    )
    max_sentences: int = setting(
        1_000_000,
        "Maximum number of sentences to train on, sampled at random from more.",
        bounds="[1, inf)",
    )
    seed: int = setting(12345, "Seed of the sampling.", bounds=f"[0, {2**63})")
    num_threads: int = setting(
        16, "Number of SentencePiece threads.", flag=None, bounds="[1, 1024]"
    )

    def __post_init__(self) -> None:
        check_settings(self)


def train_vocabulary(
    sentences: Iterable[str],
    output: str | os.PathLike[str],
    config: VocabularyConfig | None = None,
    *,
    overwrite: bool = False,
) -> pathlib.Path:
    """Trains a vocabulary and writes its files.

    SentencePiece models are written as OUTPUT.model and OUTPUT.vocab. The
    recipe is the original's, on text normalized like that of `AlbertTokenizer`:
    `<pad>` 0, `<unk>` 1, `[CLS]` 2, `[SEP]` 3, `[MASK]` 4, then the
    user-defined pieces `( ) " - . – £ €`, then the learned pieces.

    WordPiece vocabularies are written as OUTPUT.txt: `[PAD]` 0, `[UNK]` 1,
    `[CLS]` 2, `[SEP]` 3, `[MASK]` 4, the characters, then pieces of the words
    that a `WordSplitter` finds. As in Hugging Face's trainer, these result from
    byte-pair encoding, by SentencePiece, with the most frequent ones first.

    The same sentences and settings give the same bytes on any machine with the
    same release of sentencepiece.

    Args:
      sentences: the text, such as the lines of a corpus; read once. Blank
        sentences are skipped; a sample of the others is kept in memory.
      output: prefix of the output paths. Missing folders are created.
      config: the settings. Defaults to `VocabularyConfig()`.
      overwrite: whether to replace an existing vocabulary.

    Returns:
      The path of OUTPUT.model or OUTPUT.txt.

    Raises:
      InputError: if there is no text or too little for `vocab_size`, if
        `vocab_size` is too small for the characters of the text, or if the
        output cannot be written.
    """
    config = config or VocabularyConfig()
    if isinstance(sentences, str):
        raise InputError("sentences must be a list of texts, not one text")
    paths = new_vocabulary_files(output, config.model_type, overwrite=overwrite)
    sample = SentenceSample(config.max_sentences, config.seed)
    for sentence in sentences:
        if not isinstance(sentence, str):
            raise InputError(f"sentences must be texts, not {shown(sentence)}")
        sample.add(sentence)
    # SentencePiece aborts the process if there is no text to train on.
    if not any(c.isalnum() for text in sample.texts for c in text):
        raise InputError(
            "sentences: no text to train a vocabulary on (no letter or digit); "
            "check the input files"
        )
    is_wordpiece = config.model_type == "wordpiece"
    train = _train_wordpiece if is_wordpiece else _train_sentencepiece
    contents = train(sample.texts, config)
    write_together(dict(zip(paths, contents, strict=True)))
    return paths[0]


def _train_sentencepiece(
    sample: list[str], config: VocabularyConfig
) -> tuple[bytes, str]:
    normalizer = Normalizer(
        config.do_lower_case, config.strip_accents is not False
    )
    model = _train(
        _consume(sample, normalizer),
        config,
        model_type=config.model_type,
        vocab_size=config.vocab_size,
        pad_id=0,
        unk_id=1,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"],
        # A list, because in a string, as on the original's command line, the
        # quotation mark would start a quoted field.
        user_defined_symbols=["(", ")", '"', "-", ".", "–", "£", "€"],
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    # The format of SentencePiece's own command.
    listing = "".join(
        f"{processor.id_to_piece(i)}\t{processor.get_score(i):g}\n"
        for i in range(processor.get_piece_size())
    )
    return model, listing


def _train_wordpiece(sample: list[str], config: VocabularyConfig) -> tuple[str]:
    split = WordSplitter(config.do_lower_case, config.strip_accents)
    inside: set[str] = set()  # Characters that continue words.

    def words(text: str) -> str:
        found = split(text)
        for word in found:
            inside.update(word[1:])
        return " ".join(found)

    model = _train(
        _consume(sample, words),
        config,
        model_type="bpe",
        # Some pieces are dropped below: a character with a word mark.
        vocab_size=min(2 * config.vocab_size, 2**31 - 1),
        hard_vocab_limit=False,
        unk_id=0,
        # Words are separated by spaces only.
        split_by_unicode_script=False,
        split_by_number=False,
        normalization_rule_name="identity",
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    learned = [
        processor.id_to_piece(i) for i in range(1, processor.get_piece_size())
    ]
    characters = sorted(x for x in learned if len(x) == 1 and x != WORD_MARK)
    required = dict.fromkeys(
        [
            *_WORDPIECE_SPECIALS,
            *characters,
            *(CONTINUATION + x for x in characters if x in inside),
        ]
    )
    if len(required) > config.vocab_size:
        raise _too_small(config, len(required))
    pieces = required | dict.fromkeys(
        x[1:] if x.startswith(WORD_MARK) else CONTINUATION + x
        for x in learned
        if len(x) > 1
    )
    if len(pieces) < config.vocab_size:
        raise _too_large(config, len(pieces))
    kept = itertools.islice(pieces, config.vocab_size)
    return ("".join(f"{piece}\n" for piece in kept),)


def _train(
    sentences: Iterator[str], config: VocabularyConfig, **settings: Any
) -> bytes:
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=sentences,
            model_writer=model,
            character_coverage=config.character_coverage,
            bos_id=-1,
            eos_id=-1,
            input_sentence_size=0,  # Use the whole sample.
            shuffle_input_sentence=False,
            num_threads=config.num_threads,
            minloglevel=2,  # Log only errors, which are also raised.
            **settings,
        )
    except RuntimeError as error:
        raise _training_error(error, config) from error
    return model.getvalue()


class SentenceSample:
    """A random sample of bounded size, drawn in one pass (reservoir sampling).

    Attributes:
      texts: the sampled sentences; longer ones in parts of 1000 characters.
    """

    def __init__(self, max_size: int, seed: int):
        self.texts: list[str] = []
        self._max_size = max_size
        self._seen = 0
        self._generator = random.Random(seed)

    def add(self, sentence: str) -> None:
        """Adds a sentence to those sampled from; a blank one is skipped."""
        for text in _split(sentence):
            self._seen += 1
            if len(self.texts) < self._max_size:
                self.texts.append(text)
                continue
            index = self._generator.randrange(self._seen)
            if index < self._max_size:
                self.texts[index] = text


def sample_by_weight(
    corpora: Mapping[str, tuple[float, Iterable[str]]], config: VocabularyConfig
) -> list[str]:
    """Samples sentences from corpora in proportion to their weights.

    `corpora` has the weight and the sentences of each corpus, by name; the
    weights add up to 1. The sample has `max_sentences` sentences, or fewer if a
    corpus has too few for its share.

    Raises:
      InputError: if a corpus has no sentence.
    """
    samples = {}
    for name, (weight, sentences) in corpora.items():
        sample = SentenceSample(
            max(1, round(weight * config.max_sentences)), config.seed
        )
        for sentence in sentences:
            sample.add(sentence)
        if not sample.texts:
            raise InputError(
                f"corpus {name}: no sentence to train a vocabulary on; give "
                "more text, or leave it out"
            )
        samples[name] = sample.texts
    total = min(len(texts) / corpora[x][0] for x, texts in samples.items())
    generator = random.Random(config.seed)
    return [
        text
        for name, texts in samples.items()
        for text in generator.sample(
            texts, min(len(texts), max(1, round(corpora[name][0] * total)))
        )
    ]


def _split(text: str) -> Iterator[str]:
    """Splits a text into parts of bounded length, at spaces if possible."""
    text = text.strip()
    start = 0
    while len(text) - start > _MAX_CHARACTERS:
        end = text.rfind(" ", start + 1, start + _MAX_CHARACTERS)
        end = end if end > 0 else start + _MAX_CHARACTERS
        if part := text[start:end].strip():
            yield part
        start = end
    if part := text[start:].strip():
        yield part


def _consume(
    sample: list[str], normalize: Callable[[str], str]
) -> Iterator[str]:
    """Yields normalized sentences, freeing each one after it is consumed."""
    sample.reverse()
    while sample:
        yield from _split(normalize(sample.pop()))


def _training_error(error: RuntimeError, config: VocabularyConfig) -> Exception:
    """Converts an error of SentencePiece, to an `InputError` if possible."""
    message = str(error)
    if match := re.search(r"too high.*<= (\d+)", message):
        return _too_large(config, int(match[1]))
    if match := re.search(r"required_chars\. \d+ vs (\d+)", message):
        return _too_small(config, int(match[1]))
    if "sentences_.empty()" in message:
        return InputError(
            "the text has no sentence to train on: SentencePiece skips those "
            "with the character U+2585, which it reserves; replace it"
        )
    return RuntimeError(f"SentencePiece could not train: {message}")


def _too_large(config: VocabularyConfig, maximum: int) -> InputError:
    return InputError(
        f"vocab_size={config.vocab_size} is too large for this text, which "
        f"gives at most {maximum} pieces; use more text, or "
        f"vocab_size={maximum} or less"
    )


def _too_small(config: VocabularyConfig, minimum: int) -> InputError:
    return InputError(
        f"vocab_size={config.vocab_size} is too small for the characters of "
        f"the text and the special pieces; use at least {minimum}, or lower "
        f"character_coverage={config.character_coverage}"
    )
