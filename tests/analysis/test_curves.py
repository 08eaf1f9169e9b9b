import json

import pytest

from albert_tf.analysis.curves import plot_runs
from albert_tf.errors import InputError

pytest.importorskip("matplotlib", reason="pip install .[plots]")


def write_run(folder, pause=0.0):
    folder.mkdir()
    lines = []
    for step in range(10, 101, 10):
        time = 1000.0 + step + (pause if step > 50 else 0.0)
        values = {"loss": 5 / step, "mlm_accuracy": step / 200}
        for split in ("train", "eval"):
            lines.append(
                {"step": step, "time": time, "split": split, "values": values}
            )
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "metrics.jsonl").write_text(text)
    return folder


def axes_of(monkeypatch, runs, output, baselines=None):
    """Returns the four panels that `plot_runs` drew."""
    from matplotlib import pyplot

    drawn = []
    close = pyplot.close
    monkeypatch.setattr(pyplot, "close", drawn.append)
    plot_runs(runs, output, baselines)
    (figure,) = drawn
    close(figure)
    return figure.axes


def test_draws_steps_minutes_and_baselines(tmp_path, monkeypatch):
    run = write_run(tmp_path / "run")
    axes = axes_of(monkeypatch, [run], tmp_path / "c.png", {"chance": 0.25})
    assert (tmp_path / "c.png").stat().st_size > 5000
    labels = [axis.get_xlabel() for axis in axes]
    assert labels == ["steps", "minutes", "steps", "minutes"]
    train, held_out, baseline = axes[2].lines
    assert list(train.get_xdata()) == list(range(10, 101, 10))
    assert held_out.get_label() == "mlm_accuracy, held out"
    assert list(baseline.get_ydata()) == [0.25, 0.25]
    assert axes[3].lines[0].get_xdata()[-1] == pytest.approx(90 / 60)


def test_time_between_runs_is_cut_out(tmp_path, monkeypatch):
    run = write_run(tmp_path / "run", pause=3600.0)
    axes = axes_of(monkeypatch, [run], tmp_path / "c.png")
    assert axes[3].lines[0].get_xdata()[-1] == pytest.approx(90 / 60)


def test_several_runs_are_told_apart(tmp_path, monkeypatch):
    runs = [write_run(tmp_path / name) for name in ("one", "two")]
    axes = axes_of(monkeypatch, runs, tmp_path / "c.png")
    labels = {line.get_label() for line in axes[0].lines}
    assert {"one: loss", "two: loss", "two: loss, held out"} <= labels


def test_a_folder_without_metrics(tmp_path):
    with pytest.raises(InputError, match="no metrics"):
        plot_runs([tmp_path], tmp_path / "c.png")
