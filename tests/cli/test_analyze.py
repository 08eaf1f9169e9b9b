import json


def test_scores_of_runs_without_a_picture(albert, tmp_path):
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
