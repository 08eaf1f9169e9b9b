"""Web pages in Chromium: what they show, and what they ask for."""

import functools
import json
import os
import shutil
import time

import numpy as np
import pytest
from browser import serving, started

import albert_tf
from albert_tf.errors import InputError
from albert_tf.exporting import web_page
from albert_tf.exporting.check import check_files
from albert_tf.exporting.config import ExportConfig
from albert_tf.exporting.export import export
from albert_tf.exporting.huggingface_layout import INPUT_NAMES
from albert_tf.exporting.manifest import read_export
from albert_tf.finetuning.batches import prediction_batches
from albert_tf.finetuning.predictor import Predictor
from albert_tf.finetuning.text_classification.model import AlbertClassifier
from albert_tf.pipelines.sentence_embedder import SentenceEmbedder
from albert_tf.text.tokenizer_files import load_tokenizer

onnxruntime = pytest.importorskip(
    "onnxruntime", reason="onnxruntime is not installed"
)
pytest.importorskip("tf2onnx", reason="tf2onnx is not installed")
QUANTIZED = "model/onnx/model_quantized.onnx"
# WebAssembly sums in another order.
TOLERANCE = 1e-3
# The lowest contrast of a visible text and its background, by WCAG 2.
CONTRAST = """
const channels = (color) => color.match(/[\\d.]+/g).map(Number);
const luminance = (color) => {
  const [red, green, blue] = color.map((x) => x / 255).map((x) =>
    x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
};
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
let lowest = 21;
while (texts.nextNode()) {
  const { data, parentElement } = texts.currentNode;
  if (!data.trim() || !parentElement.checkVisibility()) continue;
  let behind = parentElement, back;
  while ((back = channels(getComputedStyle(behind).backgroundColor))[3] === 0)
    behind = behind.parentElement;
  const [less, more] = [back, channels(getComputedStyle(parentElement).color)]
    .map(luminance).sort((a, b) => a - b);
  lowest = Math.min(lowest, (more + 0.05) / (less + 0.05));
}
return lowest;
"""


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

    @functools.cache
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
        "const shown = [...document.querySelectorAll('[data-value]')];"
        "return shown.length && shown.map((x) => [(x.querySelector('.name') "
        "?? x.firstChild).textContent, Number(x.dataset.value)])",
    )
    return [tuple(row) for row in rows]


def session_of(folder):
    """Returns a function from texts to the model's outputs and its rows."""
    session = onnxruntime.InferenceSession(folder / QUANTIZED)
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


def prediction(source, folder, given):
    """Returns a task's record and prediction of the page's int8 model."""
    task_type = (predictor := Predictor(source)).task_type
    examples = [predictor.example(given)]
    features = task_type.features(examples, labelled=False)
    session = onnxruntime.InferenceSession(folder / QUANTIZED)
    names = [x.name for x in session.get_outputs()]
    outputs = [{}] * features.num_examples
    # The shortest comes first.
    for [i], batch in prediction_batches(features, batch_size=1):
        rows = {INPUT_NAMES[x]: batch[x].astype("int64") for x in INPUT_NAMES}
        values = [x[0] for x in session.run(names, rows)]
        outputs[i] = dict(zip(names, values, strict=True))
    [predicted] = task_type.predictions(examples, features, outputs)
    return task_type.record(*examples, predicted), predicted


def softmax(values):
    powers = np.exp(values - np.max(values))
    return powers / powers.sum()


@pytest.mark.peer
def test_packaged_model(browser, make_page):
    """Masked words and similar sentences, opened again without the server."""
    folder = make_page("albert_tiny_en")
    run, tokenizer = session_of(folder)
    with serving(folder.parent) as address:
        opened(browser, f"{address}{folder.name}/")
        requests = browser.requests()
        wait(browser, "return navigator.serviceWorker.ready.then(() => true)")
    assert len(requests) >= 7
    assert all(x.startswith((address, "data:")) for x in requests), requests
    for name in ("", "index.html?again"):
        opened(browser, f"{address}{folder.name}/{name}")
    browser.requests()
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


@pytest.mark.peer
def test_pooling_of_sentence_transformers(browser, make_page, tmp_path):
    SentenceEmbedder(pooling="cls").save_pretrained(tmp_path / "cls")
    folder = make_page(tmp_path / "cls")
    texts = ["It rained all day.", "The weather was bad."]
    with serving(folder.parent) as address:
        opened(browser, f"{address}{folder.name}/")
        ((_, found),) = results(browser, *texts)
    run, _ = session_of(folder)
    vectors = [run(x)[0]["last_hidden_state"][0, 0] for x in texts]
    first, second = (x / np.linalg.norm(x) for x in vectors)
    assert found == pytest.approx(first @ second, abs=TOLERANCE)


@pytest.mark.peer
def test_another_export_replaces_what_is_kept(
    browser, make_page, pretrained, tmp_path
):
    """The page of the first is shown once more, and then that of the second."""
    folder = tmp_path / "page"
    title = "return document.getElementById('about').textContent"
    caches = "return caches.keys().then((names) => names.join())"
    shutil.copytree(make_page(pretrained), folder)
    with serving(tmp_path) as address:
        opened(browser, f"{address}page/")
        wait(browser, "return navigator.serviceWorker.ready.then(() => true)")
        first, kept = browser.run(title), browser.run(caches)
        for name in ("index.html", "worker.js"):
            text = (folder / name).read_text("utf-8")
            text = text.replace(
                f'"name": "{pretrained.name}', '"name": "second'
            )
            text = text.replace('PREFIX + "', 'PREFIX + "second')
            (folder / name).write_text(text, "utf-8")
            # Servers tell changes by the second.
            later = (folder / name).stat().st_mtime + 10
            os.utime(folder / name, (later, later))
        opened(browser, f"{address}page/")
        assert browser.run(title) == first
        wait(browser, f"{caches}.then((x) => !x.includes('{kept}'))")
        opened(browser, f"{address}page/")
        assert browser.run(title).startswith("second")
        assert browser.run(caches).count(f"{address}page/") == 1


@pytest.mark.peer
def test_on_a_phone(browser, make_page):
    """Over plain http, where no page is kept: readable, without scrolling."""
    page = make_page("albert_tiny_en")
    browser.emulate("light", 360, 740)
    with serving(page) as address:
        opened(browser, address.replace("127.0.0.1", "plain.test"))
    assert browser.run("return navigator.serviceWorker === undefined")
    browser.run("document.querySelector('details').open = true")
    backs = []
    for text, error in (("A [MASK]" + "!" * 60, ""), (" ", "Write something.")):
        browser.type("label textarea", text)
        wait(browser, "return !document.querySelector('[aria-busy]')")
        found = browser.run("return document.getElementById('error').innerText")
        assert found == error
        for scheme in ("light", "dark"):
            browser.emulate(scheme, 360, 740)
            width = "return document.documentElement.scrollWidth"
            assert browser.run(width) <= 360
            assert browser.run(CONTRAST) >= 4.5, (scheme, text)
            style = "return getComputedStyle(document.body).backgroundColor"
            backs.append(browser.run(style))
    assert backs == ["rgb(244, 245, 248)", "rgb(20, 22, 27)"] * 2


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
@pytest.mark.parametrize("pair", ["The plot was seen. " * 4, " "])
def test_labels_of_pairs(browser, make_page, make_finetuned, pair):
    """The longer text is cut, and no text has no [SEP]."""
    source = make_finetuned("mrpc", max_seq_length=20)
    folder = make_page(source)
    text = "A good movie"
    record, _ = prediction(source, folder, {"text": text, "pair": pair})
    with serving(folder) as address:
        opened(browser, address)
        found = dict(results(browser, text, pair))
    assert found == pytest.approx(record["probabilities"], abs=TOLERANCE)


@pytest.mark.peer
def test_labels_that_do_not_exclude_each_other(
    browser, make_page, config, tokenizer, tmp_path
):
    model = AlbertClassifier(config, num_labels=3, labels=["a", "b", "c"])
    model.multi_label = True
    model.save_pretrained(tmp_path / "several", tokenizer)
    folder = make_page(tmp_path / "several")
    run, _ = session_of(folder)
    with serving(folder) as address:
        opened(browser, address)
        found = results(browser, "A good movie")
    [logits] = run("A good movie")[0]["logits"]
    probabilities = 1 / (1 + np.exp(-logits))
    expected = dict(zip("abc", probabilities.tolist(), strict=True))
    assert dict(found) == pytest.approx(expected, abs=TOLERANCE)


@pytest.mark.peer
def test_labels_of_words(browser, make_page, make_finetuned):
    """A text longer than a sequence, and a word longer than one."""
    source = make_finetuned("ner", max_seq_length=12)
    folder = make_page(source)
    text = "A good movie was seen.\nWas it?  " + "long" * 20 + " I have"
    record, predicted = prediction(source, folder, {"text": text})
    with serving(folder) as address:
        opened(browser, address)
        found = results(browser, text)
        labels = browser.run(
            "return [...document.querySelectorAll('[data-label]')]"
            ".map((word) => word.dataset.label)"
        )
    assert [word for word, _ in found] == record["words"]
    assert labels == record["labels"]
    np.testing.assert_allclose(
        [value for _, value in found],
        predicted.max(axis=-1),
        rtol=0,
        atol=TOLERANCE,
    )


@pytest.mark.peer
def test_answers(browser, make_page, make_finetuned):
    source = make_finetuned("squad1.1", max_seq_length=40, max_query_length=12)
    folder = make_page(source)
    given = {"question": "The plot", "context": "A good movie was seen."}
    expected, _ = prediction(source, folder, given)
    with serving(folder) as address:
        opened(browser, address)
        found = results(browser, *given.values())
        marked = browser.run("return document.querySelector('mark').innerText")
        passage = browser.run(
            "return document.querySelector('.passage').textContent"
        )
    assert passage == given["context"]
    assert marked == expected["answer"]
    best = {x["text"]: x["probability"] for x in expected["best"]}
    for name, value in found:
        assert value == pytest.approx(best[name], abs=TOLERANCE)


@pytest.mark.peer
@pytest.mark.parametrize("question", ["What was good?", "A ＿ was seen"])
def test_options(browser, make_page, make_finetuned, question):
    """With a blank and without; the passage and an option are cut."""
    source = make_finetuned("race", max_seq_length=24, max_qa_length=12)
    folder = make_page(source)
    options = ["a movie", "the plot", "nothing that was there to see at all"]
    given = {"context": "A good movie was seen. " * 4, "question": question}
    given["options"] = options
    record, _ = prediction(source, folder, given)
    with serving(folder) as address:
        opened(browser, address)
        texts = given["context"], question, "\n".join(options)
        found = results(browser, *texts)
        browser.type("label:nth-of-type(3) textarea", "one")
        wait(browser, "return !document.querySelector('[aria-busy]')")
        error = browser.run("return document.getElementById('error').innerText")
    assert found[0][0] == record["option"]
    expected = dict(zip(options, record["probabilities"], strict=True))
    assert dict(found) == pytest.approx(expected, abs=TOLERANCE)
    assert error == "Write two or more options, one per line."


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
    assert "://" not in page
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


def test_what_is_wrong_is_found_before_anything_is_fetched(
    pretrained, tmp_path, monkeypatch
):
    monkeypatch.setattr(
        "albert_tf.exporting.export.page_scripts",
        lambda _: pytest.fail("fetched"),
    )
    embed = albert_tf.SentenceEmbedder(pretrained, pooling="weighted_mean")
    embed.save_pretrained(tmp_path / "weighted")
    (tmp_path / "old").mkdir()
    for model, output, problem in (
        (
            tmp_path / "weighted",
            "new",
            "weighs tokens .WordWeights., which pag",
        ),
        (pretrained, "old", "old exists"),
    ):
        config = ExportConfig(kind="web", model=model, output=tmp_path / output)
        with pytest.raises(InputError, match=problem):
            export(config)


def test_models_that_a_page_cannot_show(make_finetuned, npm_packages, tmp_path):
    source = make_finetuned("squad2.0", max_seq_length=32, max_query_length=8)
    packages = npm_packages / "node_modules"
    config = ExportConfig(
        model=source, output=tmp_path, kind="web", web_packages=packages
    )
    with pytest.raises(InputError, match="joint_span_head, which kind=web"):
        export(config)
