import json


def test_report_on_heldout_text(albert, python_lines, tmp_path):
    (tmp_path / "en.txt").write_text("\n".join(python_lines), "utf-8")
    russian = "".join(f"Это предложение номер {i}.\n" for i in range(400))
    (tmp_path / "ru.txt").write_text(russian, "utf-8")
    result = albert(
        tmp_path,
        "train-vocab --input=en.txt,ru.txt --output=new/vocab --vocab_size=500 "
        "--model_type=wordpiece --heldout_fraction=0.1 --report=report.json",
    )
    assert result.returncode == 0, result.stderr
    assert [x.name for x in (tmp_path / "new").iterdir()] == ["vocab.txt"]
    for shown in ("en.txt", "ru.txt", "Latin", "Cyrillic", "of 500 pieces"):
        assert shown in result.stdout
    report = json.loads((tmp_path / "report.json").read_text())
    english, russian = (report["by_source"][x] for x in ("en.txt", "ru.txt"))
    assert report["by_script"]["Cyrillic"] == russian
    # The sampling error of a share of 10 %.
    assert 20 < russian["sentences"] < 65
    assert 130 < english["sentences"] < 280
    assert 1.3 < english["fertility"] < 3
    assert english["unknown_rate"] < 0.01


def test_report_needs_text(albert, tmp_path):
    (tmp_path / "a.txt").write_text("ab ba cd\n" * 9)
    command = "train-vocab --input=a.txt --output=x --vocab_size=18"
    result = albert(tmp_path, command)
    assert result.returncode == 0, result.stderr
    assert "no sentence is held out" in result.stdout
    result = albert(tmp_path, f"{command} --report=a.txt")
    assert result.returncode == 2
    assert "would destroy the input" in result.stderr
