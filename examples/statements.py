"""Makes statements that a passage entails, or does not, from SQuAD.

    python examples/statements.py --input=train-v1.1.json --output=pairs.tsv

A statement is a question with an answer in the place of its interrogative: "Who
wrote Hamlet?" becomes "Shakespeare wrote Hamlet." The premise is the sentence
with the answer, in some cases with the sentence before or after it. What is not
entailed has another answer that is also in the premise, or another sentence of
the passage as its premise. The statements of RTE were made from questions in
the same way (Dagan et al., 2006); see Demszky et al. (arXiv:1809.02922).

They need not be grammatical, "Shakespeare write Hamlet in 1600.", but what is
entailed is made like what is not, so that the statement alone tells little.
Equal seeds give equal files, with columns sentence1, sentence2 and label.
"""

import argparse
import bisect
import itertools
import random
import re
import sys

from albert_tf.data.paragraphs import split_sentences
from albert_tf.errors import InputError, exit_on_input_error
from albert_tf.files import check_not_input, write_atomically
from albert_tf.finetuning.examples import BadExamples
from albert_tf.finetuning.question_answering.examples import read_squad

INTERROGATIVES = set("what which who whom whose when where why how".split())
MODALS = set("could can has have had will would should must might may".split())
BE = set("is was are were".split())
AUXILIARIES = MODALS | BE | set("did does do".split())
PREPOSITIONS = set("in on by at for to from with".split())
STRANDED = PREPOSITIONS | {"of", "as"}
# Names of several words, and numbers.
SPAN = re.compile(
    r"(?:[A-Z][\w'-]+(?: (?:of|the|de) (?=[A-Z]))?(?: [A-Z][\w'-]+)*)"
    r"|\d[\d,.]*(?: (?:million|billion|percent|years))?"
)
LENGTHS = range(31, 600)  # characters of a sentence


def statement(question, answer):
    """Returns a question as a statement; None if it asks why, or for nothing.

    Examples:
      "In what year did Rome fall?", "476" -> "Rome fall in 476."
      "What is the capital of France?", "Paris" -> "The capital of France is
      Paris."
    """
    words = question.strip().rstrip("?!. ").split()
    lower = [word.lower() for word in words]
    index = next((i for i, x in enumerate(lower) if x in INTERROGATIVES), None)
    if index is None or lower[index] == "why":
        return None
    asked, before, after = lower[index], words[:index], words[index + 1 :]
    if asked == "how" and after and after[0].lower() not in AUXILIARIES:
        after = after[1:]  # "how many", "how long"
    lower = [word.lower() for word in after]
    place = next((i for i, x in enumerate(lower[:4]) if x in AUXILIARIES), None)
    is_subject = place is None or asked == "whose"
    if asked in ("who", "what", "which") and not before and place == 0:
        is_subject = is_subject or lower[0] in MODALS
    if is_subject or place + 1 == len(after):
        return _sentence([*before, answer, *after])
    noun, auxiliary, rest = after[:place], after[place], after[place + 1 :]
    is_year = bool(noun) and lower[0] == "year"
    if lower[place] in BE and not before:
        if asked in ("what", "who") and (is_year or not noun):
            return _sentence([*rest, auxiliary, answer])
        if noun and not is_year:
            return _sentence([answer, auxiliary, *rest])
    if not before and asked in ("when", "where"):
        before = ["in"]
    is_stranded = rest[-1].lower() in STRANDED
    if is_stranded or answer.split()[0].lower() in PREPOSITIONS:
        before = []
    if lower[place] in AUXILIARIES - MODALS - BE:
        before = [word.lower() for word in before]
    return _sentence([*rest, *before, answer])


def _sentence(words):
    """Returns words as a sentence, or None if they are too few."""
    text = " ".join(" ".join(words).split())
    if len(text.split()) < 4:
        return None
    return text[0].upper() + text[1:] + "."


def kind(answer):
    """Returns whether an answer is a number, a name or something else."""
    if re.search(r"\d", answer):
        return "number"
    return "name" if re.search("[A-Z]", answer) else "other"


def other_answers(premise, answers, answer, question):
    """Returns what else in a premise could be the answer.

    These are answers to other questions, or names and numbers, of the same kind
    as the answer; or answers of another kind.
    """

    def is_other(text):
        lower = text.lower()
        return (
            len(lower) > 1
            and lower in premise.lower()
            and lower not in answer.lower()
            and answer.lower() not in lower
            and lower not in question.lower()
        )

    others = [x for x in answers if is_other(x)]
    spans = [x.group().strip(" ,.") for x in SPAN.finditer(premise)]
    alike = [x for x in others if kind(x) == kind(answer)] or [
        x for x in spans if is_other(x) and kind(x) == kind(answer)
    ]
    return alike or others


def _premise(sentences, index, rng):
    """Returns a sentence, in half of the cases with one beside it."""
    if rng.random() < 0.33 and index:
        return " ".join(sentences[index - 1 : index + 1])
    if rng.random() < 0.2 and index + 1 < len(sentences):
        return " ".join(sentences[index : index + 2])
    return sentences[index]


def _not_entailed(true, premise, sentences, example, answers, rng):
    """Returns a premise and a statement that does not follow, or None."""
    answer = example.answers[0].text
    if rng.random() < 0.6:
        others = other_answers(premise, answers, answer, example.question)
        if others:
            return premise, statement(example.question, rng.choice(others))
    asked = set(example.question.lower().split())
    wrong = [
        sentence
        for sentence in sentences
        if answer.lower() not in sentence.lower() and len(sentence) > 30
    ]
    if not wrong:
        return None
    return max(wrong, key=lambda x: len(asked & set(x.lower().split()))), true


def rows_of(context, examples, language, rng):
    """Yields premise, statement and label for the questions of a passage."""
    parts = split_sentences(language, context)
    sentences = [" ".join(part.split()) for part in parts]
    starts = [0, *itertools.accumulate(map(len, parts))]
    answered = [example for example in examples if example.answers]
    answers = dict.fromkeys(example.answers[0].text for example in answered)
    for example in answered:
        answer = example.answers[0]
        index = bisect.bisect(starts, answer.start) - 1
        premise = _premise(sentences, index, rng)
        true = statement(example.question, answer.text)
        if (
            true is None
            or answer.text.lower() not in premise.lower()
            or len(answer.text.split()) > 8
            or len(premise) not in LENGTHS
        ):
            continue
        yield premise, true, "entailment"
        wrong = _not_entailed(true, premise, sentences, example, answers, rng)
        if wrong is not None and wrong[1] is not None:
            yield *wrong, "not_entailment"


def main(arguments=None):
    """Writes the statements, in random order."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--input", required=True, help="a JSON file of SQuAD")
    add("--output", required=True, help="the .tsv file to write")
    add("--language", default="en", help="ISO 639 code, to split passages")
    add("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    if not given.output.endswith(".tsv"):
        raise InputError(f"output={given.output}: the name must end in .tsv")
    check_not_input(given.output, [given.input])
    rng, bad = random.Random(given.seed), BadExamples("skip")
    examples = read_squad(given.input, bad=bad)
    rows = [
        row
        for context, asked in itertools.groupby(examples, lambda x: x.context)
        for row in rows_of(context, list(asked), given.language, rng)
    ]
    if bad.counted:
        print(bad.summary(), file=sys.stderr)
    # What another question asks may be entailed after all.
    entailed = {row[:2] for row in rows if row[2] == "entailment"}
    rows = [x for x in rows if x[2] == "entailment" or x[:2] not in entailed]
    if not rows:
        raise InputError(f"{given.input}: no statement can be made of it")
    rng.shuffle(rows)
    lines = map("\t".join, rows)
    header = "sentence1\tsentence2\tlabel"
    write_atomically(given.output, "\n".join([header, *lines]) + "\n")
    count = sum(label == "entailment" for *_, label in rows)
    print(
        f"wrote {len(rows):,} statements to {given.output}, of which "
        f"{count:,} are entailed"
    )


if __name__ == "__main__":
    with exit_on_input_error("statements"):
        main()
