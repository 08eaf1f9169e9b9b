import contextlib
import io
import pathlib
import shlex
import shutil

import pytest

from albert_tf.cli.main import main
from albert_tf.demo.corpora import python_documents

DATA = pathlib.Path(__file__).parent / "data"


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


@pytest.fixture(scope="session")
def python_lines():
    """Real prose: paragraphs of the language reference."""
    return [
        line for _, paragraphs in python_documents([]) for line in paragraphs
    ][:2000]


@pytest.fixture(scope="module")
def folder(checkpoint, tmp_path_factory):
    """A folder with `start`, a small model that has learnt nothing."""
    folder = tmp_path_factory.mktemp("user")
    shutil.copytree(checkpoint, folder / "start")
    shutil.copy(checkpoint / "spiece.model", folder)
    return folder


_SMALL = (
    "embedding_size=4,hidden_size=16,num_hidden_layers=1,"
    "num_attention_heads=2,intermediate_size=16,max_position_embeddings=64,"
    "initializer_range=0.6"
)
_TRAINING = (
    "--num_train_steps=2 --train_batch_size=8 --log_steps=1 "
    "--save_checkpoints_steps=1"
)
_FINETUNE = f"finetune --init_from=run --max_seq_length=32 {_TRAINING}"
_SPANS = "--doc_stride=8 --max_query_length=8 --n_best=5"
# Task -> flags that choose it, and its file.
_TASKS = {
    "classes": ("text --classes=bad,good", "classes.csv"),
    "joint_spans": (f"squad2.0 {_SPANS}", "squad2.json"),
    "words": ("ner", "words.txt"),
}


def _commands():
    """Yields the commands that make the artifacts."""
    yield "train-vocab --input=text.txt --output=vocab/spiece --vocab_size=150"
    yield (
        "create-data --input=text.txt --spm_model_file=vocab/spiece.model "
        "--output=records --max_seq_length=64 --max_predictions_per_seq=5 "
        "--heldout_fraction=0.2 --num_shards=2 --compress --num_workers=1"
    )
    yield (
        f"pretrain --input=records --config=albert_base_v2 {_TRAINING} "
        f"--config_overrides=vocab_size=150,{_SMALL} --num_warmup_steps=0 "
        "--eval_steps=2 --best_metric=loss --output=run"
    )
    for name, (task, file) in _TASKS.items():
        yield (
            f"{_FINETUNE} --output=finetuned/{name} --task={task} "
            f"--train=tasks/{file} --dev=tasks/{file}"
        )
    yield f"{_FINETUNE} --output=seeds --task=sst2 --data=tasks/glue --runs=2"
    yield "convert --input=run --output=pretrainer"
    yield "export --kind=encoder --model=run --output=exports/encoder"
    yield (
        "export --kind=litert --model=run --seq_length=16 "
        "--output=exports/litert_encoder"
    )
    yield (
        "export --kind=task --model=finetuned/classes "
        "--output=exports/task_classes"
    )


def _interrupt(folder, name):
    """Makes `interrupted/run`, say, of a run: as if killed after a step."""
    run = folder / "interrupted" / pathlib.Path(name).name
    shutil.copytree(folder / name, run)
    for path in run.glob("checkpoints/step-00000002.*"):
        path.unlink()
    (run / "checkpoints" / "best.json").unlink()
    shutil.rmtree(run / "model", ignore_errors=True)
    flags = (run / "flags.txt").read_text()
    assert f"--output={name}\n" in flags
    output = f"--output={run.relative_to(folder)}\n"
    (run / "flags.txt").write_text(flags.replace(f"--output={name}\n", output))


@pytest.fixture(scope="session")
def artifacts(eagerly, tmp_path_factory):
    """What commands write, some of them interrupted, and what they read."""
    folder = tmp_path_factory.mktemp("artifacts")
    shutil.copytree(DATA, folder, dirs_exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for command in _commands():
            no_graph = (
                contextlib.nullcontext() if "export" in command else eagerly()
            )
            with no_graph:
                assert main(shlex.split(command)) == 0, command
    for name in ("run", "finetuned/classes"):
        _interrupt(folder, name)
    text = "".join(f"ba ti ku {number} ro.\n" for number in range(400))
    (folder / "text.txt").write_text(text)
    (folder / "pairs.tsv").write_text("ba ti\tku ro\n")
    (folder / "phases.json").write_text('[{"steps": 1, "input": "records"}]')
    return folder
