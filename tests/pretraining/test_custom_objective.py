"""The objective of docs/objectives.md: one file, used by the commands."""

import pathlib
import re
import shlex

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.token_classification.model import (
    AlbertTokenClassifier,
)
from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.models.pretrained import assign_weights
from albert_tf.models.public_names import named_weights
from albert_tf.objectives.registry import load_objective_module, make_objective
from albert_tf.pretraining.evaluate import evaluate_pretraining
from albert_tf.pretraining.initial_weights import resolve_initial_weights
from albert_tf.pretraining.train import pretrain

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "objectives.md"


@pytest.fixture
def albert(run_albert, tmp_path):
    """Returns `run(command, status=0)` -> output or error."""

    def run(command, status=0):
        result = run_albert(*shlex.split(command), cwd=tmp_path)
        assert result.returncode == status, result.stderr
        return result.stderr if status else result.stdout

    return run


def code_of_page():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    [code] = [block for block in blocks if "@register_objective" in block]
    return code


@pytest.fixture
def module(tmp_path):
    """The file that the page shows."""
    code = code_of_page()
    assert len(code.splitlines()) <= 60
    path = tmp_path / "random_tokens.py"
    path.write_text(code)
    return path


@pytest.fixture(scope="module")
def objective(tmp_path_factory):
    """The objective that the page shows, with the head of a task."""
    path = tmp_path_factory.mktemp("module") / "random_tokens_here.py"
    path.write_text(code_of_page())
    load_objective_module(path)
    return make_objective("random_tokens")


@pytest.fixture
def save(objective, tiny_model, tmp_path):
    """Returns `save(**objective) -> folder, model` of a model of tokens."""

    def saved(**settings):
        model = objective.create_model(tiny_model)
        # It calls all tokens original.
        model.token_head.bias.assign([100.0, -100.0])
        model.objective = settings
        model.save_pretrained(tmp_path / "model")
        return tmp_path / "model", model

    return saved


@pytest.mark.usefixtures("without_graphs")
def test_a_saved_model_is_scored_with_its_head(records, save):
    folder, _ = save(objective="random_tokens")
    scores = evaluate_pretraining(folder, records, max_steps=1)
    assert 0.5 < scores["replaced_accuracy"] == scores["replaced_chance"]


@pytest.mark.parametrize("trained", ["random_tokens", "other", ""])
def test_a_run_starts_with_the_head_of_its_objective(
    records, save, objective, pretrain_config, tmp_path, trained
):
    """Not with that of another one, or of a fine-tuned model."""
    folder, model = save(**({"objective": trained} if trained else {}))
    config = pretrain_config(
        records,
        tmp_path / "run",
        objective="random_tokens",
        init_from=folder,
    )
    _, initial = resolve_initial_weights(config)
    started = objective.create_model(model.config)
    initial.assign(started)
    is_own = trained == "random_tokens"
    bias = np.asarray(started.token_head.bias)
    assert np.array_equal(bias, model.token_head.bias) == is_own
    new = "newly initialized: pooler, token_head" in initial.report
    assert new != is_own
    assert ("(unused by this model): token_head" in initial.report) != is_own
    kernel = "encoder/embeddings/word_embeddings"
    expected = named_weights(model)[kernel]
    np.testing.assert_array_equal(named_weights(started)[kernel], expected)


def test_other_settings_than_those_of_the_head_are_named(save, tiny_model):
    folder, _ = save(objective="random_tokens")
    model = AlbertTokenClassifier(tiny_model, num_labels=3)
    checkpoint = open_checkpoint(folder)
    with pytest.raises(InputError, match="token_head/.* give the objective"):
        assign_weights(model, checkpoint, True, kept_heads=["token_head"])


@pytest.mark.long
def test_commands_train_and_evaluate(records, albert, module, tiny_model):
    own = "--objective_module=random_tokens.py"
    (module.parent / "config.json").write_text(tiny_model.to_json())
    output = albert(
        f"pretrain {own} --objective=random_tokens --input={records} "
        "--output=run --config=config.json --optimizer=adamw "
        "--objective_settings=first_id=6 --learning_rate=1e-3 "
        "--num_warmup_steps=1 --num_train_steps=4 --train_batch_size=8"
    )
    accuracy = re.search(
        r"replaced_accuracy (\S+) \(all original: (\S+)\)", output
    )
    assert accuracy is not None
    assert float(accuracy[2]) > 0.8
    assert "replaced_loss" in albert(
        f"evaluate {own} --run=run --input={records}"
    )
    # Nothing executes the file unless it is given.
    module.rename(module.with_name("moved.py"))
    message = albert(f"evaluate --run=run --input={records}", status=2)
    assert "objective='random_tokens' must be one of mlm, rtd" in message
    assert "--objective_module" in message
    report = albert("convert --input=run --output=model")
    assert "token_head" in report


@pytest.mark.usefixtures("without_graphs")
def test_a_head_of_pairs_may_come_with_a_later_phase(
    make_records, pretrain_config, tmp_path
):
    records = make_records(masking="dynamic", dupe_factor=10)
    path = tmp_path / "late_pairs.py"
    path.write_text(
        "from albert_tf.models.pretrainer import AlbertPretrainer\n"
        "from albert_tf.objectives.masked_language_modeling import (\n"
        "    MaskedLanguageModeling,\n"
        ")\n"
        "from albert_tf.objectives.registry import register_objective\n\n\n"
        "@register_objective\n"
        "class LatePairs(MaskedLanguageModeling):\n"
        '    name = "late_pairs"\n\n'
        "    def make_model(self, config, **options):\n"
        '        has = self.pair_task != "none"\n'
        "        return AlbertPretrainer(config, sop_head=has, **options)\n"
    )
    load_objective_module(path)
    config = pretrain_config(
        records,
        tmp_path / "run",
        4,
        objective="late_pairs",
        phases=[{"steps": 2, "sentence_order": "none"}, {"steps": 2}],
    )
    assert pretrain(config).steps == 4
    assert "sop_head" in open_checkpoint(tmp_path / "run").components
