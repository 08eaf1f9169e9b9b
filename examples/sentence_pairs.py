"""Makes pairs of related sentences from plain text, to train embeddings on.

    python examples/sentence_pairs.py --input='corpus/*.txt' --output=pairs.tsv
    albert finetune --task=embedding --train=pairs.tsv --dev=stsb/dev.tsv ...

Pairs are drawn evenly from the whole text: equal seeds give equal files. Only
the pairs that are drawn are kept in memory.

`--kind=answers` reads SQuAD's files instead of text: questions and the
sentences with their answers. `--kind=edits` pairs sentences with edited copies
of themselves, for `albert create-data --sentence_order=nsp`. albert_tiny_en was
trained on both. Pairs that go into pretraining must not come from documents
that are held out for its evaluation: with the `--heldout_fraction` of `albert
create-data` (and its `--seed` as `--heldout_seed`), these are left out. Of
SQuAD, a document is a passage, with a sentence per line.
"""

import argparse
import bisect
import itertools
import random
import sys
from typing import get_args

from albert_tf.data.data_config import (
    PretrainingDataConfig,
    ReadingConfig,
    TextFormat,
)
from albert_tf.data.documents import (
    document_text,
    is_heldout,
    read_corpus,
)
from albert_tf.data.paragraphs import split_sentences
from albert_tf.data.text_files import find_text_files
from albert_tf.errors import InputError, exit_on_input_error
from albert_tf.files import check_not_input, write_atomically
from albert_tf.finetuning.examples import BadExamples
from albert_tf.finetuning.question_answering.examples import read_squad


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


def edits(document, rng):
    """Yields each sentence with an edited copy of itself, in random order.

    Half of the copies lose up to 10 % of their words. The others lose up to
    40 %, and half of them have a span moved; two fifths have words of the
    sentence before in the place of 15 % of their own.
    """
    for index, sentence in enumerate(document):
        words = sentence.rstrip(".!?;:,").split()
        light = rng.random() < 0.5
        if not light and rng.random() < 0.5 and len(words) > 6:
            start, end = sorted(rng.sample(range(len(words)), 2))
            span, words = words[start:end], words[:start] + words[end:]
            place = rng.randrange(len(words) + 1)
            words[place:place] = span
        rate = rng.choice((0, 0.05, 0.1) if light else (0.1, 0.2, 0.3, 0.4))
        words = [word for word in words if rng.random() >= rate]
        if not light and rng.random() < 0.4:
            others = document[index - 1].split()
            replaced = [
                rng.choice(others) if rng.random() < 0.15 else word
                for word in words
            ]
            # Nothing is before the first sentence. It draws all the same,
            # which leaves the draws of the others as they were.
            if index:
                words = replaced
        pair = [sentence, " ".join(words) + "."]
        rng.shuffle(pair)
        yield pair


KINDS = {x.__name__: x for x in (neighbours, questions, openings, edits)}


def answers(path, language, is_left_out):
    """Yields each question with the sentence in which its answer begins."""
    bad = BadExamples("skip")
    examples = read_squad(path, bad=bad)
    for context, asked in itertools.groupby(examples, lambda x: x.context):
        sentences = split_sentences(language, context)
        lines = [" ".join(sentence.split()) for sentence in sentences]
        if is_left_out([line for line in lines if line]):
            continue
        starts, end = [], 0
        for sentence in sentences:
            starts.append(context.index(sentence, end))
            end = starts[-1] + len(sentence)
        for question in asked:
            for answer in question.answers[:1]:
                after = bisect.bisect(starts, answer.start)
                ends = [*starts[after:], len(context)]
                yield question.question, context[starts[after - 1] : ends[0]]
    if bad.counted:
        print(bad.summary(), file=sys.stderr)


def parse_arguments(arguments):
    """Returns the flags."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add(
        "--input",
        required=True,
        help="text files, as of albert create-data; answers: SQuAD's JSON",
    )
    add("--output", required=True, help="the .tsv file to write")
    add("--text_format", default="lines", choices=get_args(TextFormat))
    add("--language", default="en", help="ISO 639 code, to split prose")
    add("--kind", default="neighbours", choices=[*KINDS, "answers"])
    add("--num_pairs", type=int, default=200_000, help="at most")
    add("--min_characters", type=int, default=30, help="of a sentence")
    add("--max_characters", type=int, default=400)
    add("--seed", type=int, default=0)
    add(
        "--heldout_fraction",
        type=float,
        default=0.0,
        help="leave out the documents that create-data holds out with this",
    )
    add(
        "--heldout_seed",
        type=int,
        default=PretrainingDataConfig.seed,
        help="the --seed of create-data",
    )
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


def read_pairs(files, given, rng):
    """Yields the pairs of all files."""
    reading = ReadingConfig(
        text_format=given.text_format, language=given.language
    )

    def is_left_out(document):
        text = document_text(document)
        return is_heldout(text, given.heldout_fraction, given.heldout_seed)

    for path in map(str, files):
        if given.kind == "answers":
            yield from answers(path, given.language, is_left_out)
            continue
        for document in read_corpus([path], reading):
            if not is_left_out(document):
                yield from KINDS[given.kind](document, rng)


def main(arguments=None):
    """Writes the pairs."""
    given = parse_arguments(arguments)
    rng = random.Random(given.seed)
    lengths = range(given.min_characters, given.max_characters + 1)
    if given.num_pairs < 1:
        raise InputError(f"num_pairs={given.num_pairs} must be at least 1")
    if not 0 <= given.heldout_fraction < 1:
        raise InputError(
            f"heldout_fraction={given.heldout_fraction} must be in [0, 1)"
        )
    if not given.output.endswith(".tsv"):
        raise InputError(f"output={given.output}: the name must end in .tsv")
    files = find_text_files(given.input)
    check_not_input(given.output, files)

    def pairs():
        for pair in read_pairs(files, given, rng):
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
    with exit_on_input_error("sentence_pairs"):
        main()
