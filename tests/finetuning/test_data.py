from albert_tf.finetuning.data import TaskFiles, load_data
from albert_tf.finetuning.registry import known_task, make_task_type


def test_scores_of_training_examples_are_named(tokenizer, tmp_path, caplog):
    task_type = make_task_type(known_task("sst2"), tokenizer)
    train, copy, dev = (tmp_path / f"{x}.tsv" for x in ("train", "copy", "dev"))
    train.write_text("sentence\tlabel\na good film\t1\na bad film\t0\n")
    copy.write_text(train.read_text())
    dev.write_text("sentence\tlabel\na weak film\t0\n")
    load_data(task_type, TaskFiles(train=[train], dev=[dev]))
    load_data(task_type, TaskFiles(train=[train]))
    assert not caplog.text
    load_data(task_type, TaskFiles(train=[train], dev=[dev, copy]))
    assert "copy.tsv: the model is also trained on these" in caplog.text
