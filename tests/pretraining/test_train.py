import collections
import functools
import json
import os
import shutil

import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.data.record_checks import read_records
from albert_tf.data.tfrecords import parse_example
from albert_tf.errors import InputError
from albert_tf.exporting.config import ExportConfig
from albert_tf.exporting.export import export
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.pretraining.evaluate import evaluate_pretraining
from albert_tf.pretraining.train import pretrain
from albert_tf.training.logging import read_metrics
from albert_tf.training.run_folder import open_run_folder, read_settings


@pytest.fixture
def run(pretrained):
    return pretrained


def test_folder_records_settings_and_files(run, records, tiny_model):
    record = json.loads((run / "run.json").read_text())
    assert record["settings"]["learning_rate"] == 2e-3
    assert record["settings"]["model"] == tiny_model.to_dict()
    for name in ("spiece.model", "tokenizer_config.json"):
        assert (run / name).read_bytes() == (records / name).read_bytes()
    config = AlbertConfig.from_json(run / "config.json")
    assert config == tiny_model.replace(trained_positions=32)


def test_logged_metrics(run):
    lines = read_metrics(run)
    train = [line for line in lines if line["split"] == "train"]
    assert [line["step"] for line in train] == [4, 8, 12]
    for name in (
        "loss mlm_loss sop_loss mlm_accuracy sop_accuracy learning_rate "
        "gradient_norm examples_per_second tokens_per_second "
        "gflops_per_second input_wait_share"
    ).split():
        assert name in train[0]["values"]
    values = train[0]["values"]
    # Windows hold equal batches here, so means of parts add up to the whole.
    assert values["loss"] == pytest.approx(
        values["mlm_loss"] + values["sop_loss"], rel=0.02
    )
    held_out = [line["step"] for line in lines if line["split"] == "eval"]
    assert held_out == [4, 8, 12]
    assert list((run / "tensorboard" / "train").glob("events*"))


def test_run_of_an_older_version_resumes(
    copied_run, records, pretrain_config, edited
):
    folder = copied_run()
    with edited(folder / "run.json") as record:
        for name in ("poly_power", "clip_norm"):
            del record["settings"][name]
    with pytest.raises(InputError, match=r"clip_norm=1.0, not 2.0"):
        pretrain(pretrain_config(records, folder, clip_norm=2.0))
    assert pretrain(pretrain_config(records, folder)).steps == 12
    record = json.loads((folder / "run.json").read_text())
    assert record["settings"]["clip_norm"] == 1.0


def test_each_record_file_is_inspected_once(
    copied_run, records, monkeypatch, pretrain_config
):
    sizes_asked = collections.Counter()
    original = tf.io.gfile.stat

    def counting(path):
        sizes_asked[os.path.basename(path)] += 1
        return original(path)

    monkeypatch.setattr(tf.io.gfile, "stat", counting)
    pretrain(pretrain_config(records, copied_run()))
    shards = {path.name: 1 for path in records.glob("*.tfrecord")}
    assert {x: sizes_asked[x] for x in shards} == shards


def test_invalid_record_is_named_in_the_error(
    records, tmp_path, pretrain_config, serialize, write_records, eagerly
):
    path = shutil.copy(min(records.glob("*.tfrecord")), tmp_path)
    rows = [
        parse_example(row)
        for row in read_records(path).take(40).as_numpy_iterator()
    ]
    rows[-1]["masked_lm_positions"][0] = -1
    write_records(path, *map(serialize, rows))
    message = f"{path}: record 40: masked_lm_positions"
    with eagerly(), pytest.raises(InputError, match=message):
        pretrain(pretrain_config(path, tmp_path / "run"))


def test_changed_records_are_an_error(run, make_records, pretrain_config):
    with pytest.raises(InputError, match="records="):
        pretrain(pretrain_config(make_records(seed=7), run))


@pytest.fixture
def damaged_records(make_records):
    """Records with a flipped bit, which TensorFlow does not locate."""
    records = make_records(num_shards=1)
    (path,) = records.glob("pretraining-*")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    return records


@pytest.mark.long
def test_nothing_is_claimed_before_everything_is_checked(
    copied_run,
    records,
    damaged_records,
    tmp_path,
    pretrain_config,
    tiny_model,
    eagerly,
):
    folder = tmp_path / "runs" / "run"
    plain = shutil.copy(next(records.glob("pretraining-*.tfrecord")), tmp_path)
    for changes, message in (
        ({"gradient_accumulation_steps": 3}, "batch size 16 must be a multi"),
        ({"distribution": "multi_worker"}, "TF_CONFIG"),
        ({"distribution": "mirrored", "jit_compile": True}, "one replica"),
        ({"tpu": "local", "precision": "mixed_float16"}, "mixed_bfloat16"),
        ({"best_metric": "f1"}, "has loss, mlm_loss, mlm_acc"),
        ({"input": plain, "best_metric": "loss"}, "has no held-out split"),
        ({"input": str(damaged_records)}, "pretraining-.*corrupted record"),
        ({"model": tiny_model.replace(vocab_size=700)}, "600 pieces.*=700"),
    ):
        with pytest.raises(InputError, match=message):
            pretrain(pretrain_config(records, folder, **changes))
        assert not folder.parent.exists(), changes
    # A step that fails leaves nothing to resume, but the folder is claimed.
    with eagerly(), pytest.raises(FloatingPointError, match="max_loss"):
        pretrain(pretrain_config(records, folder, max_loss=0.1))
    right = pretrain_config(records, folder, 2, learning_rate=1e-3)
    with open_run_folder(folder, right.settings()) as claimed:
        assert (folder / "run.json").exists()
        assert not claimed.resumes
        with pytest.raises(InputError, match=f"by process {os.getpid()} on"):
            pretrain(right)
    # Where there is something to lose:
    folder = copied_run()
    for path in (folder / "checkpoints").glob("*.index"):
        path.write_bytes(b"")
    with pytest.raises(InputError, match="none of the 3 checkpoints"):
        pretrain(pretrain_config(records, folder))


@pytest.fixture(scope="module")
def unpaired(
    make_records, tmp_path_factory, pretrain_config, tiny_model, eagerly
):
    """Settings and result of a run on records without pairs.

    It starts from a model with 48 trained positions.
    """
    folder = tmp_path_factory.mktemp("unpaired")
    model = AlbertPretrainer(tiny_model.replace(trained_positions=48))
    model.save_pretrained(folder / "start")
    config = pretrain_config(
        make_records(sentence_order="none"),
        folder / "run",
        2,
        model=None,
        init_from=folder / "start",
        config_overrides={"max_position_embeddings": 96},
        num_warmup_steps=1,
    )
    with eagerly():
        return config, pretrain(config)


@pytest.mark.long
def test_without_sentence_order(unpaired, eagerly):
    config, result = unpaired
    assert "sop_loss" not in result.metrics
    with eagerly():
        scores = evaluate_pretraining(config.output, config.input)
    assert "sop_accuracy" not in scores
    assert "sop_chance" not in scores
    assert scores["loss"] == pytest.approx(scores["mlm_loss"], rel=1e-4)


@pytest.mark.long
def test_initial_trained_positions_are_kept(unpaired):
    config, _ = unpaired
    model = AlbertPretrainer.from_pretrained(config.output)
    assert model.config.max_position_embeddings == 96
    assert model.config.trained_positions == 48
    assert pretrain(config).steps == 2  # It is the same run.


@pytest.mark.long
def test_nsp_metrics_have_their_own_names(
    make_records, tmp_path, pretrain_config, eagerly
):
    records, run = make_records(sentence_order="nsp"), tmp_path / "run"
    config = functools.partial(
        pretrain_config, records, run, 2, num_warmup_steps=1
    )
    with pytest.raises(InputError, match="mlm_accuracy, nsp_loss, nsp_accu"):
        pretrain(config(best_metric="sop_accuracy"))
    with eagerly():
        result = pretrain(config(best_metric="nsp_accuracy"))
    names = {*result.metrics, *result.evaluation}
    assert {"nsp_loss", "nsp_accuracy", "nsp_chance"} <= names
    assert not any(name.startswith("sop") for name in names)
    # Runs that recorded it must go on.
    assert read_settings(run)["pair_task"] == "nsp"


def test_records_without_a_manifest(
    records, tmp_path, pretrain_config, eagerly
):
    for path in records.glob("pretraining-*.tfrecord"):
        shutil.copy(path, tmp_path)
    config = pretrain_config(
        tmp_path / "*.tfrecord", tmp_path / "run", 2, num_warmup_steps=1
    )
    with eagerly():
        result = pretrain(config)
    assert result.steps == 2
    assert result.evaluation == {}
    with pytest.raises(InputError, match="tokenizer"):
        export(
            ExportConfig(model=tmp_path / "run", output=tmp_path / "encoder")
        )
