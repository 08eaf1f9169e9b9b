"""Makes pairs of related sentences from plain text, to train embeddings on.

    python examples/sentence_pairs.py --input='corpus/*.txt' --output=pairs.tsv
    albert finetune --task=embedding --train=pairs.tsv --dev=stsb/dev.tsv ...

Pairs are drawn evenly from the whole text: equal seeds give equal files. Only
the pairs that are drawn are kept in memory.
"""

import argparse
import random
import sys
from typing import get_args

from albert_tf.errors import InputError
from albert_tf.files import check_not_input, write_atomically
from albert_tf.pretraining.data_config import TextFormat
from albert_tf.pretraining.documents import read_documents
from albert_tf.pretraining.text_files import find_text_files


def neighbours(document, rng):
    """Yields each sentence with the next one."""
    yield from zip(document, document[1:], strict=False)


def questions(document, rng):
    """Yields each question with the sentence after it."""
    for first, second in zip(document, document[1:], strict=False):
        if first.rstrip("\"' ”’").endswith(("?", "？")):
            yield first, second


def openings(document, rng):
    """Yields the first sentence, or title, with one of the others."""
    if len(document) > 1:
        yield document[0], rng.choice(document[1:])


KINDS = {x.__name__: x for x in (neighbours, questions, openings)}


def parse_arguments(arguments):
    """Returns the flags."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--input", required=True, help="text files, as of albert create-data")
    add("--output", required=True, help="the .tsv file to write")
    add("--text_format", default="lines", choices=get_args(TextFormat))
    add("--language", default="en", help="ISO 639 code, to split prose")
    add("--kind", default="neighbours", choices=KINDS)
    add("--num_pairs", type=int, default=200_000, help="at most")
    add("--min_characters", type=int, default=30, help="of a sentence")
    add("--max_characters", type=int, default=400)
    add("--seed", type=int, default=0)
    return parser.parse_args(arguments)


def draw(pairs, count, rng):
    """Returns `count` of any number of pairs, in order (reservoir sampling)."""
    drawn = []
    for number, pair in enumerate(pairs):
        if number < count:
            drawn.append((number, pair))
        elif (place := rng.randrange(number + 1)) < count:
            drawn[place] = number, pair
    return [pair for _, pair in sorted(drawn)]


def main(arguments=None):
    """Writes the pairs."""
    given = parse_arguments(arguments)
    rng = random.Random(given.seed)
    lengths = range(given.min_characters, given.max_characters + 1)
    if given.num_pairs < 1:
        raise InputError(f"num_pairs={given.num_pairs} must be at least 1")
    if not given.output.endswith(".tsv"):
        raise InputError(f"output={given.output}: the name must end in .tsv")
    files = find_text_files(given.input)
    check_not_input(given.output, files)

    def pairs():
        for path in files:
            for document in read_documents(
                path, given.text_format, given.language
            ):
                for pair in KINDS[given.kind](document, rng):
                    first, second = (" ".join(text.split()) for text in pair)
                    fit = len(first) in lengths and len(second) in lengths
                    if fit and first != second:
                        yield first, second

    drawn = draw(pairs(), given.num_pairs, rng)
    if not drawn:
        raise InputError(f"{given.input}: no pairs of sentences of this length")
    rows = ["anchor\tpositive", *map("\t".join, drawn)]
    write_atomically(given.output, "\n".join(rows) + "\n")
    print(f"wrote {len(drawn):,} pairs to {given.output}")


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        sys.exit(f"sentence_pairs: {error}")
