"""Web pages that run a model in the browser, from any static host.

A page is one HTML file. Beside it are the int8 model in Hugging Face's layout,
and the scripts of two npm packages: a tokenizer and ONNX Runtime.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.resources
import json
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from typing import Any

from albert_tf.errors import InputError
from albert_tf.exporting.huggingface_layout import QUANTIZED_FILE
from albert_tf.exporting.manifest import MANIFEST, Origin, describe_files
from albert_tf.exporting.model_card import describe_export
from albert_tf.input_files import read_bytes
from albert_tf.interop.huggingface import CONFIG_FILE

_MODEL, _SCRIPTS = "model", "scripts"
_READ = ("tokenizer.json", "tokenizer_config.json", QUANTIZED_FILE)
_WASM = "ort-wasm-simd-threaded.wasm"
# Package -> its version, and the SHA-256 of the files that a page has. The
# other versions of ONNX Runtime's program are twice as large, for WebGPU.
PACKAGES = {
    "@huggingface/tokenizers": (
        "0.2.0",
        {
            "dist/tokenizers.min.mjs": "258e46332101335ce8d95aed7745b19a"
            "c3b46d37f3e159a89cf894c2ea9b1d3a",
            "LICENSE": "c71d239df91726fc519c6eb72d318ec6"
            "5820627232b2f796219e87dcf35d0ab4",
        },
    ),
    "onnxruntime-web": (
        "1.31.0-dev.20260914-8d85527a0",
        {
            "dist/ort.wasm.bundle.min.mjs": "17b52c1ac62b421dc508b4c28b9a9675"
            "251c6e25dd512ef54b83a5e2c4242869",
            f"dist/{_WASM}": "06ba057753da3847e4c24f02d91ab133"
            "455b0817c69a44993a9a53a2146df9e3",
        },
    ),
}
# Its package has no file of it.
_MIT = """\
onnxruntime-web: MIT License

Copyright (c) Microsoft Corporation

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
SOFTWARE.
"""
# Architecture of Hugging Face's -> what the page does with the model.
_MODES = {
    "AlbertForMaskedLM": ("words", "sentences"),
    "AlbertModel": ("sentences",),
    "AlbertForSequenceClassification": ("labels",),
    "AlbertForTokenClassification": ("tokens",),
    "AlbertForQuestionAnswering": ("answers",),
    "AlbertForMultipleChoice": ("options",),
}


def write_web_page(
    layout: pathlib.Path,
    scripts: Mapping[str, bytes],
    pooling: str,
    folder: pathlib.Path,
) -> None:
    """Writes a web page.

    Args:
      layout: an export in Hugging Face's layout.
      scripts: the `page_scripts`.
      pooling: "mean" or "cls": what gives the vectors of sentences.
      folder: where to write it, an empty folder.
    """
    values = json.loads((layout / MANIFEST).read_text("utf-8"))
    model_config = json.loads((layout / CONFIG_FILE).read_text("utf-8"))
    facts = _facts(values, model_config) | {"pooling": pooling}
    (folder / _SCRIPTS).mkdir()
    for name, content in scripts.items():
        (folder / _SCRIPTS / name).write_bytes(content)
    for name in (CONFIG_FILE, *_READ):
        path = folder / _MODEL / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(layout / name, path)
    # What the page reads, for its progress.
    read = [f"{_SCRIPTS}/{_WASM}.bin", *(f"{_MODEL}/{x}" for x in _READ)]
    facts["bytes"] = sum((folder / x).stat().st_size for x in read)
    _write(folder / "index.html", "web_page.html", facts=script_text(facts))
    # The page's address stands for the page. The worker reads what it
    # reads, and is another one if any file of the folder is.
    modules = [f"{_SCRIPTS}/{x}" for x in scripts if x.endswith(".mjs")]
    _write(
        folder / "worker.js",
        "web_worker.js",
        files=json.dumps(["./", *modules, *read]),
        version=hashlib.sha256(
            json.dumps(describe_files(folder)).encode()
        ).hexdigest(),
    )
    described = {
        "kind": "web",
        "file": f"{_MODEL}/{QUANTIZED_FILE}",
        "files": describe_files(folder),
        "quantization": "dynamic",
    }
    origin = Origin.from_dict(values.pop("origin"))
    describe_export(folder, values | described, origin)


def _write(path: pathlib.Path, template: str, **values: str) -> None:
    """Writes a file of the package, with values in place of their names."""
    source = importlib.resources.files("albert_tf.exporting") / template
    text = source.read_text("utf-8")
    for name, value in values.items():
        text = text.replace(f"{{{{{name}}}}}", value)
    path.write_text(text, "utf-8")


def script_text(values: Mapping[str, Any]) -> str:
    """Returns JSON that may stand in a script element of HTML."""
    return json.dumps(values).replace("<", r"\u003c")


def _facts(
    values: Mapping[str, Any], config: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns what the page must know of a model, as JSON values.

    Args:
      values: the contents of the export's `export.json`.
      config: those of its `config.json`.
    """
    (architecture,) = config["architectures"]
    task = values.get("task") or {}
    settings = task.get("settings", {})
    longest = values["seq_length"]
    longest_option = settings.get("max_qa_length", min(128, longest // 4))
    return {
        "name": values["origin"]["name"],
        "modes": _MODES[architecture],
        "labels": [*config.get("id2label", {}).values()],
        "problem_type": config.get("problem_type"),
        "pair": task.get("source", {}).get("pair") is not None,
        "longest": longest,
        "longest_option": min(longest_option, longest - 3),
        "longest_question": min(
            settings.get("max_query_length", 64), max(1, longest - 4)
        ),
        "doc_stride": settings.get("doc_stride", 128),
        "longest_answer": settings.get("max_answer_length", 30),
        "n_best": settings.get("n_best", 20),
        "parameters": sum(values["parameters"].values()),
    }


def page_scripts(
    packages: str | os.PathLike[str] | None,
) -> dict[str, bytes]:
    """Returns the scripts of a page and their licenses, by name of the file.

    Args:
      packages: a folder `node_modules`; None to fetch them with npm.

    Raises:
      InputError: if the packages are not there, or are others than `PACKAGES`.
    """
    with tempfile.TemporaryDirectory() as scratch:
        if packages is None:
            packages = pathlib.Path(scratch)
            for name, (version, _) in PACKAGES.items():
                _fetch(name, version, packages / name)
        files = {}
        for package, (version, names) in PACKAGES.items():
            for name, digest in names.items():
                path = pathlib.Path(packages, package, name)
                content = read_bytes(path)
                if hashlib.sha256(content).hexdigest() != digest:
                    raise InputError(
                        f"{path} is not that of {package} {version}; install "
                        "this version with npm"
                    )
                files[path.name] = content
    # In the browser's own format, as hosts compress only what they know.
    files[f"{_WASM}.bin"] = gzip.compress(files.pop(_WASM), mtime=0)
    apache = files.pop("LICENSE").decode()
    licenses = f"{_MIT}\n\n@huggingface/tokenizers: Apache License\n\n{apache}"
    files["LICENSES.txt"] = licenses.encode()
    return files


def _fetch(name: str, version: str, folder: pathlib.Path) -> None:
    """Unpacks the pinned files of a npm package, without what it depends on."""
    advice = (
        "give --web_packages=node_modules, a folder in which "
        f"`npm install --ignore-scripts {name}@{version}` has been run"
    )
    if shutil.which("npm") is None:
        raise InputError(
            f"kind=web needs npm to fetch its scripts, or {advice}"
        )
    folder.mkdir(parents=True)
    ended = subprocess.run(
        ["npm", "pack", "--silent", "--ignore-scripts", f"{name}@{version}"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    archives = [*folder.glob("*.tgz")]
    if ended.returncode or len(archives) != 1:
        reason = (ended.stderr.strip().splitlines() or ["no file"])[-1]
        raise InputError(
            f"npm cannot fetch {name}@{version}: {reason}; {advice}"
        )
    with tarfile.open(archives[0]) as archive:
        for file in PACKAGES[name][1]:
            path = folder / file
            path.parent.mkdir(exist_ok=True)
            member = archive.extractfile(f"package/{file}")
            path.write_bytes(member.read() if member else b"")
