import dataclasses

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.data.record_files import RecordFile
from albert_tf.data.records import Records
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.pretraining.config import PretrainConfig
from albert_tf.pretraining.phase_records import PhaseRecords
from albert_tf.pretraining.summary import (
    end_summary,
    start_summary,
    warn_of_plateau,
)
from albert_tf.training.distribution import make_strategy
from albert_tf.training.result import TrainingResult

MODEL = AlbertConfig(
    vocab_size=1600,
    embedding_size=16,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    max_position_embeddings=64,
)
CONFIG = PretrainConfig(
    input="data",
    output="runs/first",
    model=MODEL,
    num_train_steps=12000,
    train_batch_size=64,
)


def split(instances):
    return {
        "counts": {"instances": instances},
        "masking_rate": 0.1484,
        "padding_fraction": 0.07,
    }


def made(*manifests):
    """Returns the records of data sets with a file for each split."""
    files = {
        name: tuple(
            RecordFile(
                f"{number}/{name}",
                manifest,
                manifest["splits"][name]["counts"]["instances"],
            )
            for number, manifest in enumerate(manifests)
            if name in manifest["splits"]
        )
        for name in ("train", "heldout")
    }
    return Records(
        "train",
        files={name: found for name, found in files.items() if found},
        samples={},
        max_seq_length=32,
        max_predictions_per_seq=5,
        manifest=manifests[0],
    )


MANIFEST = {"splits": {"train": split(2000), "heldout": split(100)}}
RECORDS = made(MANIFEST)


def lines(config=CONFIG, records=RECORDS):
    model = AlbertPretrainer(config.model)
    strategy = make_strategy("one_device", devices=["CPU:0"])
    [resolved] = config.resolved_phases()
    phase = PhaseRecords(resolved, records, records, 0)
    return start_summary(config, [phase], model, strategy)


def test_start_summary():
    count = AlbertPretrainer(MODEL).count_params()
    assert lines() == {
        "model": f"{count:,} parameters with heads; 2 layers, H 32, E 16, "
        "vocabulary 1,600",
        "records": "2,000 of 32 tokens, 5 predictions at most; 14.8% of tokens "
        "masked, 7.0% padding; 100 held out",
        "batch": "64 examples",
        "training": "12,000 steps of lamb, polynomial schedule, highest rate "
        "0.00176 after 3,125 steps",
        "computes": "float32 on 1 x CPU",
    }


@pytest.mark.parametrize(
    ("changes", "name", "text"),
    [
        ({"gradient_accumulation_steps": 4}, "batch", "64 examples in 4 micro"),
        ({"jit_compile": True}, "computes", "CPU with XLA"),
        ({"num_hidden_groups": 2}, "model", "2 layers in 2 groups,"),
        ({"sharing": "ffn"}, "model", "2 layers that share ffn,"),
        (
            {"scale_lr_with_batch": True, "reference_batch_size": 256},
            "training",
            "highest rate 0.00088 after 781 steps, scaled from a batch of 256",
        ),
    ],
)
def test_start_summary_mentions_unusual_settings(changes, name, text):
    settings = {k: v for k, v in changes.items() if hasattr(CONFIG, k)}
    model = {k: v for k, v in changes.items() if hasattr(MODEL, k)}
    config = dataclasses.replace(
        CONFIG, model=MODEL.replace(**model), **settings
    )
    assert text in lines(config)[name]


def test_start_summary_without_manifest_or_held_out_split():
    files = {"train": (RecordFile("file", None, 2000),)}
    records = dataclasses.replace(RECORDS, manifest=None, files=files)
    assert "no manifest" in lines(records=records)["records"]
    records = made({"splits": {"train": split(2000)}})
    assert lines(records=records)["records"].endswith("; none held out")
    # Files that a pattern names are all for training.
    files = {"train": RECORDS.files["train"]}
    records = dataclasses.replace(RECORDS, files=files)
    assert lines(records=records)["records"].endswith("; none held out")


def test_start_summary_of_several_data_sets():
    other = split(1000) | {"masking_rate": 0.1184, "padding_fraction": 0.01}
    records = made(MANIFEST, {"splits": {"train": other}})
    assert lines(records=records)["records"] == (
        "3,000 of 32 tokens, 5 predictions at most; 13.8% of tokens masked, "
        "5.0% padding; 100 held out"
    )


def test_start_summary_of_packed_records():
    packed = split(2000)
    packed["counts"]["sequences"] = 3500
    text = lines(records=made({"splits": {"train": packed}}))["records"]
    assert "at most; 1.75 sequences each; 14.8% of tokens" in text


def test_end_summary_has_baselines():
    result = TrainingResult(
        12000,
        False,
        {"loss": 7.0, "tokens_per_second": 8600.0, "gflops_per_second": 61.2},
        {
            **{"loss": 7.1, "mlm_accuracy": 0.1295, "sop_accuracy": 0.55},
            **{"mlm_unigram_accuracy": 0.0498, "sop_chance": 0.501},
            **{"sop_rule": 0.5, "sop_shallow": 0.54},
        },
    )
    assert end_summary(result, 90.0).splitlines() == [
        "12,000 steps done, 1.5 minutes this time, 8,600 tokens/s (61.2 "
        "GFLOP/s)",
        "held out: loss 7.1000, mlm_accuracy 0.1295 (most frequent token: "
        "0.0498), sop_accuracy 0.5500 (chance: 0.5010, punctuation rule: "
        "0.5000, shallow classifier: 0.5400)",
    ]


def test_end_summary_of_a_run_without_steps():
    result = TrainingResult(12000, False, {}, {})
    assert end_summary(result, 6.0) == (
        "12,000 steps done, 0.1 minutes this time"
    )


def test_plateau_is_a_warning(caplog):
    for scores in (
        {"mlm_accuracy": 0.16, "mlm_unigram_accuracy": 0.05},
        {"mlm_accuracy": 0.01},  # no manifest
        {"mlm_unigram_accuracy": 0.05},
        {},
    ):
        warn_of_plateau(scores)
    assert not caplog.text
    warn_of_plateau({"mlm_accuracy": 0.08, "mlm_unigram_accuracy": 0.05})
    assert "8.0 % of masked words are right, and 5.0 % with the" in caplog.text
    assert "docs/small_models.md" in caplog.text
