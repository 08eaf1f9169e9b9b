"""Exports in a process that has TensorFlow and TensorFlow Text only."""

import pytest

from albert_tf.export.config import ExportConfig
from albert_tf.export.export import export

pytestmark = pytest.mark.long

OTHERS = {
    "encoder": {"packed": True},
    "text_encoder": {"packed": False, "seq_length": 16},
}


def test_exports(exports, run_in_tensorflow, pretrained, tmp_path):
    """Of all kinds, as they are and saved again, and under XLA."""
    pairs = list(exports.values())
    for kind, settings in OTHERS.items():
        folder = tmp_path / f"other_{kind}"
        export(pretrained, folder, kind, ExportConfig(**settings))
        pairs.append((pretrained, folder))
    run_in_tensorflow(pairs)


def test_tasks(make_finetuned, run_in_tensorflow, tmp_path):
    pairs = []
    for name in ("stsb", "dream", "ner", "squad2.0"):
        settings = {"max_seq_length": 32, "max_qa_length": 12, "doc_stride": 9}
        source = make_finetuned(name, max_query_length=8, **settings)
        export(source, tmp_path / name, "task")
        pairs.append((source, tmp_path / name))
    run_in_tensorflow(pairs)
