"""Questions with options as rows, one an option: passage, then the rest."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator

from albert_tf.data.examples.example import ChoiceExample
from albert_tf.errors import InputError
from albert_tf.text.base_tokenizer import Tokenizer

# Questions that are tokenized at a time, so that a passage that consecutive
# ones share is tokenized once.
_CHUNK = 256

# What Unicode's compatibility decomposition, part of the tokenizer's
# normalization, makes a low line: the original looks for that after it.
_BLANKS = {
    code: "_" for code in (0xFE33, 0xFE34, 0xFE4D, 0xFE4E, 0xFE4F, 0xFF3F)
}


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ChoiceFeatures:
    """A question: a row `[CLS] passage [SEP] question and option [SEP]` each.

    Attributes:
      ids: of each option, the tokens of its row, without padding.
      types: of each option, 0 up to the first `[SEP]` and 1 after it.
      label: the right option, from 0; None if it is not known.
    """

    ids: list[list[int]]
    types: list[list[int]]
    label: int | None


def choice_features(
    examples: Iterable[ChoiceExample],
    tokenizer: Tokenizer,
    *,
    max_seq_length: int = 512,
    max_qa_length: int = 128,
    num_threads: int = -1,
) -> Iterator[ChoiceFeatures]:
    """Makes the rows of questions as the original does (race_utils.py).

    If there is a `_` in the question, every one is replaced by the option;
    otherwise the option follows the question and a blank. Of the pieces of
    that, the last `max_qa_length` are kept; of the passage, as many from its
    beginning as then fit.

    Args:
      examples: read a chunk at a time.
      tokenizer: of the model.
      max_seq_length: most tokens of a row.
      max_qa_length: most pieces of question and option.
      num_threads: see `Tokenizer.encode`.

    Yields:
      The features of each example, in order.

    Raises:
      InputError: the two lengths do not fit together.
    """
    if not 1 <= max_qa_length <= max_seq_length - 3:
        raise InputError(
            f"max_qa_length={max_qa_length} must be at least 1, and with "
            "[CLS], [SEP] and [SEP] at most max_seq_length="
            f"{max_seq_length}"
        )
    examples = iter(examples)
    while chunk := list(itertools.islice(examples, _CHUNK)):
        questions = [
            [
                _question_with(example.question, option)
                for option in example.options
            ]
            for example in chunk
        ]
        texts = dict.fromkeys(
            [
                *(example.passage for example in chunk),
                *itertools.chain.from_iterable(questions),
            ]
        )
        encoded = tokenizer.encode(list(texts), num_threads=num_threads)
        pieces = dict(zip(texts, encoded, strict=True))
        for example, texts_of_options in zip(chunk, questions, strict=True):
            passage = pieces[example.passage]
            ids, types = [], []
            for text in texts_of_options:
                second = pieces[text][-max_qa_length:]
                first = passage[: max_seq_length - 3 - len(second)]
                ids.append(
                    [
                        tokenizer.cls_id,
                        *first,
                        tokenizer.sep_id,
                        *second,
                        tokenizer.sep_id,
                    ]
                )
                types.append([0] * (len(first) + 2) + [1] * (len(second) + 1))
            yield ChoiceFeatures(ids=ids, types=types, label=example.label)


def _question_with(question: str, option: str) -> str:
    question, option = question.strip(), option.strip()
    filled = question.translate(_BLANKS)
    if "_" in filled:
        return filled.replace("_", option)
    return f"{question} {option}"
