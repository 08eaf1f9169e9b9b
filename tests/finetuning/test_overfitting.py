"""Each kind of task overfits 32 examples, from files to scores."""

import pytest

from albert_tf.finetuning.config import FinetuneConfig
from albert_tf.finetuning.finetune import finetune


@pytest.mark.parametrize(
    ("kind", "metric", "perfect"),
    [
        # tests/cli overfits two classes, too; test_losses.py compares losses.
        pytest.param("classes", "accuracy", 1.0, marks=pytest.mark.slow),
        pytest.param("number", "pearson", 1.0, marks=pytest.mark.slow),
        pytest.param("choices", "accuracy", 1.0, marks=pytest.mark.slow),
        pytest.param("spans", "f1", 100.0, marks=pytest.mark.slow),
        pytest.param("joint spans", "f1", 100.0, marks=pytest.mark.long),
        pytest.param("words", "accuracy", 1.0, marks=pytest.mark.slow),
    ],
)
def test_overfits(
    kind, metric, perfect, task_files, task_of, checkpoint, tmp_path
):
    path = task_files[kind]
    config = FinetuneConfig(
        task=task_of(
            kind, max_seq_length=64, max_qa_length=24, max_query_length=16
        ),
        train=[path],
        dev=[path],
        output=tmp_path / "run",
        init_from=checkpoint,
        # A number takes longer than a label.
        num_train_steps=200 if kind == "number" else 100,
        steps_per_loop=50,
        eval_steps=50,
        log_steps=50,
        log_update_norms=False,
        train_batch_size=32,
        learning_rate=2e-3 if kind == "number" else 5e-3,
        weight_decay=0.0,
        head_dropout=0.0,
    )
    result = finetune(config).best
    assert result.scores[metric] == pytest.approx(perfect, abs=5e-3)
