"""What commit 31816b2 wrote, opened by the code of today.

`data/31816b2` has an artifact of each kind, and what the code of that commit
computed with it; its README says how it was made.
"""

import itertools
import json
import pathlib
import shutil
import tarfile

import keras
import numpy as np
import pytest
import tensorflow as tf

import albert_tf

DATA = pathlib.Path(__file__).parent / "data" / "31816b2"

# The commands with which the runs were begun.
PRETRAIN = (
    "pretrain --input=records --config=albert_base_v2 "
    "--config_overrides=vocab_size=150,embedding_size=4,hidden_size=16,"
    "num_hidden_layers=2,num_attention_heads=2,intermediate_size=16,"
    "max_position_embeddings=64,hidden_dropout_prob=0.1,"
    "attention_probs_dropout_prob=0.1,initializer_range=0.6 "
    "--train_batch_size=4 --eval_batch_size=4 --num_warmup_steps=2 "
    "--steps_per_loop=1 --log_steps=1 --keep_checkpoint_max=1 "
    "--best_metric=loss "
)
LONGER = (
    "--output=longer --schedule=warmup_stable_decay --eval_steps=3 "
    "--learning_rate=0.01 --num_train_steps=9"
)
INTERRUPTED = (
    "--output=interrupted/run --num_train_steps=8 --eval_steps=4 "
    "--optimizer=adamw --learning_rate=0.005 --ema_decay=0.5 --seed=3 "
    "--gradient_accumulation_steps=2"
)
FINETUNE = (
    "finetune --init_from=run --num_train_steps=6 --eval_steps=3 "
    "--train_batch_size=8 --learning_rate=0.003 --steps_per_loop=1 "
    "--log_steps=1"
)
PAIRS, LONG = "--pair_column=pair ", "--max_seq_length=64 "
SPANS = "--max_seq_length=32 --doc_stride=8 --max_query_length=8 --n_best=5 "
# Folder of the run -> the file it was trained, scored and used on, and flags.
KINDS = {
    "classes": ("classes.csv", "--task=text --classes=bad,good " + LONG),
    "number": ("number.tsv", "--task=text --regression " + PAIRS + LONG),
    "choices": ("dream.json", "--task=dream --max_qa_length=16 " + LONG),
    "spans": ("squad1.json", "--task=squad1.1 " + SPANS),
    "joint_spans": ("squad2.json", "--task=squad2.0 " + SPANS),
    "words": ("words.txt", "--task=ner " + LONG),
}
# Export -> what it was made of.
EXPORTS = {
    **dict.fromkeys(["encoder", "preprocessor", "text_encoder"], "run"),
    **{f"task_{kind}": f"finetuned/{kind}" for kind in KINDS},
}
LITERT = {
    **dict.fromkeys(["litert_encoder", "litert_encoder_dynamic"], "run"),
    "litert_task_classes": "finetuned/classes",
}
SOURCES = EXPORTS | LITERT
SEEDS = (
    "finetune --task=sst2 --data=tasks/glue --init_from=run --output=known "
    "--runs=2 --num_train_steps=4 --eval_steps=2 --train_batch_size=8 "
    "--learning_rate=0.003 --max_seq_length=32 --cache_dir=cache"
)
# Sums in another order.
CLOSE = {"rel": 1e-4, "abs": 1e-4}
AFTER_TRAINING = {"rel": 2e-3, "abs": 2e-3}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The artifacts; each test leaves those of the others as they are."""
    folder = tmp_path_factory.mktemp("legacy")
    with tarfile.open(DATA / "artifacts.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    (folder / "tasks").symlink_to(DATA / "tasks")
    return folder


def finetune(run):
    """Returns the command of a run of one of `KINDS`."""
    file, flags = KINDS[run.split("/")[1]]
    data = f"--train=tasks/{file} --dev=tasks/{file}"
    return f"{FINETUNE} --output={run} {data} {flags}"


def one_long(name, of):
    """Returns parameters: a name for `make test-long`, the others are slow."""
    marks = {True: pytest.mark.long, False: pytest.mark.slow}
    return [pytest.param(x, marks=marks[x == name]) for x in of]


def lines_of(text):
    return [json.loads(line) for line in text.splitlines()]


def stored_scores(name):
    return json.loads((DATA / "scores" / f"{name}.json").read_text())


def assert_same_predictions(text, name):
    stored = (DATA / "predictions" / f"{name}.jsonl").read_text()
    assert_close(lines_of(text), lines_of(stored))


def assert_close(value, expected):
    """Compares JSON values whose numbers may differ a little."""
    keras.tree.assert_same_structure(value, expected)
    leaves = (keras.tree.flatten(x) for x in (value, expected))
    for one, other in zip(*leaves, strict=True):
        number = isinstance(other, float)
        assert one == (pytest.approx(other, **CLOSE) if number else other)


def given_and_computed(name):
    """Returns stored inputs, and the outputs that belong to them."""
    stored = dict(np.load(DATA / "outputs" / f"{name}.npz"))
    computed = {x: v for x, v in stored.items() if x.startswith("output/")}
    given = {x: v for x, v in stored.items() if x not in computed}
    return given, {x.split("/")[1]: v for x, v in computed.items()}


def assert_same_outputs(outputs, computed, tolerance=1e-4):
    assert set(outputs) == set(computed)
    for name, expected in computed.items():
        actual = np.asarray(outputs[name])
        if expected.dtype.kind == "U":
            actual = np.char.decode(actual.astype("S"), "utf-8")
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(actual, expected, 1e-4, tolerance, name)
        else:
            np.testing.assert_array_equal(actual, expected, name)


def last_scores(run):
    """Returns the last scores in the log of a run."""
    entries = lines_of((run / "metrics.jsonl").read_text())
    return [x for x in entries if x["split"] == "eval"][-1]


def assert_same_end(run, expected):
    """Compares the last scores of a run with stored ones."""
    last = last_scores(run)
    assert last["step"] == expected["step"]
    values = {name: expected[name] for name in last["values"]}
    assert last["values"] == pytest.approx(values, **AFTER_TRAINING)


def test_a_pretraining_run_scores_the_same(albert):
    text = albert(
        "evaluate --checkpoints=run/checkpoints/step-* --input=records --json"
    )
    for each, name in zip(lines_of(text), ("run_best", "run"), strict=True):
        del each["checkpoint"]
        assert each == pytest.approx(stored_scores(name), **CLOSE)


@pytest.mark.parametrize(
    "kind",
    [
        x if x != "spans" else pytest.param(x, marks=pytest.mark.long)
        for x in KINDS
    ],
)
def test_a_finetuned_model_predicts_the_same(albert, kind):
    predictions = albert(
        f"predict --model=finetuned/{kind} --input=tasks/{KINDS[kind][0]} "
        "--format=jsonl"
    )
    assert_same_predictions(predictions, kind)


@pytest.mark.parametrize(
    "kind",
    [
        x
        if x in ("classes", "joint_spans")
        else pytest.param(x, marks=pytest.mark.slow)
        for x in KINDS
    ],
)
def test_a_finished_finetuning_run_is_known(albert, folder, kind):
    run = folder / "finished" / kind
    shutil.copytree(folder / "finetuned" / kind, run)
    before = (run / "metrics.jsonl").read_text()
    assert "the weights of step" in albert(finetune(f"finished/{kind}"))
    assert (run / "metrics.jsonl").read_text() == before


@pytest.mark.parametrize("kind", one_long("joint_spans", of=KINDS))
def test_an_interrupted_finetuning_run_goes_on(albert, folder, kind):
    albert(finetune(f"interrupted/{kind}"))
    expected = last_scores(folder / "finetuned" / kind)
    expected |= expected["values"]
    assert_same_end(folder / "interrupted" / kind, expected)


@pytest.mark.long
def test_a_model_of_several_runs_predicts_the_same(albert):
    ensemble = "seeds/run-0,seeds/run-1"
    for model, name in (("seeds", "seeds"), (ensemble, "ensemble")):
        predictions = albert(
            f"predict --model={model} --input=tasks/glue/SST-2/test.tsv "
            "--format=jsonl"
        )
        assert_same_predictions(predictions, name)
    scores = albert(f"evaluate --model={ensemble} --data=tasks/glue --json")
    assert_close(json.loads(scores), stored_scores("ensemble"))


def test_several_runs_are_known(albert, folder):
    record = folder / "known" / "runs.json"
    shutil.copytree(folder / "seeds", folder / "known")
    before = json.loads(record.read_text())
    assert "accuracy: median" in albert(SEEDS)
    after = json.loads(record.read_text())
    assert_close({name: after[name] for name in before}, before)


def test_the_flags_of_a_run_are_those_of_its_command(albert, folder):
    log = folder / "run" / "metrics.jsonl"
    before = log.read_text()
    albert("pretrain --flagfile=run/flags.txt")
    assert log.read_text() == before


# A run that is made longer reads old records, too.
@pytest.mark.slow
def test_old_records_train_a_new_run(albert, folder):
    albert(
        "pretrain --input=records --init_from=run --output=new "
        "--num_train_steps=2 --num_warmup_steps=1 --train_batch_size=4"
    )
    assert last_scores(folder / "new")["step"] == 2


@pytest.mark.long
def test_an_interrupted_pretraining_run_goes_on(albert, folder):
    albert(PRETRAIN + INTERRUPTED)
    expected = stored_scores("interrupted_run")
    assert_same_end(folder / "interrupted" / "run", expected)


@pytest.mark.long
def test_a_pretraining_run_is_made_longer(albert, folder):
    shutil.copytree(folder / "run", folder / "longer")
    albert(PRETRAIN + LONGER)
    assert_same_end(folder / "longer", stored_scores("run_9"))


@pytest.mark.parametrize(
    "name",
    [
        "encoder",
        # Much the same as joint_spans.
        pytest.param("task_spans", marks=pytest.mark.slow),
        *(
            pytest.param(x, marks=pytest.mark.long)
            for x in EXPORTS
            if x not in ("encoder", "task_spans")
        ),
    ],
)
def test_an_export_computes_the_same(folder, name):
    layer = albert_tf.HubLayer(folder / "exports" / name)
    given, computed = given_and_computed(f"export_{name}")
    given = {x: tf.constant(v) for x, v in given.items()}
    if name in ("preprocessor", "text_encoder"):
        given = given["text"]
    assert_same_outputs(layer(given), computed)


@pytest.mark.parametrize("name", LITERT)
@pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter")
def test_a_litert_export_computes_the_same(folder, name):
    content = (folder / "exports" / name / "model.tflite").read_bytes()
    model = tf.lite.Interpreter(model_content=content)
    given, computed = given_and_computed(f"export_{name}")
    outputs = model.get_signature_runner("serving_default")(**given)
    # Another processor may round to another one of 256 steps.
    tolerance = 0.05 if name.endswith("dynamic") else 1e-4
    assert_same_outputs(outputs, computed, tolerance)


@pytest.mark.parametrize("name", one_long("litert_task_classes", of=SOURCES))
def test_an_export_passes_its_check(albert, name):
    table = albert(f"export --check=exports/{name} --model={SOURCES[name]}")
    assert "FAIL" not in table


@pytest.mark.parametrize("name", ["run", "pretrainer", "exports/encoder"])
def test_a_pretrainer_computes_the_same(folder, name):
    model = albert_tf.AlbertPretrainer.from_pretrained(folder / name)
    given, computed = given_and_computed("pretrainer")
    outputs = model(given)
    assert_same_outputs({x: outputs[x] for x in computed}, computed)


@pytest.mark.parametrize("name", ["encoder", "classifier", "hub_layers"])
def test_a_keras_file_computes_the_same(folder, monkeypatch, name):
    # Whoever loads a file has imported the classes that it names.
    for used in ("AlbertEncoder", "AlbertClassifier", "HubLayer"):
        assert getattr(albert_tf, used)
    monkeypatch.chdir(folder)  # hub_layers has relative paths of exports.
    model = keras.saving.load_model(f"{name}.keras", safe_mode=False)
    given, computed = given_and_computed(name)
    if name == "hub_layers":
        given = tf.constant(given["text"])
    outputs = model(given)
    if not isinstance(outputs, dict):
        outputs = {"output": outputs}
    assert_same_outputs({x: outputs[x] for x in computed}, computed)


def test_every_flag_is_known_or_answered_with_its_new_name(albert):
    lines = (DATA / "legacy_flags.txt").read_text().splitlines()
    flags = [line.split(" ", 2)[:2] for line in lines]
    for command, group in itertools.groupby(flags, lambda flag: flag[0]):
        text = albert(f"{command} --help")
        for _, flag in group:
            if f"--{flag}: " in text or f"--[no]{flag}: " in text:
                continue
            answer = albert(f"{command} --{flag}=1", status=2)
            assert f"--{flag} is now called --" in answer
