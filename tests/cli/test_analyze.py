import json

import pytest


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
def test_similarity(albert, folder, tmp_path):
    pytest.importorskip("matplotlib", reason="pip install .[plots]")
    (tmp_path / "text.txt").write_text("A good story.\n\nA bad one.\nOne more.")
    command = (
        f"analyze similarity {folder}/start --input=text.txt --iterations=4"
    )
    result = albert(
        tmp_path,
        f"{command} --max_texts=2 --config_overrides=sharing=none "
        "--output=layers.png",
    )
    assert result.returncode == 0, result.stderr
    assert "| start: L2 | cosine | degrees | random, sharing=none: L2" in (
        result.stdout
    )
    assert "wrote layers.png" in result.stdout
    assert (tmp_path / "layers.png").stat().st_size > 10_000
    tokens = [
        json.loads(
            albert(tmp_path, f"{command} --json --max_texts={count}").stdout
        )["models"][0]["tokens"]
        for count in (2, 9)
    ]
    assert tokens[0] < tokens[1]
    result = albert(tmp_path, f"{command} --output=text.txt")
    assert result.returncode == 2
    assert "would destroy the input" in result.stderr


def test_attention(albert, folder, tmp_path):
    command = (
        f"analyze attention {folder}/start --text='A good story, told again.'"
    )
    result = albert(tmp_path, f"{command} --pair=Yes. --json --heads=2")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["heads"] == [2]
    result = albert(tmp_path, f"{command} --max_seq_length=6 --heads=2")
    assert "| 1     |    2 |" in result.stdout
    assert "the text is truncated to 6 tokens" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("similarity", "cannot analyze 'similarity'"),
        ("attention {0} {0} --text=a", "cannot analyze 'attention "),
        ("attention {0}", "needs --text"),
        ("attention {0} --text=", "must not be empty"),
        (
            "attention {0} --text=a --layers=2",
            "layers=2 must be numbers from 1",
        ),
        ("attention {0} --text=a --heads=x", "--heads=x must be numbers"),
        ("attention nowhere --text=a", "nowhere"),
        ("similarity {0} --input=nowhere.txt", "nowhere.txt"),
        ("similarity {0} --config_overrides=hidden_size=7", "hidden_size=7"),
        ("similarity {0} --config_overrides=vocab_size=9", "vocab_size is 9"),
    ],
)
def test_what_models_cannot_be_asked(
    albert, folder, tmp_path, arguments, problem
):
    result = albert(tmp_path, f"analyze {arguments.format(folder / 'start')}")
    assert result.returncode == 2
    assert problem in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not result.stdout
