"""Configuration of the documentation site, built by `make docs` with Sphinx.

The pages are the Markdown files in this folder, as shown by a code host. The
build adds what only the site needs: the navigation, from the lists in index.md;
the notebooks; and the addresses of files that are not pages.
"""

import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys

from docutils import nodes
from sphinx.util import logging
from sphinx.util.inspect import signature as inspect_signature
from sphinx.util.inspect import stringify_signature

import albert_tf
from albert_tf.quiet_import import import_tensorflow
from albert_tf.settings import settings_of

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from raw_markup import find_raw_markup  # noqa: E402

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
import_tensorflow()

DOCS = pathlib.Path(__file__).resolve().parent
URLS = dict(
    re.findall(
        r'^(Repository|Issues) = "(.*)"$',
        (DOCS.parent / "pyproject.toml").read_text("utf-8"),
        re.MULTILINE,
    )
)


def _git(*arguments):
    """Returns the output lines of a git command, or [] if it fails."""
    try:
        result = subprocess.run(
            ["git", *arguments], cwd=DOCS, capture_output=True, text=True
        )
    except FileNotFoundError:
        return []
    return result.stdout.splitlines() if result.returncode == 0 else []


# The site of a tag v1.2.3 is in the folder v1.2.3, next to `main`.
_tag = _git("describe", "--tags", "--exact-match", "--match=v[0-9]*")
reference = _tag[0] if _tag else "main"

project = "albert_tf"
author = copyright = "the albert_tf authors"
release = version = albert_tf.__version__
if reference not in ("main", f"v{release}"):
    raise SystemExit(f"tag {reference} is on version {release}: retag it")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
]
exclude_patterns = ["templates", "static"]
templates_path = ["templates"]
# Blocks without a language are output of programs.
highlight_language = "none"
# Keeps quotes and double hyphens of flags and code.
smartquotes = False
# Docstrings use Markdown's `code`.
default_role = "literal"

myst_heading_anchors = 3
nb_execution_mode = "off"
nb_merge_streams = True
# The default leaves tables of `Markdown(...)` as they are.
nb_render_markdown_format = "myst"

autoclass_content = "both"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_inherit_docstrings = False
# Shows members inherited from our base classes, not from Python's and Keras's.
autodoc_default_options = {
    "members": True,
    "inherited-members": "Model,Layer,BaseException,dict,object",
    # Used by other modules and by Keras only.
    "exclude-members": "from_checkpoint,load_assets,save_assets,unknown_key",
}
toc_object_entries_show_parents = "hide"
napoleon_use_ivar = True
napoleon_use_rtype = False
napoleon_preprocess_types = False
python_maximum_signature_line_length = 80

html_theme = "furo"
html_title = f"albert_tf {release}"
html_theme_options = {
    "source_repository": URLS["Repository"],
    "source_branch": reference,
    "source_directory": "docs/",
}
html_copy_source = False
html_favicon = "images/icon.svg"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "versions.html",
        "sidebar/scroll-end.html",
    ]
}
html_context = {
    "reference": reference,
    # Older tags have no pages.
    "references": [
        "main",
        *(
            tag
            for tag in _git("tag", "--list", "v[0-9]*", "--sort=-v:refname")
            if _git("ls-tree", "--name-only", tag, "conf.py")
        ),
    ],
}


def copy_notebooks(app, config):
    """Copies the notebooks, with their stored outputs, to the pages."""
    folder = DOCS / "notebooks"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for notebook in (DOCS.parent / "notebooks").glob("*.ipynb"):
        shutil.copy(notebook, folder)


def add_navigation(text):
    """Adds a toctree for each list of links in index.md."""
    sections = re.split(r"^## (.*)\n", text, flags=re.MULTILINE)
    trees = []
    for caption, body in zip(sections[1::2], sections[2::2], strict=True):
        links = re.findall(r"^- \[.*?\]\((.*?)\)", body, re.MULTILINE)
        pages = [link.removeprefix("../").partition(".")[0] for link in links]
        if caption == "Notebooks":  # also those that are not listed
            found = (DOCS / "notebooks").glob("*.ipynb")
            pages += sorted({f"notebooks/{x.stem}" for x in found} - {*pages})
        trees += ["```{toctree}", ":hidden:", f":caption: {caption}", ""]
        trees += [*pages, "```", ""]
    return "\n".join([text, *trees])


def prepare_source(app, docname, source):
    """Rewrites links that leave docs/ to notebooks or the code host."""
    inside, home = r"\]\(\.\./", "](../"
    if docname.startswith("notebooks/"):
        text = re.sub(inside + "docs/", lambda _: home, source[0])
        # Names, as a notebook does not know where Colab opens it.
        text = re.sub(r"`docs/(\w+\.md)`", r"[\1](../\1)", text)
        names = "|".join(x.stem for x in (DOCS / "notebooks").glob("*.ipynb"))
        source[0] = re.sub(rf"\*({names})\*", r"[\1](\1.ipynb)", text)
        return
    if docname == "index":
        source[0] = add_navigation(source[0])
    address = f"]({URLS['Repository']}/blob/{reference}/"
    text = source[0].replace("](../notebooks/", "](notebooks/")
    text = re.sub(inside, lambda _: address, text)
    source[0] = re.sub(r"^\|.*$", keep_figures, text, flags=re.MULTILINE)


def keep_figures(row):
    """Prevents line breaks in `0.5 ± 0.1 %`, `E = 64`, `1.2-1.4` and `9e-7`."""
    row = row[0]
    if row.count("|") < 11:  # Wider tables need every possible break.
        parts = "(?<=[0-9]) (?=[±%M]|ms)|(?<=±) |(?<=[EH]) (?==)|(?<=[EH] =) "
        row = re.sub(parts, "\u00a0", row)
    return re.sub("(?<=[0-9])-(?=[0-9])|(?<=[0-9]e)-(?=[0-9])", "-\u2060", row)


def mark_wide(app, doctree):
    """Lets long code break across lines, and links images to their files."""
    for node in doctree.findall(nodes.literal):
        if any(len(word) > 36 for word in node.astext().split()):
            node["classes"].append("long")
    for node in doctree.findall(nodes.image):
        if "://" not in node["uri"]:
            node["width"] = "100%"  # Sphinx links images with a width.


def signature_of(app, what, name, obj, options, signature, returns):
    """Returns the signature of Keras classes."""
    if what == "class" and signature == "(*args, **kwargs)":
        found = inspect_signature(obj.__init__, bound_method=True)
    elif signature and "<factory>" in signature:
        return signature.replace("<factory>", "..."), returns
    else:
        return None
    return stringify_signature(
        found, show_return_annotation=False, unqualified_typehints=True
    ), None


def complete_docstring(app, what, name, obj, options, lines):
    """Marks examples as code, and documents settings as parameters."""
    for number, line in enumerate(lines[:-2]):
        following = lines[number + 2]
        if line.endswith(":") and not lines[number + 1] and following:
            indentation = len(line) - len(line.lstrip())
            if following[: indentation + 4].isspace():
                lines[number] += ":"
    if what == "class" and dataclasses.is_dataclass(obj):
        settings = {s.name: s.description.help for s in settings_of(obj)}
        if settings and not any(line.startswith(":ivar ") for line in lines):
            lines += ["", *(f":ivar {n}: {h}" for n, h in settings.items()), ""]
        lines[:] = [re.sub("^:ivar ", ":param ", line) for line in lines]


def is_foreign(app, what, name, obj, skip, options):
    """Skips members that Keras defines or documents, such as `compile`."""
    function = getattr(obj, "fget", None) or obj
    module = getattr(function, "__module__", None) or ""
    owner, _, method = getattr(function, "__qualname__", "").rpartition(".")
    owner = getattr(sys.modules.get(module), owner, object)
    keras = [x for x in owner.__mro__ if x.__module__.startswith("keras.")]
    if module.startswith(("keras.", "tensorflow.")):
        return True
    return True if any(hasattr(x, method) for x in keras) else None


def link_notebook(app, page, template, context, doctree):
    """Links a notebook's page to its source, which is not in docs/."""
    if page.startswith("notebooks/"):
        context["theme_source_directory"] = ""


def check_page(app, page, template, context, doctree):
    """Warns of markup that the page shows as it is."""
    for raw in find_raw_markup(context.get("body", "")):
        logging.getLogger(__name__).warning(
            "the page shows markup: %s", raw, location=page
        )


def setup(app):
    """Connects the functions above to Sphinx's events."""
    app.connect("config-inited", copy_notebooks)
    app.connect("source-read", prepare_source)
    app.connect("doctree-read", mark_wide)
    # Before and after napoleon, which has priority 500.
    app.connect("autodoc-process-docstring", complete_docstring, priority=600)
    app.connect("autodoc-process-signature", signature_of)
    app.connect("autodoc-skip-member", is_foreign)
    app.connect("html-page-context", link_notebook)
    app.connect("html-page-context", check_page)
