"""Places of pieces on the web page, beside those of fine-tuning."""

import pathlib

import pytest

import albert_tf
from albert_tf.finetuning.question_answering.features import TokenizedContext
from albert_tf.text.tokenizer_json import wordpiece_json

pytestmark = pytest.mark.peer
REPOSITORY = pathlib.Path(__file__).parents[2]
PACKAGED = REPOSITORY / "albert_tf" / "pretrained_models" / "albert_tiny_en"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
# Letters that are normalized to more or fewer, unknown ones, and ideographs,
# which have no space between them.
PASSAGES = [
    "She was born in Paris…and moved to Berlin in 1932.",
    "About 500㎏in total, (Malmö/Ängelholm), ﬁnally.",
    "Cafe\u0301s are naïve\u2009İstanbul; \U0001f600smile\U0001f600 now",
    "北京是中国的首都，天安门在北京……上海很大。",
    "北京 and Paris…上海",
]


@pytest.fixture
def find_pieces(run_node):
    """Returns `find(folder)`: id and places of the passages' pieces."""

    def find(folder):
        names = ("tokenizer.json", "tokenizer_config.json")
        return run_node(
            "pieces.mjs",
            page=str(REPOSITORY / "export" / "web_page.html"),
            files=[str(folder / name) for name in names],
            passages=PASSAGES,
        )

    return find


def code_points(text, place):
    """Converts an offset of JavaScript, in UTF-16."""
    return len(text.encode("utf-16-le")[: 2 * place].decode("utf-16-le"))


def check(found, tokenizer):
    for text, pieces in zip(PASSAGES, found, strict=True):
        expected = TokenizedContext.from_text(text, tokenizer)
        assert [x[0] for x in pieces] == expected.ids.tolist()
        places = [
            [code_points(text, place) for place in places]
            for _, *places in pieces
        ]
        # There, the space before a word is a part of its first piece.
        assert places == [
            [end - len(text[start:end].lstrip()), end]
            for start, end in zip(
                expected.starts.tolist(), expected.ends.tolist(), strict=True
            )
        ]


def test_sentencepiece(find_pieces):
    tokenizer = albert_tf.load_tokenizer(PACKAGED)
    check(find_pieces(PACKAGED), tokenizer)


def test_wordpiece(find_pieces, tmp_path):
    pieces = [*SPECIAL, *"北京是中国的首都，天安门在上海很大。.,;(/)"]
    pieces += ["she", "was", "in", "and", "paris", "cafes", "total", "500"]
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join(pieces) + "\n", "utf-8")
    tokenizer = albert_tf.AlbertWordPieceTokenizer.from_file(vocabulary)
    tokenizer.save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes(wordpiece_json(tokenizer))
    check(find_pieces(tmp_path), tokenizer)
