"""`albert pretrain` with much of what it has at once."""

import json

import pytest

from albert_tf.training.best_checkpoint import read_best
from albert_tf.training.checkpoint_files import read_checkpoint
from albert_tf.training.logging import read_metrics
from albert_tf.training.schedules import CosineDecay


@pytest.mark.long
def test_flags_reach_what_they_are_for(
    records, run_albert, tmp_path, tiny_model
):
    tiny_model.to_json(tmp_path / "model.json")
    settings = {
        "precision": "mixed_float16",
        "rematerialize": True,
        "gradient_accumulation_steps": 2,
        "optimizer": "adamw",
        "learning_rate": 4e-3,
        "num_warmup_steps": 1,
        "schedule": "cosine",
        "final_lr_fraction": 0.25,
        "layerwise_lr_decay": 0.75,
        "scale_lr_with_batch": True,
        "reference_batch_size": 4,
        "train_batch_size": 16,
        "ema_decay": 0.5,
        "best_metric": "mlm_loss",
        "max_loss": 50.0,
        "skip_batches": "2-3",
        "max_eval_steps": 2,
    }
    flags = {"num_train_steps": 8, "eval_steps": 4, "log_steps": 2}
    flags |= {"keep_checkpoint_max": 1, "save_checkpoints_steps": 4}
    flags |= settings | {"input": records, "config": tmp_path / "model.json"}
    arguments = [f"--{name}={value}" for name, value in flags.items()]
    result = run_albert("pretrain", "--output=run", *arguments, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "8 steps done" in result.stdout
    assert "mixed_float16 on 1 x CPU" in result.stderr
    run = tmp_path / "run"
    recorded = json.loads((run / "run.json").read_text())["settings"]
    assert recorded.items() >= settings.items()
    assert recorded["dynamic_loss_scale"]
    # Four times the batch: twice the rate, four times the warm-up.
    rates = CosineDecay(8e-3, 8, 4, 0.25)
    lines = read_metrics(run)
    train = [x for x in lines if x["split"] == "train"]
    assert [x["step"] for x in train] == [2, 4, 6, 8]
    for line in train:
        assert line["values"]["learning_rate"] == pytest.approx(
            float(rates(line["step"] - 1)), rel=1e-6
        )
        assert line["values"]["loss_scale"] > 1
    scores = {
        x["step"]: x["values"]["mlm_loss"]
        for x in lines
        if x["split"] == "eval"
    }
    best = read_best(run / "checkpoints")
    assert (best.step, best.value) == min(
        scores.items(), key=lambda item: item[1]
    )
    values = read_checkpoint(run / "checkpoints" / "step-00000008")
    kinds = {name.split("/")[0] for name in values} - {"step", "seed"}
    assert kinds == {
        *("model", "optimizer", "average", "loss_scale"),
        "skipped_batches",
    }
