"""The objective of docs/objectives.md: one file, used by the commands."""

import pathlib
import re
import shlex

import pytest

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "objectives.md"


@pytest.fixture
def albert(run_albert, tmp_path):
    """Returns `run(command, status=0)` -> output or error."""

    def run(command, status=0):
        result = run_albert(*shlex.split(command), cwd=tmp_path)
        assert result.returncode == status, result.stderr
        return result.stderr if status else result.stdout

    return run


@pytest.fixture
def module(tmp_path):
    """The file that the page shows."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    [code] = [block for block in blocks if "@register_objective" in block]
    assert len(code.splitlines()) <= 60
    path = tmp_path / "random_tokens.py"
    path.write_text(code)
    return path


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
