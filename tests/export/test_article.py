"""The code of an article on published ALBERTs runs with our exports.

Two URLs differ; in Keras 3, also one line and the import, which is not shown.
"""

import gzip
import io
import itertools
import re
import tokenize

import pytest
from architectures import SMALL

from albert_tf.exporting.encoder import export_encoder
from albert_tf.exporting.preprocessor import export_preprocessor
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer

pytestmark = pytest.mark.long

URL = r"(['\"])https://tfhub\.dev/[^'\"]*\1"
# The article trains on these for 10 epochs.
REVIEWS = 356


@pytest.fixture(scope="module")
def article(shared):
    return shared("articles", "002_ada390c1d4603836.txt").read_text("utf-8")


@pytest.fixture(scope="module")
def reviews(shared, tmp_path_factory):
    """A file of IMDb reviews, `label<TAB>text`, with alternating labels."""
    source = shared("data", "imdb", "train.tsv.gz")
    with gzip.open(source, "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file][1:]
    by_label = [[r for r in rows if r[0] == label] for label in "01"]
    pairs = zip(*(rows[: REVIEWS // 2] for rows in by_label), strict=True)
    path = tmp_path_factory.mktemp("imdb") / "reviews.tsv"
    lines = [f"{r[0]}\t{r[3]}\n" for r in itertools.chain(*pairs)]
    assert len(lines) == REVIEWS
    path.write_text("".join(lines), "utf-8")
    return path


@pytest.fixture(scope="module")
def exports(shared, tmp_path_factory):
    """A small encoder with the released vocabulary, and its preprocessor."""
    vocabulary = shared("data", "sentencepiece-30k-clean", "30k-clean.model")
    folder = tmp_path_factory.mktemp("exports")
    config = SMALL.replace(vocab_size=30000, max_position_embeddings=64)
    model = AlbertPretrainer(config)
    tokenizer = AlbertTokenizer.from_file(vocabulary)
    export_encoder(model, folder / "encoder", tokenizer=tokenizer)
    export_preprocessor(tokenizer, folder / "preprocessor", seq_length=64)
    return folder


def statements(line):
    """Restores the line ends between statements, which the article lacks."""
    code, depth, previous = "", 0, ""
    for token in tokenize.generate_tokens(io.StringIO(line).readline):
        begins = depth == 0 and token.type == tokenize.NAME
        if begins and re.search(r"[\w'\")\]]$", previous):
            code += "\n"
        code += token.string
        depth += {"(": 1, ")": -1}.get(token.string, 0)
        previous = token.string
    return code


def code_of(article, exports, trainable, keras_3):
    lines = re.findall(r"^(?:albert_url|text_input|model) ?=.*$", article, re.M)
    code = "\n".join(statements(line) for line in lines)
    paths = [str(exports / name) for name in ("encoder", "preprocessor")]
    parts = re.split(URL, code)[::2]  # Between them is what the group matched.
    assert len(parts) == 3
    code = f"{parts[0]}{paths[0]!r}{parts[1]}{paths[1]!r}{parts[2]}"
    if trainable:
        (line,) = re.findall(r"`(encoder = .*)`", article)
        code = change(
            code, "encoder=hub.KerasLayer(albert_url)", statements(line)
        )
    if keras_3:
        # In Keras 3, the default input of Sequential is float32.
        code = change(
            code,
            "model=tf.keras.Sequential()",
            "model=tf.keras.Sequential([text_input])",
        )
    return code


def change(code, line, new_line):
    lines = code.splitlines()
    assert lines.count(line) == 1
    lines[lines.index(line)] = new_line
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("library", "trainable"),
    [
        ("tensorflow_hub", False),
        pytest.param("tensorflow_hub", True, marks=pytest.mark.slow),
        pytest.param("albert_tf", False, marks=pytest.mark.slow),
        pytest.param("albert_tf", True, marks=pytest.mark.slow),
    ],
)
def test_code_of_the_article(
    run_program, article, exports, reviews, library, trainable, tmp_path
):
    keras_3 = library == "albert_tf"
    environment = {}
    if not keras_3:
        pytest.importorskip("tensorflow_hub")
        environment = {"TF_USE_LEGACY_KERAS": "1"}
    code = code_of(article, exports, trainable, keras_3)
    assert len(code.splitlines()) == 20
    (tmp_path / "code.py").write_text(code, "utf-8")
    run_program(
        "article.py", library, tmp_path / "code.py", reviews, **environment
    )
