import pytest

from albert_tf.data.pretraining_data import create_pretraining_data
from albert_tf.data.pretraining_data_config import PretrainingDataConfig
from albert_tf.demo.python_docs import python_documents
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import train_vocabulary


@pytest.fixture(scope="session")
def text_file(tmp_path_factory):
    """Real prose: the language reference and the standard library's."""
    path = tmp_path_factory.mktemp("text") / "python.txt"
    documents = [
        "\n\n".join(paragraphs) for _, paragraphs in python_documents([])
    ]
    path.write_text("\n\n\n".join(documents), "utf-8")
    return path


@pytest.fixture(scope="session")
def tokenizer(text_file, tmp_path_factory):
    prefix = tmp_path_factory.mktemp("vocab") / "spiece"
    lines = text_file.read_text("utf-8").splitlines()
    return AlbertTokenizer.from_file(
        train_vocabulary(lines, prefix, vocab_size=600)
    )


@pytest.fixture(scope="session")
def make_records(text_file, tokenizer, tmp_path_factory):
    """Returns `make(**settings)`: a folder of records of 32 tokens."""

    def make(**settings):
        folder = tmp_path_factory.mktemp("records") / "data"
        settings = {
            "tokenizer": tokenizer,
            "max_seq_length": 32,
            "max_predictions_per_seq": 5,
            "heldout_fraction": 0.1,
            "dupe_factor": 1,
            **settings,
        }
        create_pretraining_data(
            PretrainingDataConfig(
                input_patterns=[str(text_file)],
                output_folder=folder,
                text_format="prose",
                **settings,
            )
        )
        return folder

    return make


@pytest.fixture(scope="session")
def records(make_records):
    return make_records()
