import io
import pathlib
import shlex
import shutil
import tarfile

import keras
import pytest

from albert_tf.cli.main import main
from albert_tf.config import AlbertConfig
from albert_tf.demo.corpora import python_documents
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import VocabularyConfig, train_vocabulary

OLD = pathlib.Path(__file__).parent / "data_0_1"


@pytest.fixture(scope="session")
def albert(run_albert):
    """Returns `run(folder, command, stdin)`: what `albert` does there."""

    def run(folder, command, stdin=None):
        return run_albert(*shlex.split(command), cwd=folder, input=stdin)

    return run


@pytest.fixture
def status_eagerly(monkeypatch, capfd, eagerly):
    """Returns `run(folder, command, stdin)`: status, output and errors."""

    def run(folder, command, stdin):
        monkeypatch.chdir(folder)
        stdin = stdin.encode() if isinstance(stdin, str) else stdin
        lines = io.TextIOWrapper(io.BytesIO(stdin))
        monkeypatch.setattr("sys.stdin", lines)
        with eagerly():
            status = main(shlex.split(command))
        return status, *capfd.readouterr()

    return run


@pytest.fixture
def albert_eagerly(status_eagerly):
    """Returns `run(folder, command, stdin)`: the output, without graphs."""

    def run(folder, command, stdin=""):
        status, output, errors = status_eagerly(folder, command, stdin)
        assert status == 0, errors
        return output

    return run


@pytest.fixture
def failing_eagerly(status_eagerly):
    """Returns `run(folder, command, stdin)`: output and errors (status 2)."""

    def run(folder, command, stdin=""):
        status, output, errors = status_eagerly(folder, command, stdin)
        assert status == 2, errors
        return output, errors

    return run


@pytest.fixture(scope="session")
def python_lines():
    """Real prose: paragraphs of the language reference."""
    return [
        line for _, paragraphs in python_documents([]) for line in paragraphs
    ][:2000]


@pytest.fixture(scope="module")
def folder(python_lines, tmp_path_factory):
    """A folder with `start`, a small model that has learnt nothing."""
    folder = tmp_path_factory.mktemp("user")
    vocabulary = train_vocabulary(
        python_lines, folder / "spiece", VocabularyConfig(vocab_size=400)
    )
    config = AlbertConfig(
        vocab_size=400,
        embedding_size=16,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=32,
        initializer_range=0.1,
    )
    keras.utils.set_random_seed(0)
    AlbertPretrainer(config).save_pretrained(
        folder / "start", AlbertTokenizer.from_file(vocabulary)
    )
    return folder


@pytest.fixture(scope="session")
def artifacts(tmp_path_factory):
    """What version 0.1 wrote, and some text."""
    folder = tmp_path_factory.mktemp("artifacts")
    with tarfile.open(OLD / "artifacts.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    shutil.copytree(OLD / "tasks", folder / "tasks")
    text = "".join(f"ba ti ku {number} ro.\n" for number in range(400))
    (folder / "text.txt").write_text(text)
    (folder / "pairs.tsv").write_text("ba ti\tku ro\n")
    (folder / "phases.json").write_text('[{"steps": 1, "input": "records"}]')
    return folder
