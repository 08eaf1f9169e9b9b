import json

import pytest

from albert_tf.analysis.curves import plot_runs
from albert_tf.analysis.runs import read_runs
from albert_tf.errors import InputError

pytest.importorskip("matplotlib", reason="pip install .[plots]")


def write_run(folder, **more_values):
    folder.mkdir()
    lines = []
    for step in range(10, 101, 10):
        time = 1000.0 + step
        values = {"loss": 5 / step, "mlm_accuracy": step / 200, **more_values}
        for split in ("train", "eval"):
            lines.append(
                {"step": step, "time": time, "split": split, "values": values}
            )
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "metrics.jsonl").write_text(text)
    return folder


def figure_of(monkeypatch, runs, output, baselines=None):
    """Returns the figure that `plot_runs` drew."""
    from matplotlib import pyplot

    drawn = []
    close = pyplot.close
    monkeypatch.setattr(pyplot, "close", drawn.append)
    plot_runs(read_runs(runs), output, baselines)
    (figure,) = drawn
    close(figure)
    return figure


def labels(legend):
    return [text.get_text() for text in legend.get_texts()]


def test_steps_minutes_and_baselines(tmp_path, monkeypatch):
    run = write_run(tmp_path / "run")
    figure = figure_of(
        monkeypatch, [run], tmp_path / "c.png", {"mlm_unigram_accuracy": 0.25}
    )
    axes = figure.axes
    assert (tmp_path / "c.png").stat().st_size > 5000
    assert [axis.get_xlabel() for axis in axes] == ["", "", "steps", "minutes"]
    assert [axis.get_ylabel() for axis in axes] == ["loss", "", "accuracy", ""]
    train, held_out, baseline = axes[2].lines
    assert list(train.get_xdata()) == list(range(10, 101, 10))
    assert held_out.get_marker() == "o"
    assert train.get_color() == held_out.get_color()
    assert list(baseline.get_ydata()) == [0.25, 0.25]
    assert axes[3].texts[0].get_text() == "mlm: most frequent token 25.0%"
    assert len(axes[0].lines) == 2
    assert labels(axes[2].get_legend()) == ["mlm_accuracy"]
    assert labels(figure.legends[0]) == ["training mean", "held out"]
    assert axes[3].lines[0].get_xdata()[-1] == pytest.approx(90 / 60)


def test_several_runs_have_different_colours(tmp_path, monkeypatch):
    runs = [write_run(tmp_path / name) for name in ("one", "two")]
    figure = figure_of(monkeypatch, runs, tmp_path / "c.png")
    first, second = labels(figure.legends[0])[:2]
    assert (first, second) == ("one", "two")
    titles = [axis.get_ylabel() for axis in figure.axes]
    assert titles == ["loss", "", "mlm_accuracy", ""]
    for axis in figure.axes:
        colours = [line.get_color() for line in axis.lines]
        assert colours[0] == colours[1]
        assert colours[2] == colours[3]
        assert len(set(colours)) == 2


def test_tokens_are_an_axis_if_they_are_known(tmp_path, monkeypatch):
    run = write_run(
        tmp_path / "run", examples_per_second=2.0, tokens_per_second=100.0
    )
    record = {"settings": {"train_batch_size": 4000}}
    (run / "run.json").write_text(json.dumps(record))
    axes = figure_of(monkeypatch, [run], tmp_path / "c.png").axes
    assert axes[-1].get_xlabel() == "million tokens"
    # 50 tokens an example, 4,000 examples a step.
    assert list(axes[2].lines[0].get_xdata())[:2] == [2.0, 4.0]


@pytest.mark.parametrize("runs", [1, 2])
def test_single_points_and_missing_values(tmp_path, monkeypatch, runs):
    first = {"step": 1, "time": 5.0, "split": "train", "values": {"loss": 2.0}}
    later = first | {"step": 2, "values": {"loss": None, "f1": 0.5}}
    folders = []
    for name in ("new", "diverged")[:runs]:
        folders.append(tmp_path / name)
        folders[-1].mkdir()
        lines = [first, later][: len(folders)]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folders[-1] / "metrics.jsonl").write_text(text)
    axes = figure_of(monkeypatch, folders, tmp_path / "c.png").axes
    for axis in axes:
        assert [list(line.get_ydata()) for line in axis.lines] == [[2.0]] * runs
        # A line with a single point is invisible.
        assert {line.get_marker() for line in axis.lines} == {"o"}


def test_errors(tmp_path):
    run = write_run(tmp_path / "run")
    for output in ("c.word", "nowhere/c.png"):
        with pytest.raises(InputError, match=output):
            plot_runs(read_runs([run]), tmp_path / output)
    line = {"step": 1, "time": 5.0, "split": "train", "values": {"f1": 2.0}}
    (run / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    with pytest.raises(InputError, match="run: none of its metrics is a loss"):
        plot_runs(read_runs([run]), tmp_path / "c.png")


def test_losses_of_other_sizes_have_panels_of_their_own(tmp_path, monkeypatch):
    values = {"loss": 6.0, "mlm_loss": 5.5, "sop_loss": 0.6}
    run = write_run(tmp_path / "run", **values)
    figure = figure_of(monkeypatch, [run], tmp_path / "c.png")
    titles = [axis.get_ylabel() for axis in figure.axes[::2]]
    assert titles == ["loss", "sop_loss", "accuracy"]
    assert labels(figure.axes[0].get_legend()) == ["loss", "mlm_loss"]
    assert labels(figure.axes[2].get_legend()) == ["sop_loss"]


def test_losses_of_a_third_split_are_left_out(tmp_path, monkeypatch):
    run = write_run(tmp_path / "run")
    values = {"loss": 1.0, "test_loss": 2.0}
    line = {"step": 100, "time": 1100.0, "split": "test", "values": values}
    with open(run / "metrics.jsonl", "a") as file:
        file.write(json.dumps(line) + "\n")
    figure = figure_of(monkeypatch, [run], tmp_path / "c.png")
    assert "loss" in labels(figure.axes[0].get_legend())


def test_a_plot_has_the_name_that_was_given(tmp_path, monkeypatch):
    run = write_run(tmp_path / "run")
    for name in ("curves", "a.b/curves", "curves.PNG"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        plot_runs(read_runs([run]), path)
        assert path.read_bytes().startswith(b"\x89PNG")
    plot_runs(read_runs([run]), tmp_path / "c.svg")
    assert (tmp_path / "c.svg").read_text("utf-8").startswith("<?xml")
    assert not [path for path in tmp_path.iterdir() if path.suffix == ".png"]


def test_an_old_plot_is_kept_if_the_new_one_fails(tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    run = write_run(tmp_path / "run")
    output = tmp_path / "c.png"
    output.write_bytes(b"old")

    def fail(self, file, **options):
        file.write(b"half") if hasattr(file, "write") else output.write_bytes(
            b"half"
        )
        raise ValueError("no ink")

    monkeypatch.setattr(Figure, "savefig", fail)
    with pytest.raises(InputError, match="no ink"):
        plot_runs(read_runs([run]), output)
    assert output.read_bytes() == b"old"
    assert sorted(tmp_path.iterdir()) == [output, run]
