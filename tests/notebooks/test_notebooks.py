"""Checks the stored notebooks, and runs them."""

import base64
import importlib.util
import json
import pathlib
import re

import nbformat
import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PATHS = sorted((REPOSITORY / "notebooks").glob("*.ipynb"))
# Not allowed in outputs: paths of a machine, warnings, log lines of TensorFlow.
CHATTER = re.compile(
    r"/(?:home|root|tmp|work|usr|var|Users)/|Warning|WARNING|Traceback"
    r"|[IWE]\d{4} \d\d:|\x1b\["
)
REGISTRIES = re.compile(r"pypi|pythonhosted|anaconda\.org|conda-forge")
# Lower bounds of the scores in outputs, below what was measured and above
# guessing.
SCORES = {
    "albert_in_ten_minutes": {r"reviews right: ([\d.]+)": 0.8},
    "fine_tune_glue_and_squad": {
        r"accuracy +([\d.]+)": 0.8,
        r"exact_match +([\d.]+)": 60,
    },
    "movie_reviews": {r"([\d.]+) of the test reviews right": 0.6},
    "pretrain_your_own": {
        r"masked words +([\d.]+)": 0.6,
        r"sentence order +([\d.]+)": 0.9,
    },
    "training_to_serving": {r"reviews right: ([\d.]+)": 0.8},
}


def load_build():
    spec = importlib.util.spec_from_file_location(
        "build_notebooks", REPOSITORY / "notebooks" / "build.py"
    )
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    return build


build = load_build()


def read(path):
    return nbformat.read(path, as_version=4)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def texts(notebook):
    """Yields the text of all outputs."""
    for cell in code_cells(notebook):
        for output in cell.outputs:
            yield output.get("text", "")
            for kind, data in output.get("data", {}).items():
                if kind.startswith("text/"):
                    yield data


def figures(notebook):
    return [
        base64.b64decode(output.data["image/png"])
        for cell in code_cells(notebook)
        for output in cell.outputs
        if "image/png" in output.get("data", {})
    ]


@pytest.fixture(params=PATHS, ids=lambda path: path.stem)
def path(request):
    return request.param


def test_address_is_that_of_pyproject(path):
    notebook = read(path)
    address = build.address()
    expected = build.with_address(notebook, path.name, address)
    assert notebook.cells == expected.cells
    assert build.badge(path.name, address) in notebook.cells[0].source


def test_first_code_cell_installs(path):
    source = code_cells(read(path))[0].source
    assert 'find_spec("albert_tf") is None:\n    %pip install' in source
    assert f"git+{build.address()}" in source
    assert not REGISTRIES.search(source)


def test_outputs_are_stored(path):
    """All cells were run in order."""
    notebook = read(path)
    nbformat.validate(notebook)
    counts = [cell.execution_count for cell in code_cells(notebook)]
    assert counts == list(range(1, len(counts) + 1))
    kinds = [x.output_type for c in code_cells(notebook) for x in c.outputs]
    assert len(kinds) >= 5
    assert "error" not in kinds
    for text in texts(notebook):
        assert not CHATTER.search(text), text
    assert notebook.metadata.kernelspec.name == "python3"


def test_notebook_is_small(path):
    assert path.stat().st_size < 500_000
    pictures = figures(read(path))
    assert pictures
    assert max(map(len, pictures)) < 100_000


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (
            "https://github.com/them/albert_tf",
            "https://colab.research.google.com/github/them/albert_tf/blob/main/"
            "notebooks/a.ipynb",
        ),
        (
            "https://github.com/them/fork.git",
            "https://colab.research.google.com/github/them/fork/blob/main/"
            "notebooks/a.ipynb",
        ),
        (
            "https://git.example.org/group/albert_tf",
            "https://mybinder.org/v2/git/"
            "https%3A%2F%2Fgit.example.org%2Fgroup%2Falbert_tf/main"
            "?labpath=notebooks/a.ipynb",
        ),
    ],
)
def test_badge_depends_on_the_host(address, expected):
    assert build.badge("a.ipynb", address).endswith(f"]({expected})")


def test_address_can_be_changed():
    notebook = read(PATHS[0])
    fork = "https://github.com/them/fork"
    changed = build.with_address(notebook, PATHS[0].name, fork)
    assert build.address() not in json.dumps(changed.cells)
    back = build.with_address(changed, PATHS[0].name, build.address())
    assert back.cells == notebook.cells


@pytest.mark.notebook
def test_notebook_runs(path, tmp_path):
    """All cells run, and scores are at least the lower bounds."""
    executed = build.execute(read(path), tmp_path)
    assert len(figures(executed)) == len(figures(read(path)))
    output = "\n".join(texts(executed))
    assert not CHATTER.search(output)
    for pattern, least in SCORES.get(path.stem, {}).items():
        found = re.findall(pattern, output)
        assert found, pattern
        assert min(map(float, found)) >= least, (pattern, found)
