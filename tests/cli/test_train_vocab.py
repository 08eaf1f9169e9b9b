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


def test_without_text_to_report_on(albert, tmp_path):
    (tmp_path / "a.txt").write_text("ab ba cd\n" * 9)
    result = albert(
        tmp_path, "train-vocab --input=a.txt --output=x --vocab_size=18"
    )
    assert result.returncode == 0, result.stderr
    assert "no sentence is held out" in result.stdout


def test_a_file_that_is_given_twice_is_read_once(
    albert, python_lines, tmp_path
):
    middle = len(python_lines) // 2
    for name, lines in (
        ("a.txt", python_lines[:middle]),
        ("b.txt", python_lines[middle:]),
    ):
        (tmp_path / name).write_text("\n".join(lines), "utf-8")
    (tmp_path / "link.txt").symlink_to(tmp_path / "a.txt")
    found = []
    for more in ("", f",a.txt,link.txt,{tmp_path}/a.txt"):
        result = albert(
            tmp_path,
            f"train-vocab --input=a.txt,b.txt{more} --output=x --overwrite "
            "--vocab_size=300",
        )
        assert result.returncode == 0, result.stderr
        found.append((tmp_path / "x.vocab").read_text("utf-8"))
    assert found[0] == found[1]


def test_corpora_are_mixed(albert, tmp_path):
    (tmp_path / "en.txt").write_text("an apple a day keeps\n" * 5000)
    (tmp_path / "ru.txt").write_text("это предложение номер\n" * 100, "utf-8")
    command = "train-vocab --input=en={}:en.txt,ru=1:ru.txt --vocab_size={}"
    command += " --output=v --character_coverage=0.98 --heldout_fraction=0"
    command += " --overwrite"
    # Of equal shares, the letters of both are pieces; of 1 %, those of one.
    for weight, size, has_russian in ((1, 36, True), (99, 24, False)):
        result = albert(tmp_path, command.format(weight, size))
        assert result.returncode == 0, result.stderr
        pieces = (tmp_path / "v.vocab").read_text("utf-8")
        assert ("ж" in pieces) == has_russian
        assert "k" in pieces
    same = command.format(1, 36).replace("ru.txt", "en.txt")
    result = albert(tmp_path, same)
    assert result.returncode == 2
    assert "en.txt: in the corpora en and ru" in result.stderr
