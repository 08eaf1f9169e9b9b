import collections
import gzip
import itertools
import json
import pathlib
import random
import sys
import unicodedata

import pytest
import sentencepiece
import tensorflow as tf
from sentencepiece import sentencepiece_model_pb2

from albert_tf.text.tokenizer_files import tokenizer_files
from albert_tf.text.vocabulary import VocabularyConfig, train_vocabulary
from albert_tf.text.word_splitter import WordSplitter


@pytest.fixture(
    scope="session",
    params=[
        pytest.param(6, id="sample"),
        pytest.param(1, id="all", marks=pytest.mark.slow),
    ],
)
def each(request):
    """Which of thousands of texts a test takes: each sixth, or all if slow."""
    return request.param


@pytest.fixture(scope="session")
def clean_model(shared):
    """The path of the vocabulary of Google's English models."""
    return shared("data", "sentencepiece-30k-clean", "30k-clean.model")


@pytest.fixture(scope="session")
def comma_model(tmp_path_factory):
    """The path of a vocabulary rich in pieces of digits and a comma.

    The real one has only such pieces as begin a word, so `google` and
    `corrected` never differ on it.
    """
    folder = tmp_path_factory.mktemp("comma")
    path = train_vocabulary(
        ["one two three four five six seven eight nine ten"],
        folder / "plain",
        VocabularyConfig(vocab_size=30),
    )
    model = sentencepiece_model_pb2.ModelProto.FromString(path.read_bytes())
    del model.pieces[13:]
    for i, piece in enumerate(
        ["▁", *"abcxye0123456789,٢٣", "▁2", "34", "x1"]
        # Word-internal, at the start of words, and not for the rule.
        + ["2,", "00,", "x1,", "y3,", "34,", "0,1,", "٢,"]
        + ["▁2000,", "▁1,", "▁34,", "▁a٣,"]
        + ["▁x,", "a,", ",,", "2,2"]
    ):
        model.pieces.add(piece=piece, score=-2 - 0.01 * i - 1 / len(piece))
    model.trainer_spec.vocab_size = len(model.pieces)
    path = folder / "comma.model"
    path.write_bytes(model.SerializeToString())
    return path


@pytest.fixture(scope="session")
def sentences(shared):
    """Returns `sentences(language, count)` of Wikipedia."""

    def read(language, count):
        path = shared("data", f"wikipedia-{language}", "train.txt.gz")
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            return list(
                itertools.islice(
                    (line for line in lines if line != "\n"), count
                )
            )

    return read


@pytest.fixture(scope="session")
def vectors(shared):
    """The texts of golden/google and of data/oracles."""

    def read(*parts):
        return json.loads(shared(*parts).read_text(encoding="utf-8"))

    oracles = read("data", "oracles", "tokenization_vectors.json")
    cases = [
        *read("golden", "google", "tokenization", "tokenization.json"),
        *oracles["published"],
        *oracles["derived_here_sentencepiece_0_2"],
        oracles["mask_case"],
    ]
    return [case["text"] for case in cases]


@pytest.fixture(scope="session")
def characters():
    """Every assigned code point, and each 64th of the others."""
    return [
        c
        for c in map(chr, range(sys.maxunicode + 1))
        if unicodedata.category(c) not in ("Cn", "Co", "Cs")
        or ord(c) % 64 == 0
        and not "\ud800" <= c < "\ue000"
    ]


@pytest.fixture(scope="session")
def odd_texts():
    """Strings that mix scripts, whitespace, accents, sigmas and nonsense."""
    generator = random.Random(20)
    alphabet = (
        "aAbZ ,.019-'\"(£é\u0301\u0323´¨½…ﬁ™ßİıΣσςΑα\u0345ʰ:\u00ad\u200d"
        "한국\u1112\u1161\u11ab日本ＡＢ，\u0627\u064a\u0651🤔𩸽\ufdfa\ufffd"
        " \t\n\r\x00\x0b\x1c\x1d\x1e\x1f\x7f\x85"
        "\xa0\u1680\u2003\u2028\u3000\ufeff"
    )
    assigned = [
        c
        for c in map(chr, range(sys.maxunicode + 1))
        if unicodedata.category(c) not in ("Cn", "Co", "Cs")
    ]
    texts = ["", " ", "Straße", "İs", "a´b", "ΟΔΟΣ", "ΑΣ'Σ", "Σ", "x\u0301"]
    for i in range(6000):
        source = assigned if i % 4 == 0 else alphabet
        texts.append(
            "".join(generator.choices(source, k=generator.randrange(16)))
        )
    return texts


@pytest.fixture(scope="session")
def quoted_texts():
    """Strings of quotes, whitespace, capital sigmas and letters."""
    generator = random.Random(21)
    alphabet = '``````"´\u0301\u1fef \n\u3000aÉΣΑ\u03f9𝚺İ'
    return [
        "".join(generator.choices(alphabet, k=generator.randrange(12)))
        for _ in range(2000)
    ]


@pytest.fixture(scope="session")
def special_texts():
    """Mixtures of special tokens and other things that tokenizers differ in."""
    generator = random.Random(4)
    pieces = [
        *("[MASK]", "[CLS]", "[SEP]", "<pad>", "<unk>", "[mask]", "<PAD>"),
        *("<UN\u212a>", "<Pad>", "[MASK", "MASK]", "<", "[", "<<pad>>", "s>"),
        *("``", "''", "`", "'", '"', "don''t", "\u00b4", "\u0301", "\u1fef"),
        *("ΑΣ", "Σ", "ΟΔΟΣ", "\u03f9", "\U0001d6ba", "ς", "İ", "ı", "I"),
        *("Straße", "ẞ", "ﬁ", "ﬃ", "½", "²,", "①,", "9,9", "2,000,", "7,"),
        *(" ", "  ", "\n", "\r\n", "\t", "\xa0", "\u200b", "\u200d", "\ufeff"),
        *("\u3000", "\x85", "\x1c", "\u2028", "\u00ad", "é", "e\u0301", "Ü"),
        *("👍🏽", "🇩🇪", "中文", "日本語", "한국", "ＡＢ", "＜ｐａｄ＞", "▁the"),
        *("the", "Hello", "World", "in", "a", "B", ".", ",", "-", "(", "£"),
        *("\x00", "\x01", "\x01m", "\x01e"),
    ]
    return [
        "".join(generator.choices(pieces, k=generator.randrange(9)))
        for _ in range(8000)
    ]


@pytest.fixture(scope="session")
def same_ids():
    """Returns `same_ids(ids, others)`, which knows SentencePiece's ties.

    Where two segmentations have the same score but for rounding, such as 3|333
    and 333|3, releases from 0.2.2 on may choose another one than 0.2.1 and the
    one in TensorFlow Text. That is about 1 of 20,000 real sentences.
    """
    release = tuple(map(int, sentencepiece.__version__.split(".")[:3]))

    def same(ids, others):
        different = [(a, b) for a, b in zip(ids, others, strict=True) if a != b]
        if release < (0, 2, 2):
            return not different
        return len(different) <= 2 + len(ids) // 1000 and all(
            sorted(a) == sorted(b) for a, b in different
        )

    return same


@pytest.fixture(scope="session")
def in_batches():
    """Returns `in_batches(tokenize, texts)`: the rows of a graph's outputs."""

    def run(tokenize, texts):
        return [
            row
            for i in range(0, len(texts), 4096)
            for row in tokenize(tf.constant(texts[i : i + 4096])).to_list()
        ]

    return run


@pytest.fixture(scope="session")
def assert_offsets():
    """Returns `check(preprocessor, texts)`: offsets are Python's, in bytes."""

    def check(preprocessor, texts):
        tokenize = preprocessor.tokenizer.tokenize_with_offsets
        found = preprocessor.tokenize_with_offsets(texts)
        assert [part.dtype for part in found] == [tf.int32, tf.int64, tf.int64]
        rows = zip(*(part.to_list() for part in found), strict=True)
        for text, row in zip(texts, rows, strict=True):
            expected = [
                (
                    token.id,
                    len(text[: token.start].encode()),
                    len(text[: token.end].encode()),
                )
                for token in tokenize(text)
            ]
            assert list(zip(*row, strict=True)) == expected, ascii(text)

    return check


@pytest.fixture(scope="session")
def sources():
    """Returns `sources(tokenizer, text)`: pieces, and what they come from."""

    def run(tokenizer, text):
        tokens = tokenizer.tokenize_with_offsets(text)
        return [
            (token.piece, text[token.start : token.end]) for token in tokens
        ]

    return run


@pytest.fixture(scope="session")
def pieces_of():
    """Returns `pieces_of(model_bytes)`: pieces with scores and types."""

    def run(model_bytes):
        model = sentencepiece_model_pb2.ModelProto.FromString(model_bytes)
        return [(p.piece, p.score, p.type) for p in model.pieces]

    return run


@pytest.fixture(scope="session")
def save():
    """Returns `save(tokenizer, folder) -> folder` with its files."""

    def run(tokenizer, folder, **settings):
        folder.mkdir(exist_ok=True)
        for name, content in tokenizer_files(tokenizer, **settings).items():
            (folder / name).write_bytes(content)
        return folder

    return run


@pytest.fixture(scope="session")
def wordpiece_golden():
    """The folder of a small vocab.txt, and of what the peers make of texts."""
    return pathlib.Path(__file__).parent / "data" / "wordpiece"


@pytest.fixture(scope="session")
def wordpiece_vocabulary():
    """Returns `wordpiece_vocabulary(texts)`, the content of a `vocab.txt`.

    As BERT's it begins with the special pieces, and unused ones before [UNK].
    """

    def make(texts, size=9000):
        counts = collections.Counter()
        splitters = [WordSplitter(), WordSplitter(do_lower_case=False)]
        for word in (w for text in texts for s in splitters for w in s(text)):
            for start in range(len(word)):
                mark = "##" if start else ""
                for end in range(start + 1, min(start + 4, len(word)) + 1):
                    counts[mark + word[start:end]] += 1
        pieces = ["[PAD]", *(f"[unused{i}]" for i in range(1, 100))]
        pieces += ["[UNK]", "[CLS]", "[SEP]", "[MASK]", "<S>", "<T>"]
        pieces += [piece for piece, _ in counts.most_common(size)]
        return "".join(f"{piece}\n" for piece in pieces).encode()

    return make


@pytest.fixture(scope="session")
def odd_vocabulary(wordpiece_vocabulary, odd_texts, special_texts):
    """A vocab.txt of what is in `odd_texts` and `special_texts`."""
    return wordpiece_vocabulary([*odd_texts, *special_texts])


@pytest.fixture(scope="session")
def marked_texts():
    """Strings of letters and marks that compose, or change their order."""
    generator = random.Random(22)
    assigned = list(map(chr, range(0x300, 0x20000)))
    composed = [
        c for c in assigned if unicodedata.decomposition(c)[:1].isalnum()
    ]
    marks = [c for c in assigned if unicodedata.category(c).startswith("M")]
    odd = [c for c in marks if unicodedata.category(c) != "Mn"]
    sources = [
        [*marks, *"aeoΣ"],
        [*composed, *marks[:300], *"aEΣ中!"],
        [*map(chr, range(0x1100, 0x1200)), *"가각한", *marks[:20]],
        [*(c for c in odd if unicodedata.combining(c)), *marks[:9], *"aΣ"],
    ]
    return [
        "".join(generator.choices(sources[i % 4], k=generator.randrange(1, 12)))
        for i in range(4000)
    ]
