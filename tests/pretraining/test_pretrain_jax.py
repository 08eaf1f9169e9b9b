"""examples/pretrain_jax.py beside `albert pretrain`, on JAX's CPU."""

import json
import pathlib
import shutil
import subprocess

import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.data.convert_records import convert_records
from albert_tf.data.example_arrays import (
    ConvertDataConfig,
    ExampleArrays,
)
from albert_tf.data.records import pretraining_dataset
from albert_tf.interop.growing import POSITIONS
from albert_tf.interop.names import component_of
from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.pretraining.evaluate import evaluate_pretraining
from albert_tf.pretraining.train import pretrain
from albert_tf.text.tokenizer_files import load_tokenizer
from albert_tf.training.logging import read_metrics

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "pretrain_jax.py"
OBJECTIVE = """
import dataclasses
from albert_tf.layers.core import dense
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.objectives.masked_language_modeling import MaskedLanguageModeling
from albert_tf.objectives.registry import register_objective

class Model(AlbertPretrainer):
    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        self.new_head = dense(config, 2, "new_head", "float32")
        self.new_head.build((None, config.hidden_size))
        self.token_head = dense(config, 1, "token_head", "float32")
        self.token_head.build((None, config.hidden_size))

@register_objective
@dataclasses.dataclass(frozen=True, kw_only=True)
class Own(MaskedLanguageModeling):
    name = "own"
    heads = ("mlm_head", "sop_head", "new_head", "token_head")

    def make_model(self, config, **options):
        return Model(config, **options)
"""
WITHOUT_TENSORFLOW = """
import runpy, sys
sys.modules["tensorflow"] = None
del sys.argv[0]
runpy.run_path(sys.argv[0], None, "__main__")
"""
STEPS = 20
FLAGS = {
    "train_batch_size": 16,
    "num_train_steps": STEPS,
    "num_warmup_steps": 3,
    "learning_rate": 2e-3,
    "decay_steps": 5,
}


@pytest.fixture(scope="module")
def arrays(records, tmp_path_factory):
    folder = tmp_path_factory.mktemp("arrays") / "arrays"
    convert_records(
        ConvertDataConfig(input=str(records), output=folder, num_epochs=2)
    )
    return folder


@pytest.fixture
def config_file(tiny_model, tmp_path):
    path = tmp_path / "config.json"
    model = tiny_model.replace(
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    path.write_text(model.to_json())
    return path


@pytest.fixture
def run_example(arrays, python_with):
    """Returns `run(output, **flags)` -> lines, without TensorFlow.

    With `error`, the last line of standard error has to contain it.
    """

    def run(output, error="", **flags):
        python, environment = python_with("jax")
        flags = {"input": arrays, "output": output, "log_steps": 1} | flags
        result = subprocess.run(
            [
                python,
                "-c",
                WITHOUT_TENSORFLOW,
                EXAMPLE,
                *(f"--{name}={value}" for name, value in flags.items()),
            ],
            capture_output=True,
            text=True,
            env={**environment, "JAX_PLATFORMS": "cpu"},
        )
        assert result.returncode == (2 if error else 0), result.stderr
        assert error in "".join(result.stderr.splitlines()[-1:])
        lines = result.stdout.splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    return run


@pytest.mark.parametrize("seed", [0, 5])
def test_arrays_have_the_batches_of_training(records, tmp_path, seed):
    convert_records(
        ConvertDataConfig(
            input=str(records), output=tmp_path / "arrays", seed=seed
        )
    )
    examples = ExampleArrays(tmp_path / "arrays")
    dataset = pretraining_dataset(str(records), global_batch_size=16, seed=seed)
    full = examples.num_examples // 16
    for number, expected in enumerate(dataset.take(full)):
        found = examples.batch(number, 16)
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value, err_msg=name)
            assert found[name].dtype == value.numpy().dtype
    path = tmp_path / "arrays" / "train" / "input_word_ids.npy"
    assert np.load(path, mmap_mode="r").dtype == np.uint16
    heldout = ExampleArrays(tmp_path / "arrays", "heldout")
    assert heldout.num_examples > 0


def test_the_example_is_short():
    assert len(EXAMPLE.read_text().splitlines()) <= 250


@pytest.mark.backend
def test_losses_are_those_of_albert_pretrain(
    records, arrays, run_example, config_file, tmp_path, pretrain_config
):
    """From the same weights, on the same batches, in float32."""
    start = tmp_path / "start"
    model = json.loads(config_file.read_text())
    dropout = {"hidden_dropout_prob", "attention_probs_dropout_prob"}
    settings = {
        **{name: x for name, x in FLAGS.items() if name != "num_train_steps"},
        "steps": STEPS,
        "log_steps": 1,
        "eval_steps": 0,
        "seed": 0,
        "schedule": "warmup_stable_decay",
        "config_overrides": {name: model[name] for name in dropout},
    }
    AlbertPretrainer(AlbertConfig.from_dict(model)).save_pretrained(start)
    pretrain(
        pretrain_config(
            records,
            tmp_path / "loop",
            **{**settings, "init_from": str(start), "model": None},
        )
    )
    expected = [
        line["values"]
        for line in read_metrics(tmp_path / "loop")
        if line["split"] == "train"
    ]
    found = run_example(tmp_path / "run", init_from=start, **FLAGS)
    assert [line["step"] for line in found] == list(range(1, STEPS + 1))
    for name in ("loss", "mlm_loss", "sop_loss", "mlm_accuracy"):
        np.testing.assert_allclose(
            [line[name] for line in found],
            [line[name] for line in expected],
            rtol=1e-5,
            err_msg=name,
        )
    # Its model is the loop's, up to rounding, in all other commands.
    scores = evaluate_pretraining(tmp_path / "run" / "model", str(records))
    other = evaluate_pretraining(tmp_path / "loop", str(records))
    assert scores["mlm_loss"] == pytest.approx(other["mlm_loss"], rel=1e-4)


@pytest.mark.backend
@pytest.mark.usefixtures("without_graphs")
def test_averages_are_those_of_albert_pretrain(
    make_records, run_example, config_file, tmp_path, pretrain_config
):
    """Without clipping, and without pairs, whose weights do not change."""
    records = make_records(sentence_order="none")
    arrays, start = tmp_path / "arrays", tmp_path / "start"
    convert_records(ConvertDataConfig(input=str(records), output=arrays))
    model = AlbertConfig.from_json(config_file)
    AlbertPretrainer(model).save_pretrained(start)
    flags = {
        "init_from": start,
        "train_batch_size": 16,
        "num_warmup_steps": 1,
        "learning_rate": 2e-3,
        "weight_decay": 1.0,
        "clip_norm": 0.0,
        "ema_decay": 0.9,
    }
    settings = {"schedule": "warmup_stable_decay", "seed": 0, "eval_steps": 0}
    pretrain(
        pretrain_config(
            records, tmp_path / "loop", 4, **{**flags, **settings}, model=model
        )
    )
    run_example(tmp_path / "run", input=arrays, num_train_steps=4, **flags)
    before, expected, found = (
        open_checkpoint(path).arrays
        for path in (start, tmp_path / "loop", tmp_path / "run" / "model")
    )
    unchanged = set()
    for name, value in found.items():
        np.testing.assert_allclose(value, expected[name], atol=1e-5)
        if (value == before[name]).all():
            unchanged.add(component_of(name))
    assert unchanged == {"pooler", "sop_head"}


@pytest.mark.backend
@pytest.mark.usefixtures("without_graphs")
def test_replaced_token_detection_resumes(
    run_example, config_file, tmp_path, records, pretrain_config
):
    flags = {
        **FLAGS,
        "config": config_file,
        "objective": "rtd",
        "objective_settings": "generator_hidden_size=16",
        "precision": "mixed_bfloat16",
        "ema_decay": 0.5,
    }
    whole = run_example(tmp_path / "whole", **{**flags, "num_train_steps": 8})
    first = run_example(
        tmp_path / "parts",
        **{**flags, "num_train_steps": 4, "decay_steps": 0},
    )
    # The rates of the first steps are the same without the decay.
    shutil.copytree(tmp_path / "parts", tmp_path / "copy")
    second = run_example(tmp_path / "parts", **{**flags, "num_train_steps": 8})
    assert [line["step"] for line in first + second] == list(range(1, 9))
    for name in ("rtd_loss", "generator_loss"):
        np.testing.assert_array_equal(
            [line[name] for line in first[:3]],
            [line[name] for line in whole[:3]],
        )
    assert whole[-1]["generator_loss"] < whole[0]["generator_loss"]
    model = tmp_path / "parts" / "model"
    assert AlbertEncoder.from_pretrained(model).tokenizer is not None
    scores = evaluate_pretraining(model, str(records))
    assert 0.5 < scores["rtd_chance"] < 1
    # Its generator is not as wide as the default.
    assert scores["generator_loss"] < whole[0]["generator_loss"] - 0.1
    config = pretrain_config(
        records,
        tmp_path / "next",
        1,
        objective="rtd",
        objective_settings={"generator_hidden_size": 16},
        init_from=str(model),
        model=None,
    )
    pretrain(config)
    report = (tmp_path / "next" / "init.txt").read_text()
    assert "newly initialized" not in report


@pytest.mark.backend
def test_an_objective_of_your_own(run_example, config_file, tmp_path, records):
    """Its heads are saved; a run that could not save repeats its steps."""
    module = tmp_path / "own.py"
    module.write_text(OBJECTIVE)
    flags = {
        **FLAGS,
        "num_train_steps": 2,
        "num_warmup_steps": 0,
        "decay_steps": 0,
        "config": config_file,
        "objective": "own",
        "objective_module": module,
    }
    run = tmp_path / "run"
    run.mkdir()
    (run / "model").write_text("")
    run_example(run, error="pretrain_jax: ", **flags)
    (run / "model").unlink()
    assert len(run_example(run, **flags)) == 2
    checkpoint = open_checkpoint(run / "model")
    assert checkpoint.objective["objective"] == "own"
    assert "new_head/bias" in checkpoint.objective_arrays
    # Another run starts with all heads.
    following = tmp_path / "following"
    changes = {"init_from": run / "model", "seed": 1, "learning_rate": 0}
    run_example(following, **{**flags, **changes})
    after = open_checkpoint(following / "model")
    for name in ("arrays", "objective_arrays"):
        expected, found = (getattr(x, name) for x in (checkpoint, after))
        head = {"arrays": "token_head", "objective_arrays": "new_head"}[name]
        np.testing.assert_array_equal(
            found[f"{head}/kernel"], expected[f"{head}/kernel"]
        )


@pytest.mark.backend
def test_new_positions_start_as_copies(
    run_example, make_records, config_file, tmp_path
):
    """In a new run; a run cannot be continued on longer records."""
    longer = tmp_path / "longer"
    records = make_records(max_seq_length=48)
    convert_records(ConvertDataConfig(input=str(records), output=longer))
    first = tmp_path / "first"
    flags = {**FLAGS, "num_train_steps": 2, "decay_steps": 0}
    run_example(first, **flags, config=config_file)
    config = open_checkpoint(first / "model").config
    assert config.trained_positions == 32
    advice = "the run had another data; use the same to resume it, or start a"
    changes = {"input": longer, "config": config_file}
    run_example(first, **{**flags, **changes}, error=advice)
    second = tmp_path / "second"
    flags |= {"learning_rate": 0, "input": longer}
    run_example(second, **flags, init_from=first / "model")
    config = open_checkpoint(second / "model").config
    assert config.num_trained_positions == 48
    [before, after] = (
        open_checkpoint(run / "model").arrays[POSITIONS]
        for run in (first, second)
    )
    np.testing.assert_array_equal(after[32:48], before[:16])


@pytest.mark.backend
def test_a_run_ends_in_time(run_example, config_file, tmp_path):
    """Its rate falls to 0 in the last minutes."""
    run = tmp_path / "run"
    flags = {
        "config": config_file,
        "learning_rate": 1e-3,
        "num_train_steps": 10**6,
        "steps_per_call": 1,
        "max_minutes": 0.1,
        "decay_minutes": 0.05,
    }
    lines = run_example(run, **flags)
    assert 0 < len(lines) < 10**4
    assert (run / "model" / "config.json").exists()

    def leaves():
        with np.load(run / "state.npz") as saved:
            return [saved[name] for name in saved.files if name != "record"]

    before = leaves()
    # Repeated, it has no time left, and does not begin at the peak again.
    assert not run_example(run, **flags)
    for leaf, expected in zip(leaves(), before, strict=True):
        np.testing.assert_array_equal(leaf, expected)


@pytest.mark.backend
def test_a_run_that_diverges_keeps_its_last_state(
    run_example, config_file, tmp_path
):
    run = tmp_path / "run"
    flags = {**FLAGS, "config": config_file, "decay_steps": 0}
    flags["learning_rate"] = 1e30  # The warm-up begins with 0.
    run_example(run, **{**flags, "num_train_steps": 1})
    files = [run / "state.npz", run / "model" / "model.safetensors"]
    before = [file.read_bytes() for file in files]
    run_example(run, **flags, error="training diverged, the last state is kept")
    assert [file.read_bytes() for file in files] == before


@pytest.mark.backend
def test_flags_that_must_not_change(run_example, config_file, tmp_path):
    run = tmp_path / "run"
    flags = {**FLAGS, "config": config_file, "num_train_steps": 2}
    flags["decay_steps"] = 0
    run_example(run, **flags)
    state = (run / "state.npz").read_bytes()
    for change in ({"learning_rate": 1.0}, {"seed": 1}, {"clip_norm": 0.5}):
        [name] = change
        error = f"state.npz: the run had another {name}; use the same"
        run_example(
            run, **{**flags, **change, "num_train_steps": 4}, error=error
        )
    assert (run / "state.npz").read_bytes() == state
    for name in ("log_steps", "train_batch_size", "seed"):
        error = f"{name} must be at least {int(name != 'seed')}"
        run_example(run, **{**flags, name: -1}, error=error)


@pytest.mark.backend
def test_a_folder_of_something_else_is_left_alone(
    run_example, config_file, tmp_path
):
    flags = {**FLAGS, "config": config_file, "num_train_steps": 1}
    notes = tmp_path / "run" / "notes.txt"
    notes.parent.mkdir()
    notes.write_text("mine")
    run_example(notes.parent, **flags, error="has files, but no state.npz")
    run_example(notes, **flags, error="cannot be the folder of a run")
    assert list(notes.parent.iterdir()) == [notes]


@pytest.mark.backend
def test_checkpoints_that_do_not_fit_are_refused(
    run_example, config_file, tmp_path, records, tiny_model
):
    flags = {"init_from": tmp_path / "model", **FLAGS}
    model = AlbertPretrainer(tiny_model)
    settings = load_tokenizer(records).settings
    model.tokenizer = load_tokenizer(records).with_settings(
        do_lower_case=not settings["do_lower_case"]
    )
    model.save_pretrained(tmp_path / "model")
    run_example(tmp_path / "run", **flags, error="tokenizer has do_lower_case=")
    model.tokenizer = load_tokenizer(records)
    model.save_pretrained(tmp_path / "model")
    heads = tmp_path / "heads.json"
    heads.write_text(tiny_model.replace(num_attention_heads=1).to_json())
    error = "has num_attention_heads=2, not 1; only"
    run_example(tmp_path / "run", **flags, config=heads, error=error)
