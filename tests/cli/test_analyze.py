import json

import pytest

from albert_tf.cli.main import main


def test_scores_of_runs_without_a_plot(albert, tmp_path):
    for run in ("one", "two"):
        (tmp_path / run).mkdir()
        line = {"step": 5, "time": 1.0, "split": "eval", "values": {"loss": 2}}
        (tmp_path / run / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    result = albert(tmp_path, "analyze run one two/")
    assert result.returncode == 0, result.stderr
    header, *rows = result.stdout.splitlines()
    assert header.split()[-1] == "loss"
    assert [row.split()[0] for row in rows] == ["one", "one", "two", "two"]
    assert rows[-1].split()[-1] == "2.0000"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]


def test_the_plot_in_a_run_is_drawn_again(albert, tmp_path):
    pytest.importorskip("matplotlib")
    line = {"step": 5, "time": 1.0, "split": "eval", "values": {"loss": 2}}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    for _ in range(2):
        result = albert(tmp_path, "analyze run . --output=curves.png")
        assert result.returncode == 0, result.stderr
    assert (tmp_path / "curves.png").stat().st_size


def test_a_damaged_line_of_a_log_is_one_warning(albert, tmp_path):
    line = {"step": 5, "time": 1.0, "split": "eval", "values": {"loss": 2}}
    lines = ["no json", json.dumps(line)]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    result = albert(tmp_path, "analyze run .")
    assert result.returncode == 0
    (warning,) = result.stderr.splitlines()
    assert warning.startswith("albert: warning: ")
    assert "metrics.jsonl:1" in warning
    assert warning.endswith("; skipping this line")


@pytest.mark.long
def test_similarity(folder, tmp_path, capfd):
    (tmp_path / "text.txt").write_text("A good story.\n\nA bad one.\nOne more.")
    command = ["analyze", "similarity", f"{folder}/start", "--json"]
    command.append(f"--input={tmp_path}/text.txt")
    tokens = []
    for count in (2, 9):
        assert main([*command, f"--max_texts={count}"]) == 0
        report = json.loads(capfd.readouterr().out)
        tokens.append(report["models"][0]["tokens"])
    assert tokens[0] < tokens[1]


def test_attention(folder, capfd):
    command = ["analyze", "attention", f"{folder}/start", "--heads=2"]
    command.append("--text=A good story, told again.")
    assert main([*command, "--pair=Yes.", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["heads"] == [2]
    assert main([*command, "--max_seq_length=6"]) == 0
    output = capfd.readouterr()
    assert "| 1     |    2 |" in output.out
    assert "the text is truncated to 6 tokens" in output.err
