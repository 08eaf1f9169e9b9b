"""Text in any script and of any shape, from files to records."""

import dataclasses
import functools
import itertools
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from albert_tf.data.block_worker import BlockTask, BlockWorker
from albert_tf.data.chunks import cut_chunks, cut_joined
from albert_tf.data.data_config import PretrainingDataConfig
from albert_tf.data.documents import TextBlock, read_documents
from albert_tf.data.dynamic_examples import (
    ROW_FEATURES,
    ExampleSettings,
    HeldoutMasker,
    make_examples,
)
from albert_tf.data.tfrecords import parse_example
from albert_tf.data.tokenized_documents import (
    TokenizedDocuments,
    VocabularyTable,
)
from albert_tf.errors import InputError
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import VocabularyConfig, train_vocabulary

LONG_LINE = """
import resource, sys
from albert_tf.data.documents import read_documents
from albert_tf.data.tokenized_documents import TokenizedDocuments
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer

tokenizer = AlbertTokenizer.from_file(sys.argv[1])
documents = list(read_documents(sys.argv[2]))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
TokenizedDocuments.from_text(documents, tokenizer)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.long
def test_memory_of_a_long_line(tmp_path, small_tokenizer):
    model, text = tmp_path / "spiece.model", tmp_path / "a.txt"
    model.write_bytes(small_tokenizer.model_bytes)
    text.write_text("ba ro nti sel " * 300_000)
    result = subprocess.run(
        [sys.executable, "-c", LONG_LINE, model, text],
        capture_output=True,
        text=True,
        check=True,
    )
    # In KiB: 4.2 MB of text. It was 240 bytes for each of its bytes.
    assert int(result.stdout) < 400_000


# "Language" in 30 scripts, some of them written from right to left.
SCRIPTS = """
language γλώσσα язык լեզու ენა שפה لغة ܠܫܢܐ ބަސް ߞߊ߲ भाषा ভাষা ਭਾਸ਼ਾ ભાષા
ଭାଷା மொழி భాష ಭಾಷೆ ഭാഷ භාෂාව ภาษา ພາສາ སྐད་ཡིག ဘာသာ ቋንቋ ភាសា 语言 ことば
언어 ᏗᎦᏬᏂᎯᏍᏗ ᐅᖃᐅᓯᖅ ⵜⵓⵜⵍⴰⵢⵜ
""".split()


HOSTILE = [
    *SCRIPTS,
    *["ba", "ro nti", "selkamurelopindra", "x" * 300, "a.b!c", "1,2", "▁", "_"],
    *["...", "?!" * 40, "(" * 70, "[SEP]", "[CLS][MASK]", "<pad>", "<unk>"],
    *["😀", "👩‍👩‍👧‍👦" * 20, "🇦🇶", "e\u0301\u0327", "\u202eabc\u202c"],
    *["\ufeff", "\0", "\ufffd", "\u00ad", "\x1b[0m", "\u2028", "\U0010ffff"],
    *["ß", "İ", "ﷺ"],
]
TEXTS = st.lists(st.sampled_from(HOSTILE) | st.text(), max_size=40).map(
    " ".join
)


@pytest.mark.long
# The same cases in every run, so that CI is reproducible.
@settings(deadline=None, derandomize=True)
@given(
    lines=st.lists(TEXTS, min_size=1, max_size=12),
    max_tokens=st.integers(2, 40),
    short_seq_prob=st.sampled_from([0.0, 0.5]),
    pairs=st.booleans(),
)
@example(lines=[""], max_tokens=9, short_seq_prob=0.0, pairs=False)
@example(lines=["ba"], max_tokens=2, short_seq_prob=0.0, pairs=False)
@example(lines=["▁"], max_tokens=2, short_seq_prob=0.0, pairs=False)
@example(lines=["?" * 999], max_tokens=9, short_seq_prob=0.0, pairs=True)
@example(
    lines=[" ".join(SCRIPTS)], max_tokens=9, short_seq_prob=0.5, pairs=True
)
@example(  # a line of 2 MB
    lines=["ba ro nti, 9 " * 154_000],
    max_tokens=509,
    short_seq_prob=0.1,
    pairs=False,
)
def test_hostile_text_is_kept(
    small_tokenizer, lines, max_tokens, short_seq_prob, pairs
):
    # Another byte-order mark at the start of the text is kept.
    content = "\n".join(lines).encode("utf-8-sig")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "a.txt")
        path.write_bytes(content)
        if not "".join(lines).strip():
            with pytest.raises(InputError, match="contains no text"):
                list(read_documents(path))
            return
        found = list(read_documents(path))
    # Only white space is lost.
    text = "".join(itertools.chain(*found))
    assert "".join(text.split()) == "".join("".join(lines).split())
    sentences = [sentence for document in found for sentence in document]
    encoded = list(itertools.chain(*small_tokenizer.encode(sentences)))
    documents = TokenizedDocuments.from_text(found, small_tokenizer)
    assert documents.tokens.tolist() == encoded
    table = VocabularyTable.from_tokenizer(small_tokenizer)
    assert np.isin(documents.tokens, table.text_ids).all()
    cut = cut_chunks if pairs else cut_joined
    chunks = cut(
        documents,
        table,
        np.random.default_rng(0),
        max_tokens=max_tokens,
        short_seq_prob=short_seq_prob,
    )
    lengths = chunks.ends - chunks.starts
    assert (
        lengths.size == 0 or 1 <= lengths.min() <= lengths.max() <= max_tokens
    )
    # Every token that was not dropped is in one chunk, in order.
    assert (chunks.starts[1:] >= chunks.ends[:-1]).all()
    kept = chunks.tokens[chunks.tokens != table.sep_id]
    assert kept.tolist() == encoded
    if not pairs:
        assert lengths.sum() == len(chunks.tokens)
    # A chunk that starts inside a word follows one with that word only.
    starts = table.word_starts[chunks.tokens]
    boundaries = documents.document_offsets
    for before, after in itertools.pairwise(range(len(chunks))):
        start = chunks.starts[after]
        if not starts[start] and not (pairs and start in boundaries):
            assert chunks.ends[before] == start
            assert not starts[chunks.starts[before] + 1 : start].any()


MAX_SEQ, MAX_PREDICTIONS = 24, 5


@pytest.fixture(scope="module")
def tokenizers(small_tokenizer, documents, tmp_path_factory):
    """A SentencePiece and a WordPiece vocabulary of the same text."""
    path = train_vocabulary(
        itertools.chain(*documents),
        tmp_path_factory.mktemp("wordpiece") / "tiny",
        VocabularyConfig(model_type="wordpiece", vocab_size=200),
    )
    wordpiece = AlbertTokenizer.from_file(path)
    return {"sentencepiece": small_tokenizer, "wordpiece": wordpiece}


@pytest.fixture(scope="module")
def make_masked(tokenizers, unpacked):
    """Returns `make(documents, case) -> features of masked sequences`."""

    @functools.cache
    def workers(case):
        config = PretrainingDataConfig(
            **{
                "input": "-",
                "output": "-",
                "tokenizer": tokenizers[case.vocabulary],
                "masking": case.masking,
                "sentence_order": case.order,
                "max_seq_length": MAX_SEQ,
                "max_predictions_per_seq": MAX_PREDICTIONS,
                "short_seq_prob": 0.3,
                "dupe_factor": 2 if case.masking == "static" else 10,
                "pack": case.pack,
                "masked_lm_prob": case.rate,
            }
        )
        return config, BlockWorker(config, {"train": 1, "heldout": 1})

    def make(found, case):
        config, worker = workers(case)
        split = "train" if case.pack else "heldout"
        passes = range(config.passes(split))
        block = worker(BlockTask(TextBlock(split, 0, found, 1), passes))
        # Held-out text is masked by the same graph as training batches.
        if case.masking == "dynamic" and not case.pack:
            block = HeldoutMasker(config)(block)
        lengths, joined = block.shards[0]
        # Without the frames' 12 bytes before and 4 after a record.
        records = [
            joined[start + 12 : end - 4]
            for start, end in itertools.pairwise([0, *np.cumsum(lengths)])
        ]
        if not case.pack or not records:
            return list(map(parse_example, records))
        batch = make_examples(
            tf.io.parse_example(records, ROW_FEATURES),
            ExampleSettings(
                worker.table,
                MAX_SEQ,
                case.order,
                config,
                config.max_sequences_per_row,
            ),
            tf.constant([1, 2], tf.int64),
        )
        rows = {name: values.numpy() for name, values in batch.items()}
        predictions = (rows["masked_lm_weights"] > 0).sum(1)
        assert predictions.max() <= MAX_PREDICTIONS
        return list(itertools.chain(*unpacked(rows)))

    return make


def check_record(record, table, texts, case):
    """Checks a masked record; `texts` are the ids of each document."""
    length = int(record["input_mask"].sum())
    assert length <= MAX_SEQ == len(record["input_ids"])
    assert record["input_mask"].tolist() == [1] * length + [0] * (
        MAX_SEQ - length
    )
    used = int((record["masked_lm_weights"] > 0).sum())
    wanted = np.clip(round(length * case.rate), 1, MAX_PREDICTIONS)
    assert used <= (wanted if case.rate else 0)
    positions = record["masked_lm_positions"]
    assert (np.diff(positions[:used]) > 0).all()  # sorted and unique
    for name in ("positions", "ids", "weights"):
        assert not record[f"masked_lm_{name}"][used:].any()
    ids = record["input_ids"].copy()
    ids[positions[:used]] = record["masked_lm_ids"][:used]
    assert (ids[length:] == table.pad_id).all()
    is_text = np.isin(ids, table.text_ids)
    assert is_text[positions[:used]].all()  # no special token is predicted
    unmasked = np.setdiff1d(np.arange(MAX_SEQ), positions[:used])
    assert (record["input_ids"][unmasked] == ids[unmasked]).all()
    # Words are masked as a whole.
    chosen = np.isin(np.arange(MAX_SEQ), positions[:used])
    words = np.cumsum(table.word_starts[ids] & is_text)[is_text]
    for word in np.unique(words):
        assert len(set(chosen[is_text][words == word])) == 1
    # Without masks, the record is unchanged text.
    assert ids[0] == table.cls_id
    assert ids[length - 1] == table.sep_id
    types = record["segment_ids"]
    start = int(np.argmax(types)) if types.any() else length
    assert types[start:length].all()
    assert not types[length:].any()
    first = ids[1 : start - 1].tolist()
    second = ids[start : length - 1].tolist()
    assert first
    if types.any():
        assert second
        assert first != second
    assert record["next_sentence_labels"][0] in (
        (0,) if case.order == "none" else (0, 1)
    )
    pieces = [second]
    # A single segment may have several documents, separated by [SEP].
    for is_sep, group in itertools.groupby(first, lambda x: x == table.sep_id):
        if not is_sep:
            pieces.append(list(group))
    for piece in pieces:
        assert any(is_contained(piece, text) for text in texts)


def triples(line):
    words = line.split()
    return [" ".join(words[i : i + 3]) for i in range(0, len(words), 3)]


def is_contained(piece, text):
    width = len(piece)
    starts = range(len(text) - width + 1)
    return any(text[i : i + width] == piece for i in starts)


@dataclasses.dataclass(frozen=True)
class Case:
    """Settings of records."""

    masking: str
    order: str
    vocabulary: str = "sentencepiece"
    rate: float = 0.15
    pack: bool = False


CASES = [
    *(Case("static", order) for order in ("sop", "nsp", "none")),
    Case("static", "sop", "wordpiece"),
    *(Case("static", "sop", rate=rate) for rate in (0.6, 0.0)),
    Case("dynamic", "sop"),
]
# In TensorFlow, where examples are slower.
LONG_CASES = [
    Case("dynamic", "none", rate=0.6),
    Case("dynamic", "nsp", rate=0.0),
    Case("dynamic", "sop", pack=True),
    Case("dynamic", "nsp", "wordpiece", pack=True),
]


@settings(deadline=None, derandomize=True, max_examples=8)
@given(lines=st.lists(TEXTS | st.just(""), min_size=1, max_size=12))
@example(lines=["ba"])
@example(lines=["ba ba", "ba ba"])
@example(lines=["selkamurelopindra" * 40, "ro nti"])
@example(lines=["?" * 99, "!" * 99])
@example(lines=[" ".join(SCRIPTS), "שפה لغة " * 9, "😀 👩‍👩‍👧‍👦" * 9])
@pytest.mark.parametrize(
    "case",
    [*CASES, *(pytest.param(x, marks=pytest.mark.long) for x in LONG_CASES)],
    ids=str,
)
def test_masked_records_of_hostile_text(tokenizers, make_masked, case, lines):
    # Long sentences, and short ones, several of which fit into a record.
    found = [
        [sentence for line in group for sentence in (line, *triples(line))]
        for is_blank, group in itertools.groupby(
            lines, lambda line: not line.strip()
        )
        if not is_blank
    ]
    tokenizer = tokenizers[case.vocabulary]
    table = VocabularyTable.from_tokenizer(tokenizer)
    texts = [
        list(itertools.chain(*tokenizer.encode(document))) for document in found
    ]
    for record in make_masked(found, case):
        check_record(record, table, texts, case)
