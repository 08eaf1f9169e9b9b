"""Runs notebooks/movie_reviews.ipynb, as its reader does, on small data."""

import pathlib
import re

import nbclient
import nbformat
import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import VocabularyConfig, train_vocabulary

pytestmark = pytest.mark.long

NOTEBOOK = (
    pathlib.Path(__file__).resolve().parents[2]
    / "notebooks"
    / "movie_reviews.ipynb"
)
WORDS = "the a movie film plot was is and really it".split()


@pytest.fixture(scope="module")
def notebook():
    return nbformat.read(NOTEBOOK, as_version=4)


def reviews(folder):
    """Folders as IMDb has them; a word tells whether a review is good."""
    rng = np.random.default_rng(0)
    texts = []
    for part, count in (("train", 24), ("test", 8)):
        for name, word in (("neg", "bad"), ("pos", "good")):
            where = folder / part / name
            where.mkdir(parents=True)
            for number in range(count):
                text = " ".join([*rng.choice(WORDS, 5), word, word])
                (where / f"{number}_5.txt").write_text(text, "utf-8")
                texts.append(text)
    return texts


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    """The notebook's variables: a small model, and texts in a folder."""
    folder = tmp_path_factory.mktemp("reader")
    texts = reviews(folder / "reviews")
    vocabulary = train_vocabulary(
        texts, folder / "spiece", VocabularyConfig(vocab_size=38)
    )
    config = AlbertConfig(
        vocab_size=38,
        embedding_size=8,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=16,
    )
    AlbertPretrainer(config).save_pretrained(
        folder / "model", AlbertTokenizer.from_file(vocabulary)
    )
    return {
        "ENCODER": str(folder / "hub" / "encoder"),
        "PREPROCESSOR": str(folder / "hub" / "preprocessor"),
        "CHECKPOINT": str(folder / "model"),
        "REVIEWS": str(folder / "reviews"),
        "SEQ_LENGTH": 12,
        "BATCH_SIZE": 8,
        "EPOCHS": 2,
    }


@pytest.fixture(scope="module")
def executed(notebook, settings, tmp_path_factory):
    notebook = nbformat.from_dict(notebook)
    (number,) = (
        number
        for number, cell in enumerate(notebook.cells)
        if "parameters" in cell.metadata.get("tags", ())
    )
    for name in settings:
        assert f"\n{name} = " in notebook.cells[number].source
    lines = [f"{name} = {value!r}" for name, value in settings.items()]
    notebook.cells.insert(
        number + 1, nbformat.v4.new_code_cell("\n".join(lines))
    )
    nbclient.NotebookClient(
        notebook,
        timeout=600,
        kernel_name="python3",
        # Elsewhere than in the repository: nothing of it can be imported.
        resources={"metadata": {"path": tmp_path_factory.mktemp("empty")}},
    ).execute()
    return notebook


def printed(notebook):
    return "".join(
        output.text
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if output.output_type == "stream" and output.name == "stdout"
    )


def test_it_trains_twice(executed, settings):
    output = printed(executed)
    assert "48 reviews to train on, 16 to check" in output
    learned = re.findall(r"([\d,]+) numbers will be learned", output)
    frozen, fine_tuned = (int(x.replace(",", "")) for x in learned)
    manifest = pathlib.Path(settings["ENCODER"], "export.json")
    assert manifest.exists()
    encoder = AlbertPretrainer.from_pretrained(settings["CHECKPOINT"]).encoder
    assert fine_tuned - frozen == encoder.count_params()
    assert output.count("Epoch 2/2") == 2
    scores = re.findall(r"(.*): ([\d.]+)% of the validation", output)
    assert [name for name, _ in scores] == ["frozen", "fine-tuned"]
    # Balanced classes; what a head of noise learns is not asked here.
    assert all(0 <= float(percent) <= 100 for _, percent in scores)
    assert len(re.findall(r"good with probability [01]\.\d\d:", output)) == 2


def test_it_plots_both_runs(executed):
    (plot,) = (
        output
        for cell in executed.cells
        for output in cell.get("outputs", ())
        if "image/png" in output.get("data", {})
    )
    assert len(plot.data["image/png"]) > 10_000


def test_as_it_is_kept(notebook):
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs for cell in code)
    assert all(cell.execution_count is None for cell in code)
    assert "%pip install" in code[0].source
    assert re.search(r"^FULL_IMDB = False$", code[1].source, re.MULTILINE)
    badge = "colab.research.google.com/github/"
    assert badge in notebook.cells[0].source
    assert f"/blob/main/notebooks/{NOTEBOOK.name}" in notebook.cells[0].source
