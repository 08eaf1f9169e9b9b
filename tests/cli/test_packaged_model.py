"""Commands that take a checkpoint, with the name of the packaged model."""

import pytest

import albert_tf

NAME = "albert_tiny_en"


@pytest.fixture(scope="module")
def user(python_lines, tmp_path_factory, albert):
    """A folder with texts, a labelled table, and records for the model."""
    folder = tmp_path_factory.mktemp("user")
    (folder / "text.txt").write_text("\n\n\n".join(python_lines[:300]) + "\n")
    (folder / "texts.txt").write_text("A [MASK] is here.\nThe [MASK].\n")
    rows = ["text,label", *["a good film,1", "a bad film,0"] * 8]
    (folder / "train.csv").write_text("\n".join(rows) + "\n")
    result = albert(
        folder,
        f"create-data --input=text.txt --text_format=prose "
        f"--spm_model_file={NAME} --output=data --max_seq_length=32 "
        "--max_predictions_per_seq=5 --heldout_fraction=0.2 "
        "--sentence_order=none --num_workers=1",
    )
    assert result.returncode == 0, result.stderr
    return folder


_STEPS = "--num_train_steps=2 --train_batch_size=4 --log_steps=1"


@pytest.mark.long
@pytest.mark.parametrize(
    "command",
    [
        f"embed --model={NAME} --input=texts.txt",
        f"fill-mask --model={NAME} --input=texts.txt",
        f"convert --input={NAME} --output=huggingface",
        f"convert --input={NAME} --spm_model_file={NAME} --output=the_same",
        f"export --kind=encoder --model={NAME} --output=encoder",
        f"evaluate --run={NAME} --input=data --max_eval_steps=2",
        f"analyze similarity {NAME} --input=texts.txt",
        f"analyze attention {NAME} --text=Hello",
        f"pretrain --input=data --init_from={NAME} --output=further {_STEPS} "
        "--num_warmup_steps=0",
        f"finetune --task=text --train=train.csv --dev=train.csv --header "
        f"--text_column=0 --label_column=1 --init_from={NAME} --output=tuned "
        f"--max_seq_length=32 {_STEPS}",
    ],
    ids=lambda command: " ".join(command.split()[:3]),
)
def test_commands_take_its_name(albert, user, command):
    result = albert(user, command)
    assert result.returncode == 0, result.stderr


def test_records_have_its_vocabulary(user):
    ours, theirs = (
        albert_tf.load_tokenizer(name) for name in (user / "data", NAME)
    )
    assert ours.fingerprint == theirs.fingerprint
