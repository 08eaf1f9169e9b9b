"""What a user gets from `pip install`, and what importing it costs."""

import email
import importlib.metadata
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest
import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.version import Version

import albert_tf

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
# Folders of the repository, and where the wheel has them.
FOLDERS = {
    "albert_tf": "albert_tf",
    "export": "albert_tf/exporting",
    "official_configs": "albert_tf/official_configs",
}
# The file with the tested versions of each extra; "" is no extra.
PINS = {
    "": "requirements.txt",
    "completion": "requirements.txt",
    "hub": "requirements.txt",
    "notebooks": "requirements.txt",
    "plots": "requirements.txt",
    "tasks": "requirements.txt",
    "zstd": "requirements.txt",
    "onnx": "requirements.txt",
    "openvino": "requirements.txt",
    "dev": "requirements.txt",
    "bench": "requirements-peers.txt",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Builds the wheel offline, from a copy; returns its path and the log."""
    setuptools = importlib.metadata.version("setuptools")
    if Version(setuptools) < Version("77"):
        pytest.skip(f"setuptools {setuptools} cannot build it: run `make venv`")
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, source)
    for name in FOLDERS:
        shutil.copytree(
            REPOSITORY / name,
            source / name,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    wheels = tmp_path_factory.mktemp("wheels")
    command = [sys.executable, "-m", "pip", "wheel", "--verbose", "--no-index"]
    command += ["--no-deps", "--no-build-isolation", "--wheel-dir", wheels, "."]
    build = subprocess.run(
        command,
        cwd=source,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert build.returncode == 0, build.stdout
    (path,) = wheels.glob("*.whl")
    return path, build.stdout


@pytest.fixture(scope="module")
def metadata(wheel):
    """Returns `read(name)`: the text of a file in the wheel's dist-info."""

    def read(name):
        with zipfile.ZipFile(wheel[0]) as archive:
            (path,) = (
                path
                for path in archive.namelist()
                if path.endswith(f".dist-info/{name}")
            )
            return archive.read(path).decode()

    return read


def test_wheel_has_all_code_and_data(wheel):
    expected = {
        f"{installed}/{path.relative_to(REPOSITORY / folder).as_posix()}"
        for folder, installed in FOLDERS.items()
        for path in (REPOSITORY / folder).rglob("*")
        if path.is_file() and path.parent.name != "__pycache__"
    }
    with zipfile.ZipFile(wheel[0]) as archive:
        found = {n for n in archive.namelist() if ".dist-info/" not in n}
    assert found == expected
    assert {
        "albert_tf/py.typed",
        "albert_tf/exporting/__init__.py",
        "albert_tf/official_configs/models/albert_base_v2.json",
        "albert_tf/pretrained_models/albert_tiny_en/model.safetensors",
    } <= found


@pytest.mark.long
def test_the_model_of_an_installed_wheel_opens(wheel, tmp_path):
    """From a folder with nothing but the wheel, without a network."""
    with zipfile.ZipFile(wheel[0]) as archive:
        archive.extractall(tmp_path / "installed")
    code = (
        "import socket, sys\n"
        "def refuse(*_):\n"
        "    raise OSError('no network')\n"
        "socket.socket.connect = socket.getaddrinfo = refuse\n"
        "import albert_tf\n"
        "assert albert_tf.__file__.startswith(sys.argv[1])\n"
        "print(albert_tf.SentenceEmbedder()('A good story.').shape)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "installed"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "installed")},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "(384,)"


def test_build_gives_no_warning(wheel):
    assert [line for line in wheel[1].splitlines() if "Warning" in line] == []


def test_command_exists(metadata):
    (line,) = (
        line
        for line in metadata("entry_points.txt").splitlines()
        if line.startswith("albert ")
    )
    entry = importlib.metadata.EntryPoint(
        "albert", line.partition("= ")[2], "console_scripts"
    )
    assert callable(entry.load())


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13"])
@pytest.mark.parametrize(("extra", "file"), PINS.items())
def test_pins_are_in_the_ranges(metadata, extra, file, python):
    environment = {
        **default_environment(),
        "python_version": python,
        "extra": extra,
    }

    def applies(requirement):
        marker = requirement.marker
        return marker is None or marker.evaluate(environment)

    lines = (REPOSITORY / file).read_text().splitlines()
    lines = [line.partition("#")[0].strip() for line in lines]
    pins = [Requirement(line) for line in lines if line]
    ranges = email.message_from_string(metadata("METADATA"))
    ranges = [Requirement(r) for r in ranges.get_all("Requires-Dist")]
    ranges = [r for r in ranges if ("extra" in str(r.marker)) == bool(extra)]
    for wanted in filter(applies, ranges):
        (pin,) = (p for p in pins if p.name == wanted.name and applies(p))
        ((operator, version),) = (
            (s.operator, s.version) for s in pin.specifier
        )
        assert operator == "=="
        assert wanted.specifier.contains(version), (wanted, pin)


def test_import_does_not_need_extras():
    code = (
        "import sys, albert_tf\n"
        "extras = {'matplotlib', 'tensorflow_hub', 'tf_keras', 'torch',\n"
        "          'sklearn', 'scipy', 'seqeval'}\n"
        "assert extras.isdisjoint(sys.modules), extras & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_urls_are_of_one_repository(metadata):
    urls = email.message_from_string(metadata("METADATA"))
    urls = dict(x.split(", ") for x in urls.get_all("Project-URL"))
    assert set(urls) == {"Repository", "Changelog", "Issues"}
    for url in urls.values():
        assert url.startswith(urls["Repository"])


def dockerfile_lines():
    text = (REPOSITORY / "Dockerfile").read_text("utf-8")
    return re.sub(r"\\\n\s*", "", text).splitlines()


def test_dockerfile_copies_what_the_wheel_needs():
    copied = {
        name
        for line in dockerfile_lines()
        if line.startswith("COPY ")
        for name in line.split()[1:-1]
    }
    ignored = (REPOSITORY / ".dockerignore").read_text("utf-8").splitlines()
    assert {line[1:] for line in ignored if line.startswith("!")} == copied
    assert copied >= {*FOLDERS, "pyproject.toml", "setup.py", "README.md"}
    for name in copied:
        assert (REPOSITORY / name).exists(), name


def test_dockerfile_runs_a_tested_python_without_root():
    lines = dockerfile_lines()
    (image,) = (line for line in lines if line.startswith("FROM "))
    assert re.fullmatch(r"FROM python:3\.11\.\d+-slim-\w+", image)
    assert lines.index("USER albert") > max(
        number for number, line in enumerate(lines) if line.startswith("RUN ")
    )
    assert 'ENTRYPOINT ["albert"]' in lines


@pytest.mark.long
def test_image_is_built():
    for builder in ("docker", "podman"):
        command = [builder, "info"]
        if (
            shutil.which(builder)
            and not subprocess.run(command, capture_output=True).returncode
        ):
            break
    else:
        pytest.skip("neither docker nor podman can build images here")
    tag = "albert_tf:test"
    subprocess.run([builder, "build", "--tag", tag, REPOSITORY], check=True)
    result = subprocess.run(
        [builder, "run", "--rm", tag, "--version"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert albert_tf.__version__ in result.stdout


def test_contributors_files():
    """They must parse, and run the same checks as `make test`."""
    pinned = (REPOSITORY / "requirements.txt").read_text("utf-8")
    hooks = yaml.safe_load(
        (REPOSITORY / ".pre-commit-config.yaml").read_text("utf-8")
    )
    (ruff,) = hooks["repos"]
    assert f"\nruff=={ruff['rev'].removeprefix('v')}\n" in pinned
    assert [hook["id"] for hook in ruff["hooks"]] == [
        "ruff-check",
        "ruff-format",
    ]
    github = REPOSITORY / ".github"
    workflow = yaml.safe_load((github / "workflows" / "ci.yml").read_text())
    assert workflow["jobs"]["ci"]["steps"][-1] == {"run": ".ci/run"}
    for path in (github / "ISSUE_TEMPLATE").iterdir():
        template = yaml.safe_load(path.read_text("utf-8"))
        assert template["name"]
        assert any("attributes" in part for part in template["body"])
