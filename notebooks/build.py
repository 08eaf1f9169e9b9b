"""Runs the notebooks of this folder and stores their outputs: `make notebooks`.

Badges and install cells have the address in `[project.urls]` of pyproject.toml:
in a fork, change it there and run `make notebooks ARGS=--address`.

Usage: build.py [--address] [NAME.ipynb ...]

With --address, only badges and install cells are updated, and nothing is run.
"""

import argparse
import base64
import io
import pathlib
import re
import sys
import tempfile
import time
import urllib.parse

import nbclient
import nbformat
from PIL import Image

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = pathlib.Path(__file__).resolve().parent
REPOSITORY = FOLDER.parent
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
TIMEOUT = 1800  # seconds per cell, for a busy machine
# Any Python 3 kernel can run the notebooks.
_METADATA = {
    "accelerator": "GPU",
    "colab": {"provenance": []},
    "kernelspec": {
        "display_name": "Python 3",
        "language": "python",
        "name": "python3",
    },
    "language_info": {"name": "python"},
}
_INSTALL = """\
# Installs albert_tf where it is missing, as on Colab.
import importlib.util

if importlib.util.find_spec("albert_tf") is None:
    %pip install --quiet "albert-tf[notebooks] @ git+{address}"
"""


# Progress lines that were redrawn, and a line that LiteRT always prints.
_NOISE = re.compile(r"[^\n]*\r(?!\n)|INFO: Created TensorFlow Lite [^\n]*\n")


def address() -> str:
    """Returns the address of the repository in pyproject.toml."""
    text = (REPOSITORY / "pyproject.toml").read_text("utf-8")
    return tomllib.loads(text)["project"]["urls"]["Repository"].rstrip("/")


def badge(name: str, address: str) -> str:
    """Returns the Markdown of the badge that opens a notebook.

    It opens Colab for repositories on GitHub, else Binder, which clones any
    repository.

    Args:
      name: File name of the notebook.
      address: Address of the repository.
    """
    url = urllib.parse.urlsplit(address)
    path = url.path.removesuffix(".git")
    if url.hostname == "github.com":
        image = "https://colab.research.google.com/assets/colab-badge.svg"
        target = "https://colab.research.google.com/github"
        target += f"{path}/blob/main/notebooks/{name}"
        return f"[![Open in Colab]({image})]({target})"
    quoted = urllib.parse.quote(address, safe="")
    target = f"https://mybinder.org/v2/git/{quoted}/main"
    target += f"?labpath=notebooks/{name}"
    return f"[![Open in Binder](https://mybinder.org/badge_logo.svg)]({target})"


def with_address(notebook, name: str, address: str):
    """Returns a notebook with an address in its badge and install cell.

    Args:
      notebook: Notebook that begins with a title, and whose first code cell
        installs albert_tf.
      name: File name of the notebook.
      address: Address of the repository.
    """
    notebook = nbformat.from_dict(notebook)
    title, *rest = notebook.cells[0].source.split("\n")
    text = "\n".join(x for x in rest if not x.startswith("[![Open in")).strip()
    notebook.cells[0].source = f"{title}\n\n{badge(name, address)}\n\n{text}"
    install = next(x for x in notebook.cells if x.cell_type == "code")
    install.source = _INSTALL.format(address=address).strip()
    return notebook


def execute(notebook, folder):
    """Runs a notebook in a folder and returns it with its outputs.

    Raises:
      nbclient.exceptions.CellExecutionError: if a cell raises an exception.
    """
    notebook = nbformat.from_dict(notebook)
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:02}"
        cell.metadata = {
            key: cell.metadata[key] for key in ("tags",) if key in cell.metadata
        }
    nbclient.NotebookClient(
        notebook,
        timeout=TIMEOUT,
        kernel_name="python3",
        record_timing=False,
        resources={"metadata": {"path": str(folder)}},
    ).execute()
    notebook.metadata = nbformat.from_dict(_METADATA)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = _merge(cell.outputs)
            for output in cell.outputs:
                if "image/png" in output.get("data", {}):
                    output.data["image/png"] = _shrink(output.data["image/png"])
    return notebook


def _shrink(picture: str) -> str:
    """Reduces a PNG in base64 to 128 colours, which suffice for plots."""
    image = Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGB")
    file = io.BytesIO()
    image.quantize(128, dither=Image.Dither.NONE).save(
        file, "PNG", optimize=True
    )
    return base64.b64encode(file.getvalue()).decode()


def _merge(outputs):
    """Joins consecutive outputs of the same stream, and removes noise."""
    merged = []
    for output in outputs:
        last = merged[-1] if merged else {}
        if output.output_type == "stream":
            output.text = _NOISE.sub("", output.text)
            if not output.text.strip():
                continue
            if output.name == last.get("name"):
                last.text += output.text
                continue
        merged.append(output)
    return merged


def main() -> None:
    """Updates the notebooks."""
    parser = argparse.ArgumentParser(description="Run and store notebooks.")
    parser.add_argument("--address", action="store_true")
    parser.add_argument("notebooks", nargs="*", type=pathlib.Path)
    arguments = parser.parse_args()
    for path in arguments.notebooks or NOTEBOOKS:
        path = FOLDER / path.name
        notebook = nbformat.read(path, as_version=4)
        notebook = with_address(notebook, path.name, address())
        started = time.monotonic()
        if not arguments.address:
            with tempfile.TemporaryDirectory() as folder:
                notebook = execute(notebook, folder)
        nbformat.write(notebook, path)
        print(f"{path.name}: {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
