import subprocess
import sys

import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.metrics import classification_metrics
from albert_tf.finetuning.token_classification.metrics import sequence_metrics


def test_missing_packages_are_named_with_the_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "seqeval.metrics", None)
    monkeypatch.setitem(sys.modules, "sklearn.metrics", None)
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    install = "pip install "
    with pytest.raises(InputError, match=f"need sklearn, .*{install}"):
        classification_metrics(["accuracy"], [1], [1])
    with pytest.raises(InputError, match=f"need scipy, .*{install}"):
        classification_metrics(["pearson"], [1, 2], [1, 2])
    with pytest.raises(InputError, match=f"need seqeval, .*{install}"):
        sequence_metrics(["f1"], [["O"]], [["O"]])


def test_libraries_are_imported_on_demand():
    code = (
        "import sys, importlib\n"
        "def load(*modules):\n"
        "    for name in modules:\n"
        "        importlib.import_module('albert_tf.finetuning.' + name)\n"
        "load('examples', 'tables', 'library_datasets',"
        " 'text_classification.glue', 'multiple_choice.examples',"
        " 'token_classification.examples', 'question_answering.examples')\n"
        "late = {'tensorflow', 'numpy', 'datasets'} & set(sys.modules)\n"
        "assert not late, late\n"
        "load('metrics', 'token_classification.metrics')\n"
        "late = {'sklearn', 'scipy', 'seqeval', 'tensorflow'}\n"
        "assert late.isdisjoint(sys.modules), late & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
