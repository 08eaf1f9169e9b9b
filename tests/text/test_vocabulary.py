import collections
import dataclasses
import functools

import pytest
import sentencepiece

from albert_tf.errors import InputError
from albert_tf.text.normalizer import Normalizer
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import (
    VocabularyConfig,
    sample_by_weight,
    train_vocabulary,
)


def train(texts, output, **settings):
    config = VocabularyConfig(**settings)
    return train_vocabulary(texts, output, config, overwrite=True)


@pytest.fixture(scope="module")
def corpus(sentences):
    return sentences("en", 1000)


@pytest.fixture(scope="module")
def trained(corpus, tmp_path_factory):
    prefix = tmp_path_factory.mktemp("trained") / "new" / "en"
    return train(iter(corpus), prefix, vocab_size=600)


def test_has_alberts_layout(trained):
    tokenizer = AlbertTokenizer.from_file(trained)
    assert trained.name == "en.model"
    assert tokenizer.vocab_size == 600
    assert [tokenizer.id_to_piece(i) for i in range(14)] == [
        *["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"],
        *["(", ")", '"', "-", ".", "–", "£", "€", "▁"],
    ]
    processor = sentencepiece.SentencePieceProcessor(str(trained))
    assert (processor.bos_id(), processor.eos_id()) == (-1, -1)
    assert all(processor.is_control(i) for i in (0, 2, 3, 4))
    assert not any(processor.is_control(i) for i in range(5, 600))


@pytest.mark.parametrize(
    ("settings", "pieces", "absent"),
    [
        ({}, ["the", "##ing", "a", "##a", "中"], ["##中", "##.", "The", "é"]),
        ({"do_lower_case": False}, ["The", "the", "é"], ["##中"]),
        ({"do_lower_case": False, "strip_accents": True}, ["The"], ["é"]),
        ({"strip_accents": False}, ["the", "é"], ["The"]),
    ],
)
def test_wordpiece(corpus, tmp_path, settings, pieces, absent):
    texts = [*corpus, *["été 中文"] * 9]
    wordpiece = {"vocab_size": 600, "model_type": "wordpiece"}
    path = train(texts, tmp_path / "vocab", **wordpiece, **settings)
    assert [x.name for x in tmp_path.iterdir()] == ["vocab.txt"]
    tokenizer = AlbertTokenizer.from_file(path, **settings)
    vocabulary = tokenizer.get_vocab()
    assert list(vocabulary)[:5] == "[PAD] [UNK] [CLS] [SEP] [MASK]".split()
    assert len(vocabulary) == 600
    assert vocabulary.keys() >= set(pieces)
    assert vocabulary.keys().isdisjoint(absent)
    # What is in the vocabulary as characters is never unknown.
    assert tokenizer.unk_id not in tokenizer.encode(corpus[0])
    if not settings:
        again = train(texts, tmp_path / "again", **wordpiece)
        assert again.read_bytes() == path.read_bytes()


def test_pieces_of_bpe_are_merged_in_their_order(corpus, tmp_path):
    path = train(corpus, tmp_path / "x", vocab_size=300, model_type="bpe")
    tokenizer = AlbertTokenizer.from_file(path)
    processor = sentencepiece.SentencePieceProcessor(str(path))
    learned = range(13, 13 + 50)
    assert [processor.get_score(i) for i in learned] == [-i for i in range(50)]
    text = corpus[0]
    assert tokenizer.decode(tokenizer.encode(text)) == tokenizer.normalizer(
        text
    )


def test_model_equals_sentencepiece_command(trained, corpus, tmp_path):
    """The same recipe, by its command line and files."""
    normalizer = Normalizer()
    text = tmp_path / "text.txt"
    text.write_text("\n".join(map(normalizer, corpus)))
    sentencepiece.SentencePieceTrainer.train(
        input=str(text),
        model_prefix=str(tmp_path / "own"),
        vocab_size=600,
        model_type="unigram",
        character_coverage=0.99995,
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols="[CLS],[SEP],[MASK]",
        user_defined_symbols='(,),"""",-,.,–,£,€',
        shuffle_input_sentence=False,
        minloglevel=2,
    )
    own = (tmp_path / "own.vocab").read_text()
    assert trained.with_suffix(".vocab").read_text() == own


def test_same_input_and_seed_give_the_same_bytes(corpus, tmp_path):
    def content(name, **settings):
        path = train(corpus[:400], tmp_path / name, vocab_size=120, **settings)
        return path.read_bytes()

    drawn = content("a", max_sentences=200, seed=1)
    assert drawn == content("b", max_sentences=200, seed=1)
    assert drawn != content("c", max_sentences=200, seed=2)
    # Nothing to draw: the seed does not matter.
    assert content("d", seed=1) == content("e", seed=2)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {f"{n}{s}" for n in "abcde" for s in (".model", ".vocab")}


@pytest.mark.parametrize("model_type", ["unigram", "bpe", "wordpiece"])
@pytest.mark.parametrize(
    ("lines", "size", "bound"),
    [(50, 30000, "at most "), (500, 50, "at least ")],
)
def test_impossible_sizes_name_the_bound(
    corpus, tmp_path, model_type, lines, size, bound
):
    fit = functools.partial(
        train, corpus[:lines], tmp_path / "x", model_type=model_type
    )
    with pytest.raises(InputError, match=f"vocab_size={size} .*{bound}") as e:
        fit(vocab_size=size)
    assert not list(tmp_path.iterdir())
    assert "\n" not in str(e.value)
    number = str(e.value).split(bound)[1].split()[0].rstrip(",")
    path = fit(vocab_size=int(number))
    assert AlbertTokenizer.from_file(path).vocab_size == int(number)


@pytest.mark.parametrize(
    "sentences", [[], ["", " \n"], ["\x7f", "\u200b"], ["...", "\u0301"]]
)
def test_no_text(sentences, tmp_path):
    with pytest.raises(InputError, match="no text to train a vocabulary on"):
        train(sentences, tmp_path / "x", vocab_size=50)


def test_a_character_that_sentencepiece_reserves(tmp_path):
    with pytest.raises(InputError, match=r"character U\+2585, which it reserv"):
        train(["a\u2585b hello"] * 3, tmp_path / "x", vocab_size=20)


def test_long_sentences_are_used(tmp_path):
    text = ["qua " * 3000 + "zz" * 3000, "ab ba"]
    path = train(text, tmp_path / "x", vocab_size=20)
    assert "z" in path.with_suffix(".vocab").read_text()


def test_reading_errors_pass_through(corpus, tmp_path):
    def failing():
        yield corpus[0]
        raise InputError("corpus.txt: line 2: not UTF-8")

    with pytest.raises(InputError, match="line 2"):
        train_vocabulary(failing(), tmp_path / "x")
    with pytest.raises(InputError, match="must be texts, not b'abc'"):
        train([b"abc"], tmp_path / "y", vocab_size=20)
    with pytest.raises(InputError, match="not one text"):
        train_vocabulary("corpus.txt", tmp_path / "x")


def test_a_vocabulary_is_replaced_only_if_asked(corpus, tmp_path):
    config = VocabularyConfig(vocab_size=120)
    path = train_vocabulary(corpus, tmp_path / "x", config)
    before = path.read_bytes()
    other = VocabularyConfig(vocab_size=110)
    with pytest.raises(InputError, match=r"x.model exists; choose another"):
        train_vocabulary(corpus, tmp_path / "x", other)
    assert path.read_bytes() == before
    train_vocabulary(corpus, tmp_path / "x", other, overwrite=True)
    assert path.read_bytes() != before


def test_wrong_arguments():
    with pytest.raises(ValueError, match="character_coverage=99.5 must be in"):
        VocabularyConfig(character_coverage=99.5)
    with pytest.raises(ValueError, match="max_sentences=0 must be"):
        VocabularyConfig(max_sentences=0)


def test_output_is_checked_before_the_corpus_is_read(tmp_path):
    def unread():
        raise AssertionError("read")
        yield

    (tmp_path / "file").write_text("")
    for prefix in (tmp_path / "file" / "x", "", "/proc/absent/x"):
        with pytest.raises(InputError, match="output=.*cannot be wri"):
            train_vocabulary(unread(), prefix)
    with pytest.raises(InputError, match="output='gs://b/x'.*local"):
        train_vocabulary(unread(), "gs://b/x")


def test_a_new_listing_is_never_beside_an_old_model(
    corpus, tmp_path, each_kill
):
    def run(folder, size=100):
        train(corpus[:20], folder / "en", vocab_size=size, num_threads=1)

    def prepare(name):
        (tmp_path / name).mkdir()
        run(tmp_path / name, size=110)
        return tmp_path / name

    for folder in each_kill(prepare, run):
        tokenizer = AlbertTokenizer.from_file(folder / "en.model")
        listing = folder / "en.vocab"
        if listing.exists():
            lines = listing.read_text().count("\n")
            assert lines == tokenizer.vocab_size
        run(folder)
        assert {x.name for x in folder.iterdir()} == {"en.model", "en.vocab"}
        assert listing.read_text().count("\n") == 100


def test_is_quiet(run_albert, tmp_path):
    program = (
        "from albert_tf.text.vocabulary import *;"
        f"train_vocabulary(['ab ba cd'] * 9, {str(tmp_path / 'x')!r}, "
        "VocabularyConfig(vocab_size=18))"
    )
    done = run_albert("-c", program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (100, {"a": 70, "b": 30}),
        (10_000, {"a": 700, "b": 300}),  # all of b, and its share of a
        (1, {"a": 1, "b": 1}),
    ],
)
def test_corpora_are_sampled_by_weight(most, expected):
    def corpora():
        return {
            "a": (0.7, (f"a {i}" for i in range(2000))),
            "b": (0.3, (f"b {i}" for i in range(300))),
        }

    config = VocabularyConfig(max_sentences=most)
    sample = sample_by_weight(corpora(), config)
    assert len(set(sample)) == len(sample)
    counts = collections.Counter(text[0] for text in sample)
    assert counts == expected
    assert sample == sample_by_weight(corpora(), config)
    assert sample != sample_by_weight(
        corpora(), dataclasses.replace(config, seed=1)
    )
    with pytest.raises(InputError, match="corpus b: no sentence"):
        sample_by_weight({"a": (0.5, "x"), "b": (0.5, " ")}, config)
