import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.pretraining.config import PretrainConfig
from albert_tf.pretraining.evaluate import evaluate_pretraining
from albert_tf.pretraining.resuming import check_past
from albert_tf.pretraining.schedule import make_schedule
from albert_tf.pretraining.train import pretrain
from albert_tf.training import schedules
from albert_tf.training.checkpoint_files import read_checkpoint
from albert_tf.training.checkpoints import Checkpoints
from albert_tf.training.logging import read_metrics
from albert_tf.training.run_folder import open_run_folder


def settings(steps=100, **changes):
    values = {"output": "run", "input": "data", "num_warmup_steps": 10}
    return PretrainConfig(**values | changes, num_train_steps=steps)


def test_schedules_by_name():
    common = (0.00176, 100, 10)
    for changes, expected in (
        ({}, schedules.PolynomialDecay(*common)),
        (
            {"poly_power": 2.0, "start_warmup_step": 5},
            schedules.PolynomialDecay(*common, 2.0, 5),
        ),
        ({"schedule": "linear"}, schedules.LinearDecay(*common)),
        (
            {"schedule": "cosine", "final_lr_fraction": 0.1},
            schedules.CosineDecay(*common, 0.1),
        ),
        (
            {"schedule": "warmup_stable_decay", "decay_steps": 20},
            schedules.WarmupStableDecay(*common, 20),
        ),
    ):
        assert make_schedule(settings(**changes)) == expected


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schedule": "sqrt"}, "schedule='sqrt' must be one of polynomial, "),
        ({"decay_steps": 5}, "decay_steps=5 must be 0 unless schedule=wa"),
        (
            {"schedule": "linear", "poly_power": 2.0},
            "poly_power=2.0 must be 1.0 unless schedule=polynomial",
        ),
        ({"final_lr_fraction": 0.5}, "unless schedule=cosine"),
        ({"layerwise_lr_decay": 0.0}, "layerwise_lr_decay=0.0 must be in"),
        ({"layerwise_lr_decay": 1.1}, "layerwise_lr_decay=1.1 must be in"),
        ({"reference_batch_size": 0}, "reference_batch_size=0"),
        ({"ema_decay": 1.0}, "ema_decay=1.0 must be in"),
        (
            {"scale_lr_with_batch": True, "train_batch_size": 2**16},
            "num_warmup_steps=10 must be lower: the warm-up would end at step "
            "160, but the run has 100 steps; a tenth of the steps is usual, "
            "num_warmup_steps=10",
        ),
        (
            {"num_warmup_steps": 95, "start_warmup_step": 5},
            "the warm-up would end at step 100, but the run has 100 steps",
        ),
    ],
)
def test_invalid_settings_are_errors(changes, message):
    with pytest.raises(InputError, match=message):
        settings(**changes)


# Batch size, rate, warm-up's share of the steps (arXiv:1904.00962, table 4).
LAMB_PAPER = [
    (512, 5 / (2**3.0 * 1e3), 1 / 320),
    (1024, 5 / (2**2.5 * 1e3), 1 / 160),
    (2048, 5 / (2**2.0 * 1e3), 1 / 80),
    (4096, 5 / (2**1.5 * 1e3), 1 / 40),
    (8192, 5 / (2**1.0 * 1e3), 1 / 20),
    (16384, 5 / (2**0.5 * 1e3), 1 / 10),
    (32768, 5 / 1e3, 1 / 5),
]


@pytest.mark.parametrize("reference", [512, 4096, 32768])
@pytest.mark.parametrize(("batch_size", "rate", "share"), LAMB_PAPER)
def test_scaling_with_the_batch_is_that_of_the_lamb_paper(
    reference, batch_size, rate, share
):
    table = {batch: (rate, share) for batch, rate, share in LAMB_PAPER}
    steps = 320_000
    config = settings(
        steps,
        scale_lr_with_batch=True,
        reference_batch_size=reference,
        train_batch_size=batch_size,
        learning_rate=table[reference][0],
        num_warmup_steps=round(table[reference][1] * steps),
    )
    schedule = make_schedule(config)
    assert schedule.base_rate == pytest.approx(rate)
    assert schedule.warmup_steps == share * steps
    record = config.settings()
    assert record["resolved_learning_rate"] == schedule.base_rate
    assert record["resolved_warmup_steps"] == schedule.warmup_steps


def test_scaling_is_off_by_default():
    plain = settings(train_batch_size=1024)
    assert make_schedule(plain).base_rate == 0.00176
    assert "resolved_learning_rate" not in plain.settings()
    # The defaults, the original's, are the paper's row of 4096.
    defaults = PretrainConfig.default_settings()
    assert defaults["learning_rate"] == pytest.approx(
        LAMB_PAPER[3][1], rel=5e-3
    )
    assert defaults["num_warmup_steps"] / 125_000 == LAMB_PAPER[3][2]


def with_decay(folder, steps=100, **changes):
    schedule = "warmup_stable_decay"
    return settings(steps, schedule=schedule, output=folder, **changes)


def past(config):
    check_past(config, config.settings())


def stopped(folder, step, **changes):
    """Makes the folder of a run with a checkpoint of a step."""
    config = with_decay(folder, **changes)
    with open_run_folder(folder, config.settings()) as run:
        run.claim()
    with Checkpoints(folder / "checkpoints", {"x": tf.Variable(0)}) as saver:
        saver.save(step)


def test_constant_phase_may_be_extended_or_decayed(tmp_path):
    past(with_decay(tmp_path / "new"))
    stopped(tmp_path, 60, decay_steps=20)
    # The last one: the first step of a decay has the peak still.
    longer = [(1000, 20), (1000, 0), (60, 0), (80, 20), (100, 40), (80, 21)]
    for steps, decay in longer:
        past(with_decay(tmp_path, steps, decay_steps=decay))


def test_changed_rates_of_past_steps_are_an_error(tmp_path):
    stopped(tmp_path, 60, decay_steps=50)
    for steps, decay, message in (
        (
            1000,
            50,
            "step 51 of the 60 .* 0.00151.* would have 0.00176 with num",
        ),
        (100, 70, "step 31 of the 60 that are done had"),
        (50, 0, "60 steps are done, more than"),
    ):
        with pytest.raises(InputError, match=message):
            past(with_decay(tmp_path, steps, decay_steps=decay))


def test_other_schedules_keep_their_length():
    assert "num_train_steps" not in settings(schedule="linear").free_on_resume
    free = settings(schedule="warmup_stable_decay").free_on_resume
    assert {"num_train_steps", "decay_steps"} < set(free)


@pytest.fixture(scope="module")
def run(records, tmp_path_factory, tiny_model, eagerly):
    """A run with all learning-rate options, whose decay is set on resume."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    options = {
        "ema_decay": 0.9,
        "save_checkpoints_steps": 4,
        "log_steps": 1,
        "input": str(records),
        "output": folder,
        "model": tiny_model,
        "schedule": "warmup_stable_decay",
        "num_warmup_steps": 1,
        "train_batch_size": 16,
        "scale_lr_with_batch": True,
        "reference_batch_size": 8,
        "learning_rate": 1e-3,
        "layerwise_lr_decay": 1e-6,
        "max_eval_steps": 2,
    }
    with eagerly():
        pretrain(settings(4, **options, eval_steps=0))
        pretrain(settings(6, **options, decay_steps=2))
    return folder


@pytest.mark.long
def test_weights_of_a_run_are_its_averages(run, records):
    values = read_checkpoint(run / "checkpoints" / "step-00000006")
    opened = open_checkpoint(run)
    assert len(opened.arrays) > 20
    for name, array in opened.arrays.items():
        average = values[f"average/{name}"]
        if "position" in name:  # Those that were not trained are copies.
            average = average[np.arange(len(average)) % 32]
        np.testing.assert_array_equal(array, average)
    assert "weights whose averages are loaded" in (opened.report())
    (last,) = [
        x["values"]
        for x in read_metrics(run)
        if x["split"] == "eval" and x["step"] == 6
    ]
    scores = evaluate_pretraining(run, records, max_steps=2)
    assert scores["loss"] == pytest.approx(last["loss"], rel=1e-5)


@pytest.mark.long
def test_layerwise_decay_all_but_freezes_the_embeddings(run):
    first, last = (
        read_checkpoint(run / "checkpoints" / f"step-0000000{step}")
        for step in (4, 6)
    )

    def change(name):
        difference = last[f"model/{name}"] - first[f"model/{name}"]
        return np.abs(difference).max() / np.abs(first[f"model/{name}"]).max()

    assert change("mlm_head/dense/kernel") > 1e-4
    assert change("encoder/embeddings/word_embeddings") < 1e-6
