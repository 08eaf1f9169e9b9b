"""Pages of the documentation site show no markup.

The build checks every page with `find_raw_markup`, see docs/conf.py.
"""

import importlib.util
import pathlib

import pytest

_PATH = pathlib.Path(__file__).parents[1] / "docs" / "raw_markup.py"
_SPEC = importlib.util.spec_from_file_location("raw_markup", _PATH)
raw_markup = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(raw_markup)


@pytest.mark.parametrize(
    "page",
    [
        "<p>| layer | L2 |\n| ----- | ---: |\n| 1     | 9.33 |</p>",
        "<p>See [Memory](memory.md).</p>",
        "<p>the `batch`</p>",
        "<p>is <em>not</em> **faster**</p>",
        "<p>* one</p>",
        "<div>## Tables</div>",
        "<p>For example::</p>",
        "<p>Example</p><p>predictor = Predictor()</p>",
        "<p>see :class:`AlbertEncoder`</p>",
        "<p>.. note:</p>",
    ],
)
def test_markup_is_found(page):
    assert raw_markup.find_raw_markup(f"<h1>Title</h1>{page}")


@pytest.mark.parametrize(
    "page",
    [
        "<table><tr><td>1</td><td>9.33</td></tr></table>",
        "<pre>| a |\n| --- |</pre><p>a <code>`b` **c**</code> d</p>",
        "<p>a * b, **kwargs and a | b, 1 - 2, C# (x) [y]</p>",
        "<p>Example</p><pre>predictor = Predictor()</pre>",
        "<p>For example:</p><pre>x</pre>",
    ],
)
def test_text_and_code_are_no_markup(page):
    assert raw_markup.find_raw_markup(f"<h1>Title</h1>{page}") == []
