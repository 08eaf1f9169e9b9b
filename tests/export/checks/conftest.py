import pytest

from albert_tf.export.litert.program import encoder_program
from albert_tf.export.litert.writer import export_litert
from albert_tf.export.task import export_task
from albert_tf.export.task_graphs.texts import classes_graph
from albert_tf.export.text_encoder import export_text_encoder
from albert_tf.models.classifier import AlbertClassifier
from albert_tf.text.tokenizer import AlbertTokenizer

LABELS = ("no", "yes")


@pytest.fixture(scope="session")
def text_encoder_path(pretrainer, tokenizer_model, tmp_path_factory):
    path = tmp_path_factory.mktemp("exports") / "text_encoder"
    export_text_encoder(pretrainer, path, tokenizer_model=tokenizer_model)
    return path


@pytest.fixture(scope="session")
def task_path(config, tokenizer_model, tmp_path_factory):
    path = tmp_path_factory.mktemp("exports") / "task"
    graph = classes_graph(
        AlbertClassifier(config, len(LABELS)),
        AlbertTokenizer.from_file(tokenizer_model),
        labels=LABELS,
        pair=True,
        max_seq_length=20,
    )
    task = {"name": "pairs", "kind": "classes", "labels": LABELS}
    export_task(graph, path, task=task)
    return path


@pytest.fixture(scope="session")
def litert_path(pretrainer, tokenizer_model, tmp_path_factory):
    path = tmp_path_factory.mktemp("exports") / "litert"
    export_litert(
        encoder_program(pretrainer.encoder, seq_length=20),
        path,
        tokenizer=AlbertTokenizer.from_file(tokenizer_model),
    )
    return path
