"""Runs the marked blocks of README.md and docs/, and checks their claims."""

import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import albert_tf
from albert_tf.analysis.parameters import count_parameters
from albert_tf.cli.commands import COMMANDS, command_flags, recipe_names
from albert_tf.cli.main import main
from albert_tf.config import AlbertConfig
from albert_tf.finetuning.registry import known_tasks

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
DOCS = REPOSITORY / "docs"
CODE = re.compile(r"```.*?```", re.DOTALL)
RUN = re.compile(r"<!-- run -->\n```(\w+)\n(.*?)```", re.DOTALL)


def page(name):
    """Returns a page of docs/, whose new models are smaller, to save time."""
    return re.sub(
        r"(?<!--)vocab_size=2000(,\s*num_hidden_layers=1)?",
        "vocab_size=2000,num_hidden_layers=1,hidden_size=96,"
        "intermediate_size=192",
        (DOCS / name).read_text("utf-8"),
    )


README = page("../README.md")
CHECKPOINTS = page("checkpoints.md")
EXPORTS = page("exports.md")
FINETUNING = page("finetuning.md")
PERFORMANCE = page("performance.md")
TPU = page("tpu.md")
WHY = "## Why albert_tf"  # The end of the README's first screen.


@pytest.fixture(scope="module")
def folder(text_file, tmp_path_factory):
    """A folder with the reader's text in my/*.txt."""
    folder = tmp_path_factory.mktemp("reader")
    (folder / "my").mkdir()
    documents = text_file.read_text("utf-8").split("\n\n\n")[:100]
    for number in range(2):
        (folder / "my" / f"{number}.txt").write_text(
            "\n\n\n".join(documents[number::2]), "utf-8"
        )
    return folder


@pytest.fixture(scope="module")
def run(albert_command):
    """Returns `run(command, folder)`, which returns the output of a command."""
    environment = dict(os.environ)
    programs = [albert_command.parent, pathlib.Path(sys.executable).parent]
    environment["PATH"] = os.pathsep.join(
        [*map(str, programs), environment["PATH"]]
    )

    def run(command, folder):
        result = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert result.returncode == 0, result.stdout
        return result.stdout

    return run


@pytest.fixture(scope="module")
def run_blocks(run):
    """Returns `run(text, folder)`, which runs the blocks of a page in order.

    Consecutive blocks in the same language run in one process.
    """

    def run_all(document, folder):
        output = ""
        blocks = RUN.findall(document)
        for language, group in itertools.groupby(blocks, lambda x: x[0]):
            code = "\n".join(code for _, code in group)
            command = {
                "bash": ["bash", "-e", "-c", code],
                "python": ["albert", "-c", code],
            }[language]
            output += run(command, folder)
        return output

    return run_all


@pytest.fixture(scope="module")
def readme_output(folder, run):
    """Output of the README's commands, which other pages build on."""
    blocks = RUN.findall(README)
    shell = "\n".join(code for language, code in blocks if language == "bash")
    return run(["bash", "-e", "-c", shell], folder)


@pytest.fixture
def reader(folder, readme_output, tmp_path):
    """A copy of the folder in which the README's commands have been run."""
    return shutil.copytree(folder, tmp_path / "reader")


@pytest.mark.long
def test_readme_runs(folder, readme_output, run):
    assert "wrote hub/preprocessor" in readme_output
    assert "mlm_unigram_accuracy" in readme_output
    assert (folder / "curves.png").stat().st_size > 10_000
    # Neither text is among the examples.
    assert re.search(
        r"id\tlabel\tbad\tgood\n0\tgood\t.*\n1\tbad\t", readme_output
    )
    assert "most frequent label: accuracy 0.5000" in readme_output
    assert "no better than" not in readme_output
    assert (folder / "reviews" / "model" / "task.json").exists()
    # Those of the first screen have a test of their own.
    blocks = RUN.findall(README.split(WHY)[1])
    python = [code for language, code in blocks if language == "python"]
    assert python
    run(["albert", "-c", "\n".join(python)], folder)


@pytest.mark.long
def test_first_screen_needs_no_network(run, tmp_path):
    """Its Python runs without connections, and prints what it shows."""
    offline = """\
import socket

def refuse(*arguments):
    raise AssertionError("a connection was opened")

socket.socket.connect = socket.getaddrinfo = refuse
"""
    screen = README.split(WHY)[0]
    python = [code for _, code in RUN.findall(screen)]
    (shown,) = re.findall(r"\n\n```\n(.*?)```", screen, re.DOTALL)
    output = run(["albert", "-c", "\n".join([offline, *python])], tmp_path)
    assert output.startswith(shown)
    assert output.endswith("\n['good', 'bad']\n")
    prediction = ["albert", "predict", "--model=critic", "--text=Funny."]
    assert "id\tlabel\tbad\tgood\n0\tgood\t" in run(prediction, tmp_path)


def read_json(path):
    return json.loads(path.read_text("utf-8"))


@pytest.mark.long
def test_pretraining_pages_run(reader, run_blocks):
    output = run_blocks(page("pretraining_data.md"), reader)
    output += run_blocks(page("training.md"), reader)
    output += run_blocks(page("gpu.md"), reader)
    assert "num_hidden_layers 1 -> 4" in output
    assert (reader / "small.png").stat().st_size > 10_000


@pytest.mark.long
def test_objectives_run(reader, run_blocks):
    output = run_blocks(page("objectives.md"), reader)
    assert re.search(r"rtd_chance +0\.\d+", output)
    assert (reader / "rtd_encoder" / "model.safetensors").exists()


@pytest.mark.long
def test_finetuning_runs(reader, run_blocks):
    output = run_blocks(FINETUNING, reader)
    assert re.search(r"accuracy: median [01]\.\d+ of 2 runs", output)
    assert re.search(r"against the mean of its\s+2 members", output)
    assert "HasAns_exact" in output
    predictions = (reader / "predictions.jsonl").read_text("utf-8")
    assert len(predictions.splitlines()) == 8
    for name in ("predictions", "nbest_predictions", "null_odds"):
        assert set(read_json(reader / "squad" / f"{name}.json")) == {"1", "2"}


@pytest.mark.long
def test_serving_runs(reader, run_blocks):
    """The server of the page is run by tests/export/test_serving.py."""
    output = run_blocks(page("serving.md"), reader)
    assert "wrote models/reviews/1" in output
    manifest = read_json(reader / "models" / "reviews" / "1" / "export.json")
    signature = manifest["signatures"]["serving_default"]
    assert signature == {
        "inputs": ["text"],
        "outputs": ["label", "logits", "probabilities"],
    }


@pytest.mark.long
def test_exports_run(reader, run_blocks):
    output = run_blocks(EXPORTS, reader)
    run_blocks(page("runtimes.md"), reader)
    (table,) = re.findall(r"\n\n```\n(check .*?)```", EXPORTS, re.DOTALL)
    for line in table.splitlines():
        # A check and its result; the figures are those of another model.
        assert f"\n{line[:26].rstrip()}" in f"\n{output}", line


@pytest.mark.long
def test_checkpoints_run(run_blocks, tmp_path):
    output = run_blocks(CHECKPOINTS, tmp_path)
    (report,) = re.findall(r"\n\n```\n(.*?)```", CHECKPOINTS, re.DOTALL)
    assert report in output
    assert "lacks the sop_head of an AlbertPretrainer" in output


@pytest.mark.long
def test_quick_start_runs(reader, run_blocks):
    output = run_blocks(page("quick_start.md"), reader)
    assert re.search(r"id\tlabel\tbad\tgood\n0\tgood\t.*\n1\tbad\t", output)
    assert "{'id': '0', 'label': 'good', " in output
    assert "max difference" in output  # the check of the export
    assert output.endswith("(1, 96)\n")


@pytest.mark.peer
def test_embeddings_run(run_blocks, tmp_path):
    for package in ("faiss", "sentence_transformers"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    text = page("embeddings.md")
    output = run_blocks(text, tmp_path)
    (shown,) = re.findall(r"\n\n```\n(.*?)```", text, re.DOTALL)
    assert shown in output
    (largest,) = re.findall(r"largest difference: (\S+)", output)
    assert float(largest) < 1e-5


@pytest.mark.long
def test_studies_run(folder, run_blocks, tmp_path):
    shutil.copytree(folder / "my", tmp_path / "my")
    text = page("ablations.md").replace(
        "--scale=smoke", "--scale=smoke --seeds=1"
    )
    output = run_blocks(text, tmp_path)
    assert "## Table 8: Dropout (`dropout`)" in output
    assert "## Attention heads (`heads`)" in output
    assert (tmp_path / "studies" / "dropout.png").stat().st_size > 5000


@pytest.mark.long
def test_analysis_runs(reader, run_blocks):
    # The README's model has one layer here, see `page`.
    text = page("analysis.md").replace("--layers=1,2", "--layers=1")
    output = run_blocks(text, reader)
    assert "| run: L2 | cosine | degrees | random, sharing=none: L2" in output
    assert "| last layer applied further" in output
    assert '"tokens": ["[CLS]", ' in output
    for name in ("parameters.png", "similarity.png", "attention.png"):
        assert (reader / name).stat().st_size > 10_000


@pytest.mark.long
def test_answers_run(reader, run_blocks):
    run_blocks(page("faq.md"), reader)


@pytest.mark.parametrize("name", ["faq.md", "migration.md"])
def test_flags_and_names_of_a_page_exist(name):
    text = page(name)
    if name == "migration.md":
        # The left column has the names in other libraries.
        text = "\n".join(
            row.strip("|").split("|")[-1] if row.startswith("|") else row
            for row in text.splitlines()
        )
    flags = {
        name: declared
        for command in COMMANDS
        for name, declared in command_flags(command).settings.items()
    }
    others = {"recipe", "flagfile", "list_recipes"}
    for name in re.findall(r"--(\w+)", text):
        if name not in others and name != "random_next_sentence":
            assert name in flags or name.removeprefix("no") in flags, name
    for name, value in re.findall(r"--(\w+)=(\w+)", text):
        if name in flags and flags[name].choices:
            assert value in flags[name].choices, (name, value)
    for name in re.findall(r"albert_tf\.(\w+)", text):
        assert hasattr(albert_tf, name), name
    for name in re.findall(r"--recipe=([\w./]+)", text):
        assert name in recipe_names(), name


def test_every_difference_has_a_test():
    table = CHECKPOINTS.split("## What each peer does differently")[1]
    rows = [row for row in table.splitlines() if row.startswith("|")][2:]
    assert len(rows) > 15
    for row in rows:
        cells = row.strip("|").split("|")
        test = re.fullmatch(
            r' \[test\]\(\.\./(tests/\S+\.py) "(test_\w+)"\) ', cells[3]
        )
        assert test, row
        code = (REPOSITORY / test[1]).read_text("utf-8")
        assert f"def {test[2]}(" in code, row


def usage_of(command, capsys):
    assert main([command, "--help"]) == 0
    return capsys.readouterr().out


def test_commands_for_tpus_have_flags_that_exist(capsys):
    commands = re.findall(
        r"^albert (\S+) ((?:.*\\\n)*.*)", TPU.replace("$", ""), re.MULTILINE
    )
    assert [command for command, _ in commands].count("pretrain") == 2
    for command, arguments in commands:
        usage = usage_of(command, capsys)
        for name in re.findall(r"--(\w+)", arguments):
            assert re.search(rf"--(\[no\])?{name}:", usage), name
        model = re.search(r"--config=(\S+)", arguments)
        assert not model or AlbertConfig.from_official(model[1])
    table = TPU.split("| slice | cores |")[1].split("\n\n")[0]
    rows = [row.strip("|").split("|") for row in table.splitlines()[2:]]
    assert len(rows) == 4
    for _, cores, accumulation, examples in rows:
        assert int(cores) * int(accumulation) * int(examples) == 4096


def test_flags_and_tasks_of_fine_tuning_exist(capsys):
    commands = ("finetune", "predict", "evaluate", "export")
    usage = "".join(usage_of(command, capsys) for command in commands)
    (section,) = re.findall(r"## Fine-tuning\n(.*?)\n## ", README, re.DOTALL)
    for document in (FINETUNING, section):
        for name in re.findall(r"--(\w+)", document):
            if name not in ("recipe", "flagfile"):  # flags of all commands
                assert re.search(rf"--(\[no\])?{name}:", usage), name
    table = FINETUNING.split("| `--task` |")[1].split("\n\n")[0]
    tasks = re.findall(r"`([^`]*)`", "".join(re.findall(r"\n(\|.*?)\|", table)))
    assert set(tasks) == {*known_tasks(), "text"}


def test_table_of_recipes():
    recipes = REPOSITORY / "official_configs" / "recipes" / "finetune"
    table = FINETUNING.split("| recipe |")[1].split("\n\n")[0]
    named = []
    for row in table.splitlines()[2:]:
        names, expected, _ = row.strip("|").split("|")
        names = re.findall(r"`(\w[\w.]*)`", names)
        named += names
        text = "".join((recipes / f"{x}.flags").read_text() for x in names)
        for number in re.findall(r"\d\d\.\d", expected):
            assert number in text, (names, number)
    assert sorted(named) == sorted(x.stem for x in recipes.glob("*.flags"))


def test_requirements_for_tpus_match_the_page():
    pins = (REPOSITORY / "requirements-tpu.txt").read_text("utf-8")
    assert "\ntensorflow==2.19.1\n" in pins
    assert "tensorflow-tpu==2.19.1" in TPU
    install = re.search(r"^pip install -c .*\\\n.*", TPU, re.MULTILINE)[0]
    for name in re.findall(r"(?<=\s)[a-z][a-z0-9-]+(?=\s)", install):
        if name not in ("install", "tensorflow-tpu", "requirements-tpu"):
            assert f"\n{name}==" in pins, name


def test_api_reference_has_every_public_name():
    pages = "".join(
        path.read_text("utf-8") for path in REPOSITORY.glob("docs/api/*.rst")
    )
    names = re.findall(
        r"^\.\. auto\w+:: albert_tf\.(\w+)$", pages, re.MULTILINE
    )
    assert sorted(names) == sorted(albert_tf.__all__)


def test_index_lists_every_page():
    pages = [*DOCS.glob("*.md"), *DOCS.glob("api/*.rst")]
    links = re.findall(r"^- \[.*?\]\((.*?)\)", page("index.md"), re.M)
    listed = [DOCS / link for link in links if not link.startswith("..")]
    assert sorted(listed) == sorted({*pages} - {DOCS / "index.md"})


def test_index_has_the_titles_of_pages():
    links = re.findall(r"^- \[(.*?)\]\((.*?)\)", page("index.md"), re.M)
    for title, link in links:
        text = page(link)
        if link.endswith(".ipynb"):
            text = "".join(json.loads(text)["cells"][0]["source"])
        assert text.splitlines()[0].removeprefix("# ") == title, link


def test_links_to_files_work():
    folders = ("", "docs/", "benchmarks/", "notebooks/")
    for document in (x for f in folders for x in REPOSITORY.glob(f"{f}*.md")):
        # Code may have brackets before parentheses.
        prose = CODE.sub("", document.read_text("utf-8"))
        for target in re.findall(r"\]\(([^)#\s]+)[)#\s]", prose):
            if not target.startswith("http"):
                assert (document.parent / target).exists(), target


@pytest.mark.parametrize("size", ["base", "large", "xlarge", "xxlarge"])
def test_parameter_tables(size):
    counts = count_parameters(AlbertConfig.from_official(f"albert_{size}_v2"))
    table = (REPOSITORY / "official_configs" / "README.md").read_text()
    for number in (counts.encoder, counts.total):
        assert f"{number:,}" in PERFORMANCE
        assert f"{number:,}" in table


def test_table_of_small_models():
    table = (REPOSITORY / "official_configs" / "README.md").read_text()
    for name in ("tiny", "mini"):
        config = AlbertConfig.from_official(f"albert_{name}")
        counts = count_parameters(config)
        assert f"| {name} | {counts.encoder:,} | {counts.total:,} |" in table
        assert (
            f"| `albert_{name}` | {config.embedding_size} | "
            f"{config.hidden_size} | {config.num_hidden_layers} | "
            f"{config.num_attention_heads} | {config.intermediate_size} | "
            f"{config.vocab_size} |"
        ) in table
