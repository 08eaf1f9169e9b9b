import dataclasses
import json

import keras
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.export.checks.check_export import read_export, save_expected
from albert_tf.export.checks.contract import litert, task
from albert_tf.export.checks.contract.exported import Exported
from albert_tf.export.checks.contract.findings import Failed
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.tasks.exporting.config import ExportConfig
from albert_tf.tasks.exporting.expectations import expected_of
from albert_tf.tasks.exporting.export_checkpoint import KINDS, export_checkpoint
from albert_tf.tasks.finetuning.kinds.by_name import make_kind
from albert_tf.tasks.finetuning.known_tasks import KNOWN_TASKS, with_settings
from albert_tf.tasks.finetuning.model_folder import save_model


@pytest.fixture(scope="session")
def small_config(tokenizer):
    return AlbertConfig(
        vocab_size=tokenizer.vocab_size,
        embedding_size=8,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=40,
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
        initializer_range=0.2,
    )


@pytest.fixture(scope="session")
def make_pretrained(small_config, tokenizer, tmp_path_factory):
    """Returns `make(seed)`: a folder of `save_pretrained`."""

    def make(seed):
        keras.utils.set_random_seed(seed)
        folder = tmp_path_factory.mktemp("a-private-place") / f"seed-{seed}"
        AlbertPretrainer(small_config).save_pretrained(folder, tokenizer)
        return folder

    return make


@pytest.fixture(scope="session")
def pretrained(make_pretrained):
    return make_pretrained(1)


@pytest.fixture(scope="session")
def make_finetuned(small_config, tokenizer, tmp_path_factory):
    """Returns `make(task, **settings)`: a folder, as fine-tuning leaves it.

    Settings that the task does not have are left out.
    """

    def make(name, **settings):
        description = KNOWN_TASKS[name]
        if name == "ner":
            description = dataclasses.replace(
                description, labels=("B-X", "B-Y", "O")
            )
        known = dict(description.settings)
        known |= {n: x for n, x in settings.items() if n in known}
        description = dataclasses.replace(description, settings=known)
        kind = make_kind(description, tokenizer)
        keras.utils.set_random_seed(4)
        model = kind.model_class(small_config, **kind.model_arguments())
        for weight in model.weights:
            # Without zeros: scores that no two answers share.
            weight.assign(
                weight + keras.random.normal(weight.shape, stddev=0.1)
            )
        folder = tmp_path_factory.mktemp("a-private-place") / name
        save_model(folder, model, kind, description)
        return folder

    return make


@pytest.fixture
def assert_answers_are_compared(tmp_path):
    """Returns `check(source, folder)`, of the export of a task.

    `albert export --check --model` has to find the answers equal, and to fail
    where one of them is another.
    """

    def check(source, folder):
        manifest = read_export(folder)
        expected = expected_of(source, manifest)["text"]
        contract = {"task": task, "litert": litert}[manifest["kind"]]

        def compare(changes):
            path = tmp_path / "expected.npz"
            save_expected(path, {"text": expected | changes})
            exported = Exported(str(folder), str(path))
            return contract.CHECKS["numbers: real text"](exported)

        names = manifest["signatures"]["serving_default"]["inputs"]
        outputs = set(expected) - set(names)
        assert outputs
        figure = compare({})
        for name in outputs:
            assert name in figure
            values = expected[name].copy()
            is_text = values.dtype.kind == "S"
            values[0] = b"other" if is_text else values[0] + 0.01
            with pytest.raises(Failed, match=name):
                compare({name: values})

    return check


@pytest.fixture(scope="session")
def fine_tuned_run(small_config, tokenizer, tmp_path_factory):
    """The folder of a run of pairs of texts, as fine-tuning leaves it."""
    run = tmp_path_factory.mktemp("a-private-place") / "reviews"
    description = with_settings(KNOWN_TASKS["mrpc"], {"max_seq_length": 24})
    values = json.loads(description.to_json())
    values["scores"] = {"f1": 0.75, "accuracy": 0.5}
    description = type(description).from_json(json.dumps(values), "test")
    kind = make_kind(description, tokenizer)
    keras.utils.set_random_seed(2)
    model = kind.model_class(small_config, **kind.model_arguments())
    save_model(run / "model", model, kind, description)
    (run / "flags.txt").write_text(
        "--alsologtostderr\n--nodebug\n--task=mrpc\n--norematerialize\n"
        "--learning_rate=2e-05\n--cache_dir=\n--init_from=albert/albert-base-v2"
        f"\n--train={run}/train.tsv,../more/more.tsv\n--output={run}\n"
        "--log_dir=\n--tpu=grpc://10.0.0.2:8470\n--data=~/glue\n"
    )
    return run


@pytest.fixture(scope="session")
def exports(pretrained, fine_tuned_run, tmp_path_factory):
    """Kind -> (what it was made of, the export)."""
    folder = tmp_path_factory.mktemp("exports")
    sources = dict.fromkeys(KINDS, pretrained) | {"task": fine_tuned_run}
    made = {}
    for kind, source in sources.items():
        made[kind] = source, folder / kind
        export_checkpoint(source, folder / kind, kind, ExportConfig())
    return made
