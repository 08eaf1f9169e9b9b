import pytest

from albert_tf.errors import InputError
from albert_tf.training.checkpoint_files import match_checkpoints


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Two runs, of which only the names of files matter here."""
    for run, steps in (("b", (20, 1000000000, 3)), ("a", (10,))):
        folder = tmp_path / "runs" / run / "checkpoints"
        folder.mkdir(parents=True)
        for step in steps:
            for ending in ("index", "data-00000-of-00001"):
                (folder / f"step-{step:08d}.{ending}").touch()
        # Being written, or left by a process that died then.
        (folder / "unfinished-30.index").touch()
        (folder / "step-00000040.data-00000-of-00001").touch()
        (folder / "best.json").touch()
    monkeypatch.chdir(tmp_path)


A = ["runs/a/checkpoints/step-00000010"]
B = [
    f"runs/b/checkpoints/step-{step}"
    for step in ("00000003", "00000020", "1000000000")
]


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ("runs/b/checkpoints/step-*", B),
        ("runs/b/checkpoints/step-*.index", B),
        ("runs/b/checkpoints/*", B),
        ("runs/*/checkpoints/step-*", A + B),
        ("runs/*", A + B),
        ("runs/b/", B),
        ("runs/b/checkpoints", B),
        ("runs/b/checkpoints/step-00000020", B[1:2]),
        ("runs/b/checkpoints/step-000000?0", B[1:2]),
        ("runs/b, runs/a, runs/b/checkpoints/*3", A + B),
        (["runs/b", "runs/a"], A + B),
    ],
)
@pytest.mark.usefixtures("runs")
def test_each_checkpoint_once_in_the_order_of_steps(patterns, expected):
    assert match_checkpoints(patterns) == expected


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "nowhere/*",
        "runs",
        "runs/a/checkpoints/unfinished*",
        "runs/a/checkpoints/step-00000040*",
        "runs/a/checkpoints/best.json",
    ],
)
@pytest.mark.usefixtures("runs")
def test_pattern_that_stands_for_none(pattern):
    with pytest.raises(InputError, match="no complete checkpoint") as error:
        match_checkpoints(["runs/b", pattern])
    assert repr(pattern) in str(error.value)
