"""Words with labels as rows, and predictions for pieces back to words."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from albert_tf.data.examples.example import WordsExample
from albert_tf.errors import InputError
from albert_tf.text.base_tokenizer import Tokenizer

# The label of tokens that have none.
IGNORED = -1

# Sentences that are tokenized at a time, so that each word of theirs is
# tokenized once.
_CHUNK = 1024


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class WordsRow:
    """`[CLS] pieces of words [SEP]`: a sentence, or as much of it as fits.

    Attributes:
      ids: of the tokens, without padding.
      labels: of the tokens: the label of a word at its first piece, `IGNORED`
        elsewhere; None if labels were not asked for.
      first_pieces: where in the row each of its words begins.
    """

    ids: list[int]
    labels: list[int] | None
    first_pieces: list[int]

    @property
    def types(self) -> list[int]:
        """Segments: 0 for every token."""
        return [0] * len(self.ids)


def words_rows(
    examples: Iterable[WordsExample],
    tokenizer: Tokenizer,
    *,
    max_seq_length: int,
    labels: Sequence[str] | None = None,
    num_threads: int = -1,
) -> Iterator[list[WordsRow]]:
    """Makes the rows of sentences; every word is in one of them.

    Each word is tokenized on its own, as if blanks were around it. One that
    normalizes to nothing, such as a lone control character, is the unknown
    piece. One with more pieces than a row has room for loses its last ones. A
    sentence that is too long goes on in a further row with its next word.

    Args:
      examples: read a chunk at a time.
      tokenizer: of the model.
      max_seq_length: most tokens of a row.
      labels: the names of the labels, in the order of the model's outputs; None
        for rows without labels.
      num_threads: see `Tokenizer.encode`.

    Yields:
      The rows of each sentence, in order; none for a sentence without words.

    Raises:
      InputError: labels are missing or not among `labels`, or
        `max_seq_length` is below 3.
    """
    if max_seq_length < 3:
        raise InputError(
            f"max_seq_length={max_seq_length} must be at least 3, to hold "
            "[CLS], [SEP] and a piece"
        )
    places = None if labels is None else {x: i for i, x in enumerate(labels)}
    room = max_seq_length - 2
    examples = iter(examples)
    while chunk := list(itertools.islice(examples, _CHUNK)):
        words = dict.fromkeys(
            itertools.chain.from_iterable(example.words for example in chunk)
        )
        encoded = tokenizer.encode(list(words), num_threads=num_threads)
        pieces = {
            word: ids[:room] or [tokenizer.unk_id]
            for word, ids in zip(words, encoded, strict=True)
        }
        for example in chunk:
            label_ids = None if places is None else _label_ids(example, places)
            yield _rows(
                [pieces[word] for word in example.words],
                label_ids,
                room,
                tokenizer,
            )


def values_of_words(
    rows: Sequence[WordsRow], values: Sequence[np.ndarray]
) -> np.ndarray:
    """Returns what was predicted for the words of a sentence, in order.

    Args:
      rows: all rows of the sentence.
      values: predictions for each row, `[tokens, ...]`: labels, or
        probabilities; what is after the row's last token is ignored.

    Returns:
      The prediction at each word's first piece, `[words, ...]`.
    """
    if not rows:
        return np.zeros([0])
    return np.concatenate(
        [
            np.asarray(predicted)[row.first_pieces]
            for row, predicted in zip(rows, values, strict=True)
        ]
    )


def _rows(
    words: list[list[int]],
    label_ids: list[int] | None,
    room: int,
    tokenizer: Tokenizer,
) -> list[WordsRow]:
    rows = []
    begin = 0
    while begin < len(words):
        ids, first_pieces = [tokenizer.cls_id], []
        end = begin
        while end < len(words) and len(ids) + len(words[end]) <= room + 1:
            first_pieces.append(len(ids))
            ids += words[end]
            end += 1
        ids.append(tokenizer.sep_id)
        row_labels = None
        if label_ids is not None:
            row_labels = [IGNORED] * len(ids)
            for place, label in zip(
                first_pieces, label_ids[begin:end], strict=True
            ):
                row_labels[place] = label
        rows.append(
            WordsRow(ids=ids, labels=row_labels, first_pieces=first_pieces)
        )
        begin = end
    return rows


def _label_ids(example: WordsExample, places: dict[str, int]) -> list[int]:
    if example.labels is None:
        raise InputError(f"{example.place}: no labels")
    for label in example.labels:
        if label not in places:
            raise InputError(
                f"{example.place}: label {label!r} is not one of "
                f"{', '.join(places)}"
            )
    return [places[label] for label in example.labels]
