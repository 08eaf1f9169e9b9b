"""Runs whose phases have different depths, and moments that are kept."""

import json
import re
import shutil

import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.pretraining.evaluate import evaluate_pretraining
from albert_tf.pretraining.initial_weights import resolve_initial_weights
from albert_tf.pretraining.train import pretrain
from albert_tf.training.checkpoint_files import (
    checkpoint_path,
    list_checkpoints,
    read_checkpoint,
)
from albert_tf.training.logging import read_metrics

BOUNDARY, STEPS = 2, 4


@pytest.fixture(scope="module")
def config(pretrain_config, records, tmp_path_factory):
    """Returns `make(name, **changes)`: two steps of one layer, two of three."""
    folder = tmp_path_factory.mktemp("runs")

    def make(name, **changes):
        settings = {
            "phases": [{"steps": BOUNDARY}, {"num_hidden_layers": 3}],
            "num_warmup_steps": 1,
            "eval_steps": 1,
            "max_eval_steps": 1,
            "log_steps": 1,
            "save_checkpoints_steps": 1,
            "ema_decay": 0.9,
        }
        settings |= {"output": folder / name} | changes
        return pretrain_config(
            records, settings.pop("output"), STEPS, **settings
        )

    return make


@pytest.fixture(scope="module")
def run(config, eagerly):
    with eagerly():
        pretrain(config("run"))
    return config("run").output


@pytest.fixture(scope="module")
def shallow(config, eagerly):
    """The same run with one layer to the end."""
    run = config("shallow", phases=())
    with eagerly():
        pretrain(run)
    return run.output


def weights(run, step=STEPS):
    return read_checkpoint(checkpoint_path(str(run / "checkpoints"), step))


def scores(run, split="eval"):
    return {
        line["step"]: line["values"]["loss"]
        for line in read_metrics(run)
        if line["split"] == split
    }


def test_first_phase_is_a_run_of_its_depth(run, shallow):
    np.testing.assert_equal(weights(run, 2), weights(shallow, 2))
    ours, theirs = scores(run), scores(shallow)
    assert [ours[step] == theirs[step] for step in (1, 2, 3, 4)] == [
        *(True, True, False, False)
    ]


@pytest.mark.usefixtures("without_graphs")
def test_every_checkpoint_has_its_depth(run, shallow, records, tiny_model):
    path = str(run / "checkpoints")
    for step, depth in ((1, 1), (2, 1), (3, 3), (4, 3)):
        checkpoint = open_checkpoint(checkpoint_path(path, step))
        assert checkpoint.config.num_hidden_layers == depth
        assert set(checkpoint.arrays) == set(open_checkpoint(run).arrays)
        found = evaluate_pretraining(run, records, checkpoint=step, max_steps=1)
        assert found["loss"] == pytest.approx(scores(run)[step], rel=1e-5)
    config = AlbertConfig.from_json(run / "config.json")
    assert config.num_hidden_layers == 3
    assert open_checkpoint(run).config == config
    record = json.loads((run / "run.json").read_text())["settings"]
    assert record["model"] == tiny_model.to_dict()
    depths = [phase.get("num_hidden_layers") for phase in record["phases"]]
    assert depths == [None, 3]
    model = AlbertPretrainer.from_pretrained(run)
    assert len(model.encoder.stack._blocks) == 3


@pytest.mark.long
@pytest.mark.parametrize("layers", [0, 3])
def test_depth_of_the_generator(config, records, eagerly, layers):
    """It is that of the model, or as set in all phases."""
    run = config(
        f"replaced-{layers}",
        objective="rtd",
        objective_settings={"generator_num_hidden_layers": layers},
        eval_steps=2,
    )
    with eagerly():
        pretrain(run)
        for step, logged in scores(run.output).items():
            found = evaluate_pretraining(
                run.output, records, checkpoint=step, max_steps=1
            )
            assert found["loss"] == pytest.approx(logged, rel=1e-5)


@pytest.mark.parametrize(
    "step",
    [BOUNDARY, *(pytest.param(x, marks=pytest.mark.long) for x in (1, 3))],
)
def test_run_resumed_in_any_phase_ends_bit_equal(
    run, config, rewound, capfd, eagerly, step
):
    resumed = config("", output=rewound(run, step))
    with eagerly():
        pretrain(resumed)
    np.testing.assert_equal(weights(resumed.output), weights(run))
    assert scores(resumed.output) == scores(run)
    said = capfd.readouterr().err
    assert "parameters with heads; 1, then 3 layers, H 32" in said
    assert "steps 3 to 4: 16 examples of 32 tokens, 3 layers, from" in said


def test_depth_may_change_only_with_shared_weights(config, tiny_model):
    for changes in (
        {"sharing": "ffn"},
        {"num_hidden_layers": 2, "num_hidden_groups": 2},
    ):
        with pytest.raises(InputError, match=r"phases\[1\]: num_hidden_layers"):
            config("bad", model=tiny_model.replace(**changes))
    with pytest.raises(InputError, match="num_hidden_layers=0 must be"):
        config("bad", phases=[{"num_hidden_layers": 0}])
    # `init_from` decides on the architecture.
    late = config(
        "bad", model=None, init_from="tests", phases=[{"num_hidden_layers": 2}]
    )
    assert late.model is None


def test_checkpoints_of_a_run_are_named_by_their_step(run, tmp_path):
    folder = shutil.copytree(run, tmp_path / "run")
    last = checkpoint_path(str(folder / "checkpoints"), STEPS)
    copy = folder / "checkpoints" / "step-final"
    for suffix in (".index", ".data-00000-of-00001"):
        shutil.copy(f"{last}{suffix}", f"{copy}{suffix}")
    assert open_checkpoint(folder).config == open_checkpoint(run).config
    with pytest.raises(InputError, match="'step-final' of a run must be name"):
        open_checkpoint(copy)


@pytest.fixture
def start_from(pretrain_config, records, tmp_path):
    """Returns `make(run, **changes)`: two steps, the first of rate 0."""

    def make(run, name="new", **changes):
        settings = {"num_warmup_steps": 1, "eval_steps": 0, "model": None}
        return pretrain_config(
            records,
            tmp_path / name,
            2,
            init_from=run,
            max_eval_steps=1,
            save_checkpoints_steps=1,
            **settings | changes,
        )

    return make


@pytest.mark.long
def test_moments_of_a_run_are_kept(pretrained, start_from, eagerly):
    deeper = {"config_overrides": {"num_hidden_layers": 2}}
    kept = start_from(pretrained, "kept", init_moments=True, **deeper)
    reset = start_from(pretrained, "reset", **deeper)
    with eagerly():
        pretrain(kept)
        pretrain(reset)
    before = weights(pretrained, 12)
    kept, reset = kept.output, reset.output
    compared = 0
    for name, moment in weights(kept, 1).items():
        decay = {"adam_m": 0.9, "adam_v": 0.999}.get(name.rpartition("/")[2])
        if decay and "position" not in name:
            other = weights(reset, 1)[name]
            np.testing.assert_allclose(
                moment - other,
                decay * before[name],
                rtol=1e-4,
                # The gradient is added to both, with rounding.
                atol=1e-6 * max(np.abs(moment).max(), np.abs(other).max()),
            )
            compared += np.any(before[name] != 0)
    assert compared > 20
    report = (kept / "init.txt").read_text()
    assert re.search(r"moments: \d+ tensors of that run", report)
    assert "moments: zero; --init_moments" in (reset / "init.txt").read_text()


def test_moments_grow_like_the_weights(pretrained, start_from):
    overrides = {
        "num_hidden_layers": 4,
        "num_hidden_groups": 2,
        "max_position_embeddings": 80,
    }
    _, initial = resolve_initial_weights(
        start_from(pretrained, init_moments=True, config_overrides=overrides)
    )
    before = weights(pretrained, 12)
    kernel = "inner_0/attention/query/kernel/adam_v"
    stack = "optimizer/encoder/transformer"
    for group in (0, 1):
        np.testing.assert_array_equal(
            initial.moments[f"{stack}/group_{group}/{kernel}"],
            before[f"{stack}/group_0/{kernel}"],
        )
    name = "optimizer/encoder/embeddings/position_embeddings/adam_m"
    np.testing.assert_array_equal(
        initial.moments[name], before[name][np.arange(80) % 32]
    )


def test_only_runs_have_moments(pretrained, start_from, tmp_path):
    AlbertPretrainer.from_pretrained(pretrained).save_pretrained(
        tmp_path / "saved"
    )
    with pytest.raises(InputError, match="saved is not a checkpoint of a pre"):
        resolve_initial_weights(
            start_from(tmp_path / "saved", init_moments=True)
        )
    with pytest.raises(InputError, match="init_moments=True must be false wi"):
        start_from(None, init_moments=True)


@pytest.fixture(scope="module")
def stable(config):
    """Returns `make(name, steps, **changes)` with a constant rate."""

    def make(name, steps, phases=None, **changes):
        phases = phases or [{"steps": 2}, {"num_hidden_layers": 3}]
        made = config(
            name,
            schedule="warmup_stable_decay",
            eval_steps=0,
            phases=(),
            **changes,
        )
        replaced = {"num_train_steps": steps, "phases": phases}
        return type(made)(**{**vars(made), **replaced})

    return make


@pytest.fixture(scope="module")
def constant(stable, eagerly):
    with eagerly():
        pretrain(stable("constant", 4))
    return stable("constant", 4).output


def test_phases_may_be_extended(stable, constant, tmp_path, eagerly):
    extended, whole = tmp_path / "extended", tmp_path / "whole"
    shutil.copytree(constant, extended)
    with eagerly():
        pretrain(stable("", 6, decay_steps=2, output=extended))
        pretrain(stable("", 6, decay_steps=2, output=whole))
    np.testing.assert_equal(weights(extended, 6), weights(whole, 6))
    record = json.loads((extended / "run.json").read_text())["settings"]
    assert [phase["steps"] for phase in record["phases"]] == [2, 4]


def test_past_phases_may_not_change(stable, constant):
    second = {"num_hidden_layers": 3}
    for steps, phases, message in (
        (
            9,
            [{"share": 1 / 3}, second],
            r"phases\[0\] ended after step 2, but would end after step 3, and "
            "4 steps are done; .* or remove the checkpoints after step 2",
        ),
        (8, [{"steps": 2}, {}], r"phases\[1\]: num_hidden_layers=3, not null"),
        (8, [{"steps": 2}, second, {"steps": 1}], "of 2 phases, not 3"),
    ):
        with pytest.raises(InputError, match=message):
            pretrain(stable("constant", steps, phases))
    assert list_checkpoints(constant / "checkpoints")[4]
