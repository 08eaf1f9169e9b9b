"""examples/sentence_pairs.py: pairs of sentences from plain text."""

import gzip
import json
import pathlib
import runpy

import pytest

from albert_tf.data.data_config import PretrainingDataConfig
from albert_tf.data.shards import Limits, group_files, read_blocks
from albert_tf.errors import InputError
from albert_tf.finetuning.embedding.examples import read_embedding_examples
from albert_tf.finetuning.examples import BadExamples

EXAMPLE = pathlib.Path(__file__).parents[3] / "examples" / "sentence_pairs.py"
TEXT = """Cats\tsleep all day.
Why do they sleep so much?
Nobody knows the answer.
Nobody knows the answer.
Short.

Dogs bark at night.
They hear the neighbours.
"""


@pytest.fixture
def make(tmp_path):
    """Returns `make(*flags)`: the pairs that the program writes."""
    with gzip.open(tmp_path / "text.txt.gz", "wt") as file:
        file.write(TEXT)
    with gzip.open(tmp_path / "blank.txt.gz", "wt") as file:
        file.write("\n")  # skipped
    main = runpy.run_path(str(EXAMPLE))["main"]
    output = tmp_path / "pairs.tsv"

    def make(*flags):
        main(
            [
                f"--input={tmp_path}/*.gz",
                f"--output={output}",
                "--min_characters=10",
                *flags,
            ]
        )
        bad = BadExamples()
        found = read_embedding_examples(output, bad=bad, labelled=True)
        return [x.texts for x in found]

    return make


def test_kinds_of_pairs(make):
    neighbours = [
        ("Cats sleep all day.", "Why do they sleep so much?"),
        ("Why do they sleep so much?", "Nobody knows the answer."),
        ("Dogs bark at night.", "They hear the neighbours."),
    ]
    # Not across documents, not a short sentence, not a repeated one.
    assert make() == neighbours
    assert make("--kind=questions") == neighbours[1:2]
    first, second = make("--kind=openings", "--min_characters=0")
    assert first[0] == neighbours[0][0]
    assert second == neighbours[2]


def test_equal_seeds_draw_equal_pairs(make):
    whole, drawn = make(), make("--num_pairs=2", "--seed=1")
    assert len(drawn) == 2
    assert set(drawn) < set(whole)
    assert make("--num_pairs=2", "--seed=1") == drawn
    assert any(make("--num_pairs=2", f"--seed={n}") != drawn for n in range(9))


def test_edited_copies(make, tmp_path):
    sentence = "The old captain told us a long story about the wild sea"
    document = "\n".join(f"{sentence} in {year}." for year in range(1000, 1400))
    text = tmp_path / "edits.txt"
    text.write_text(document)
    flags = "--kind=edits", f"--input={text}"
    pairs = make(*flags)
    assert make(*flags) == pairs
    known = set(document.splitlines())
    # The sentence is the first text as often as the second.
    first = sum(first in known for first, second in pairs)
    assert 0.4 < first / len(pairs) < 0.6
    originals = [a if a in known else b for a, b in pairs]
    copies = [b if a in known else a for a, b in pairs]
    # Copies that are equal to their sentence are left out.
    assert 250 < len(pairs) < 350
    words = [
        (set(a.split()), set(b.split()))
        for a, b in zip(originals, copies, strict=True)
    ]
    kept = [len(a & b) / len(a) for a, b in words]
    assert min(kept) < 0.6 < 0.9 < max(kept)
    assert 0.7 < sum(kept) / len(kept) < 0.95
    # Moved spans: the words of a sentence in another order.
    order = sentence.split()
    places = [
        [order.index(x) for x in copy.split() if x in order] for copy in copies
    ]
    assert 0.1 < sum(x != sorted(x) for x in places) / len(places) < 0.5


def test_only_the_sentence_before_lends_words_to_an_edited_copy(make, tmp_path):
    """The first sentence has none before it, so its copies have no others."""
    sentences = {
        word: " ".join(f"{word}{number}" for number in range(9)) + "."
        for word in ("first", "middle", "last")
    }
    before = {"first": None, "middle": "first", "last": "middle"}
    text = tmp_path / "edits.txt"
    # Documents must differ.
    text.write_text(
        "\n\n".join(
            "\n".join(x.replace(".", f" {n}.") for x in sentences.values())
            for n in range(400)
        )
    )
    lent = {word: set() for word in sentences}
    for pair in make("--kind=edits", f"--input={text}"):
        own = {word for text in pair for word in sentences if word in text}
        (original,) = (
            word
            for word, sentence in sentences.items()
            if any(text.startswith(sentence[:-1] + " ") for text in pair)
        )
        lent[original] |= own - {original}
    assert lent == {x: {y} if y else set() for x, y in before.items()}


@pytest.mark.parametrize(
    ("flag", "problem"),
    [
        ("--num_pairs=0", "num_pairs=0 must be at least 1"),
        ("--output=pairs.txt", "must end in .tsv"),
        ("--min_characters=300", "no pairs of sentences of this length"),
        ("--input=absent", "absent"),
    ],
)
def test_errors(make, tmp_path, flag, problem):
    with pytest.raises(InputError, match=problem):
        make(flag)
    assert not (tmp_path / "pairs.tsv").exists()


def test_questions_and_the_sentences_with_their_answers(make, tmp_path, capsys):
    context = "It rained. Then Dr. Watson left London. He was tired."
    answer = {"text": "London", "answer_start": context.index("London")}
    last = {"text": "tired", "answer_start": context.index("tired")}
    questions = [
        {
            "id": "1",
            "question": "Which city did he leave?",
            "answers": [answer],
        },
        {
            "id": "2",
            "question": "How did he feel after that?",
            "answers": [last],
        },
        {"id": "3", "question": "Which has none?", "is_impossible": True},
        {
            "id": "4",
            "question": "Whose answer is elsewhere?",
            "answers": [{**last, "answer_start": 999}],
        },
    ]
    paragraph = {"context": context, "qas": questions}
    squad = tmp_path / "train.json"
    squad.write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
    assert make("--kind=answers", f"--input={squad}") == [
        ("Which city did he leave?", "Then Dr. Watson left London."),
        ("How did he feel after that?", "He was tired."),
    ]
    assert "question 4: answer 'tired' is not in" in capsys.readouterr().err


def test_answers_of_what_is_not_in_the_layout_of_squad(make, tmp_path):
    squad = tmp_path / "train.json"
    squad.write_text("[1]")
    with pytest.raises(InputError, match="train.json: neither in SQuAD's"):
        make("--kind=answers", f"--input={squad}")


def test_documents_held_out_from_pretraining_give_no_pairs(
    make, small_tokenizer, tmp_path
):
    passages = [
        [f"Town {n} has a market.", f"Its mayor was born in {n + 1000}."]
        for n in range(200)
    ]
    text, squad = tmp_path / "passages.txt", tmp_path / "squad.json"
    text.write_text("\n\n".join(map("\n".join, passages)))
    paragraphs = [
        {
            "context": " ".join(passage),
            "qas": [
                {
                    "id": str(n),
                    "question": f"What is in the town number {n}?",
                    "answers": [
                        {
                            "text": "market",
                            "answer_start": passage[0].index("market"),
                        }
                    ],
                }
            ],
        }
        for n, passage in enumerate(passages)
    ]
    article = {"title": "Towns", "paragraphs": paragraphs}
    squad.write_text(json.dumps({"version": "1.1", "data": [article]}))
    data = PretrainingDataConfig(
        tokenizer=small_tokenizer,
        input=str(text),
        output="records",
        heldout_fraction=0.3,
        seed=7,
    )
    [group] = group_files([text], Limits())
    heldout = {
        sentence
        for block in read_blocks(group, data, Limits())
        for document in block.documents
        for sentence in document
        if block.split == "heldout"
    }
    assert 60 < len(heldout) < 180
    for kind, path in [("neighbours", text), ("answers", squad)]:
        flags = f"--kind={kind}", f"--input={path}"
        found = {x for pair in make(*flags) for x in pair}
        assert found >= {x for x in heldout if "market" in x}
        clean = make(*flags, "--heldout_fraction=0.3", "--heldout_seed=7")
        assert 100 < len(clean) < 180
        assert not heldout & {x for pair in clean for x in pair}


def test_a_share_of_all_documents_is_an_error(make):
    with pytest.raises(InputError, match=r"heldout_fraction=1.0 must be in"):
        make("--heldout_fraction=1")
