import numpy as np
import pytest

from albert_tf.training.input import GlobalBatches
from albert_tf.training.logging import read_events, read_metrics
from albert_tf.training.schedules import PolynomialDecay
from albert_tf.training.train_step import TrainLoop, TrainStep, steps_within


def details(run_dir):
    """(name, step) -> value of the optimizer's details in TensorBoard."""
    (path,) = run_dir.glob("tensorboard/train/*.tfevents.*")
    return {
        (value.tag, event.step): value.simple_value
        for event in read_events(path)
        for value in event.summary.value
        if value.tag.startswith(("update_norm/", "trust_ratio/"))
    }


@pytest.fixture(scope="module")
def one(toy, tmp_path_factory):
    folder = tmp_path_factory.mktemp("one")
    strategy = toy.make_strategy("one_device")
    model, *_ = toy.run(
        strategy, num_train_steps=6, log_steps=1, run_dir=folder
    )
    return folder, toy.weights(model)


def test_tensorboard_has_norm_and_ratio_of_each_variable(one):
    names = {name for name, _ in details(one[0])}
    assert names == {
        "update_norm/table/embeddings",
        "update_norm/dense/kernel",
        "update_norm/dense/bias",
        "update_norm/layer_norm/gamma",
        "update_norm/layer_norm/beta",
        # None for excluded variables and those without gradient.
        "trust_ratio/table/embeddings",
        "trust_ratio/dense/kernel",
    }
    assert {step for _, step in details(one[0])} == set(range(1, 7))


def test_only_tensorboard_has_update_norms_unless_disabled(
    one, toy, one_device, tmp_path, capsys
):
    lines = read_metrics(one[0])
    assert not any("/" in name for line in lines for name in line["values"])
    model, *_ = toy.run(
        one_device, num_train_steps=6, log_update_norms=False, run_dir=tmp_path
    )
    assert not details(tmp_path)
    for name, weight in toy.weights(model).items():
        np.testing.assert_array_equal(weight, one[1][name])


@pytest.mark.parametrize(
    ("replicas", "settings"),
    [
        pytest.param(
            2, {"gradient_accumulation_steps": 3}, marks=pytest.mark.long
        ),
        (1, {"gradient_accumulation_steps": 2, "jit_compile": True}),
    ],
)
def test_replicas_and_xla_give_the_same_weights_and_mean_norms(
    toy, one, one_device, two_replicas, tmp_path, capsys, replicas, settings
):
    strategy = two_replicas if replicas > 1 else one_device
    model, *_ = toy.run(
        strategy, num_train_steps=6, log_steps=3, run_dir=tmp_path, **settings
    )
    for name, weight in toy.weights(model).items():
        np.testing.assert_allclose(weight, one[1][name], rtol=0, atol=1e-5)
    each = details(one[0])
    means = {
        (name, last): np.mean([each[name, last - k] for k in range(3)])
        for name, last in each
        if last in (3, 6)
    }
    assert details(tmp_path) == pytest.approx(means, rel=1e-4)
    assert "update_norm/" not in capsys.readouterr().err


def test_launches_last_ten_seconds_at_most():
    assert steps_within(10.0, 100, seconds=50.0) == 20
    assert steps_within(10.0, 100, seconds=2000.0) == 1
    assert steps_within(10.0, 100, seconds=0.0) > 10**6


def test_first_launch_is_one_step_and_is_not_timed(toy, one_device):
    config = toy.TrainingConfig(num_train_steps=9)
    model, optimizer = toy.OneWeight(), toy.optimizers.AdamW()
    optimizer.build(model.trainable_variables)
    step = TrainStep(
        config, model, toy.NoisyLoss(), optimizer, micro_batch_size=2
    )
    loop = TrainLoop(one_device, step, PolynomialDecay(0.1, 9), max_steps=7)
    data = toy.tf.data.Dataset.from_tensors({"x": [1.0, 2.0]}).repeat()
    loop.set_data(GlobalBatches(data, lambda context: None))
    launches = []
    for first in range(3):
        launches.append(loop.launch_steps)
        loop.run(first, first + 1)
    # The time of the first one is compilation.
    assert launches == [1, 1, 7]


ONE_THREAD = """
import os, sys
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from albert_tf.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.long
def test_one_thread_does_not_wait_for_input_while_it_computes(
    records, run_albert, tmp_path
):
    result = run_albert(
        *("-c", ONE_THREAD, "pretrain"),
        *(f"--input={records}", f"--output={tmp_path}/run"),
        *("--config=albert_tiny", "--config_overrides=vocab_size=600"),
        *("--train_batch_size=32", "--num_train_steps=6", "--log_steps=3"),
        "--num_warmup_steps=1",
    )
    assert result.returncode == 0, result.stderr
    lines = read_metrics(tmp_path / "run")
    (*_, last) = (x["values"] for x in lines if x["split"] == "train")
    assert last["input_wait_share"] < 0.5
