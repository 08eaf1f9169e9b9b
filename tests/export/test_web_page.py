"""Web pages in Chromium: what they show, and what they ask for."""

import json
import shutil
import time

import numpy as np
import pytest
from browser import serving, started

from albert_tf.errors import InputError
from albert_tf.exporting import web_page
from albert_tf.exporting.check import check_files
from albert_tf.exporting.config import ExportConfig
from albert_tf.exporting.export import export
from albert_tf.exporting.manifest import read_export
from albert_tf.finetuning.predictor import Predictor
from albert_tf.text.tokenizer_files import load_tokenizer

onnxruntime = pytest.importorskip(
    "onnxruntime", reason="onnxruntime is not installed"
)
pytest.importorskip("tf2onnx", reason="tf2onnx is not installed")
# WebAssembly sums in another order.
TOLERANCE = 1e-3


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    for program in ("chromium", "chromedriver"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    with started(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture(scope="module")
def make_page(npm_packages, tmp_path_factory):
    """Returns `make(model)`: the folder of a web page."""

    def make(model):
        folder = tmp_path_factory.mktemp("pages") / "page"
        packages = npm_packages / "node_modules"
        export(
            ExportConfig(
                model=model, output=folder, kind="web", web_packages=packages
            )
        )
        return folder

    return make


def wait(browser, script, *arguments):
    """Returns the first value of a script that is true."""
    for _ in range(300):
        if found := browser.run(script, *arguments):
            return found
        time.sleep(0.1)
    raise TimeoutError(browser.run("return document.body.innerText"))


def opened(browser, address):
    browser.requests()
    browser.open(address)
    wait(browser, "return 'ready' in document.body.dataset")


def results(browser, *texts):
    """Types texts into the fields; returns names with their values."""
    for number, text in enumerate(texts):
        browser.run("document.getElementById('result').replaceChildren()")
        browser.type(f"label:nth-of-type({number + 1}) textarea", text)
        wait(browser, "return !document.querySelector('[aria-busy]')")
    rows = wait(
        browser,
        "const rows = [...document.querySelectorAll('.row')];"
        "return rows.length && rows.map((row) => "
        "[row.querySelector('.name').textContent, Number(row.dataset.value)])",
    )
    return [tuple(row) for row in rows]


def session_of(folder):
    """Returns a function from texts to the model's outputs and its rows."""
    session = onnxruntime.InferenceSession(
        folder / "model/onnx/model_quantized.onnx"
    )
    names = [x.name for x in session.get_outputs()]
    # The page has no vocabulary file of ours, only tokenizer.json.
    tokenizer = load_tokenizer(folder / "model")
    tokenizer = tokenizer.with_settings(match_special_tokens=True)

    def run(*texts):
        rows = tokenizer(*([text] for text in texts))
        inputs = (rows[x] for x in ("input_word_ids", "input_mask"))
        keys = [x.name for x in session.get_inputs()]
        given = (*inputs, rows["input_type_ids"])
        given = dict(zip(keys, (x.astype("int64") for x in given), strict=True))
        outputs = dict(zip(names, session.run(names, given), strict=True))
        return outputs, rows["input_word_ids"][0]

    return run, tokenizer


def softmax(values):
    powers = np.exp(values - np.max(values))
    return powers / powers.sum()


@pytest.mark.peer
def test_packaged_model(browser, make_page):
    """Masked words and similar sentences, without the server in the end."""
    folder = make_page("albert_tiny_en")
    run, tokenizer = session_of(folder)
    with serving(folder) as address:
        opened(browser, address)
        requests = browser.requests()
    # From here on, there is no server.
    assert len(requests) >= 7
    assert all(x.startswith((address, "data:")) for x in requests), requests
    text = "The capital of France is [MASK]."
    found = results(browser, text)
    outputs, ids = run(text)
    scores = softmax(outputs["logits"][0, list(ids).index(tokenizer.mask_id)])
    for (name, value), i in zip(found, np.argsort(-scores), strict=False):
        assert name == tokenizer.decode([i])
        assert value == pytest.approx(scores[i], abs=TOLERANCE)
    assert len(found) == 8
    assert browser.run(
        "return [...document.querySelectorAll('#tokens li')]"
        ".map((token) => Number(token.title))"
    ) == list(ids)
    assert "ms on your device" in browser.run("return document.body.innerText")

    browser.run("document.querySelector('#modes [name=sentences]').click()")
    texts = ["It rained all day.", "The weather was bad.", "Taxes went up."]
    found = dict(results(browser, texts[0], "\n".join(texts[1:])))
    vectors = [run(x)[0]["last_hidden_state"][0].mean(axis=0) for x in texts]
    first, *others = (x / np.linalg.norm(x) for x in vectors)
    for name, vector in zip(texts[1:], others, strict=True):
        assert found[name] == pytest.approx(first @ vector, abs=TOLERANCE)
    assert browser.requests() == []
    browser.type("label textarea", " ")
    assert wait(
        browser, "return document.getElementById('error').textContent"
    ).startswith("Write something")


@pytest.mark.peer
def test_labels(browser, make_page, make_finetuned):
    folder = make_page(make_finetuned("sst2", max_seq_length=32))
    run, _ = session_of(folder)
    with serving(folder) as address:
        opened(browser, address)
        found = dict(results(browser, "A good movie"))
    expected = softmax(run("A good movie")[0]["logits"][0])
    labels = read_export(folder)["task"]["labels"]
    assert sorted(found) == sorted(labels)
    assert found == pytest.approx(
        dict(zip(labels, expected.tolist(), strict=True)), abs=TOLERANCE
    )


@pytest.mark.peer
def test_answers(browser, make_page, make_finetuned):
    """The answer and its probability are those of `Predictor`."""
    source = make_finetuned("squad1.1", max_seq_length=40, max_query_length=12)
    folder = make_page(source)
    question, context = "The plot", "A good movie was seen."
    with serving(folder) as address:
        opened(browser, address)
        found = results(browser, question, context)
        marked = browser.run("return document.querySelector('mark').innerText")
        passage = browser.run(
            "return document.querySelector('.passage').textContent"
        )
    assert passage == context
    (expected,) = Predictor(source)(
        [{"question": question, "context": context}]
    )
    assert marked == expected["answer"]
    # The matrices are too small to lose much in 8 bits.
    best = {x["text"]: x["probability"] for x in expected["best"]}
    for name, value in found:
        assert value == pytest.approx(best[name], abs=0.01)


def test_folder(make_page, pretrained):
    folder = make_page(pretrained)
    values = read_export(folder)
    files = {str(x.relative_to(folder)) for x in folder.rglob("*.*")}
    assert files == {*values["files"], "README.md", "export.json"}
    assert check_files(folder, values).result == "pass"
    licenses = (folder / "scripts/LICENSES.txt").read_text()
    assert "MIT License" in licenses
    assert "Apache License" in licenses
    # Nothing refers to another host.
    page = (folder / "index.html").read_text()
    assert "http" not in page
    assert "{{" not in page


def test_other_packages(pretrained, tmp_path):
    packages = tmp_path / "node_modules"
    config = ExportConfig(
        model=pretrained,
        output=tmp_path / "page",
        kind="web",
        web_packages=packages,
    )
    with pytest.raises(InputError, match=r"tokenizers\.min\.mjs"):
        export(config)
    for package, (_, names) in web_page.PACKAGES.items():
        for name in names:
            path = packages / package / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("another release")
    with pytest.raises(InputError, match=r"mjs is not that of @huggingface/"):
        export(config)
    assert not (tmp_path / "page").exists()


def test_labels_cannot_end_the_script(monkeypatch):
    """A label is text, whatever it says."""
    values = {"labels": ["</script><b>"]}
    assert "</script" not in web_page.script_text(values)
    assert json.loads(web_page.script_text(values)) == values


def test_without_npm(pretrained, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    config = ExportConfig(
        model=pretrained, output=tmp_path / "page", kind="web"
    )
    with pytest.raises(InputError, match="give --web_packages=node_modules"):
        export(config)


def test_models_that_a_page_cannot_show(make_finetuned, npm_packages, tmp_path):
    source = make_finetuned("ner", max_seq_length=32)
    config = ExportConfig(model=source, output=tmp_path / "page", kind="web")
    with pytest.raises(InputError, match="does not support an AlbertForToken"):
        export(config)
