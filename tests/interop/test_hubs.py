"""Names on hubs, with the hubs' libraries and caches but without a network."""

import hashlib
import importlib
import os
import pathlib
import re
import socket
import sys
import types

import pytest

from albert_tf.errors import InputError
from albert_tf.exporting import hub as hub_of_ours
from albert_tf.exporting.check import check_export
from albert_tf.exporting.config import ExportConfig
from albert_tf.exporting.export import export
from albert_tf.exporting.hub_layer import HubLayer
from albert_tf.finetuning.predictor import Predictor
from albert_tf.interop import hugging_face_hub, kaggle_hub
from albert_tf.interop.convert import convert
from albert_tf.interop.convert_config import ConvertConfig
from albert_tf.interop.hubs import resolve
from albert_tf.interop.open_checkpoint import load_tokenizer
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.text.preprocessor_layer import AlbertPreprocessor
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OLDER = "89abcdef0123456789abcdef0123456789abcdef"
REPO = "albert/albert-base-v2"
CHECKPOINT = ["config.json", "model.safetensors", "spiece.model"]
TF_HUB = "https://tfhub.dev/google/albert_base/3"
HANDLE = "keras/albert/keras/albert_base_en_uncased"


@pytest.fixture(autouse=True)
def log(monkeypatch):
    """The logged warnings."""
    lines = []
    for module in (hugging_face_hub, kaggle_hub):
        monkeypatch.setattr(
            module._logger,
            "warning",
            lambda text, *args: lines.append(text % args),
        )
    return lines


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Hugging Face's library and a fake hub whose files are `hub.files`."""
    library = pytest.importorskip("huggingface_hub")
    hub = types.SimpleNamespace(files=None, error=None, fetched=[])
    cache = tmp_path / "hf"
    constants = importlib.import_module("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))

    def model_info(self, repo, **_):
        if hub.error:
            raise hub.error
        if hub.files is None:
            raise OSError("[Errno 111] Connection refused")
        siblings = [types.SimpleNamespace(rfilename=f) for f in hub.files]
        return types.SimpleNamespace(siblings=siblings)

    def snapshot_download(repo, revision, allow_patterns):
        hub.fetched = sorted(allow_patterns)
        return hub.lay(repo, allow_patterns)

    def lay(repo, files, commit=COMMIT, ref="main"):
        """Creates a snapshot in the library's layout; returns its folder."""
        folder = cache / f"models--{repo.replace('/', '--')}"
        for name in files:
            blob = folder / "blobs" / hashlib.sha1(name.encode()).hexdigest()
            blob.parent.mkdir(parents=True, exist_ok=True)
            blob.write_text(name)
            link = folder / "snapshots" / commit / name
            link.parent.mkdir(parents=True, exist_ok=True)
            if not link.is_symlink():
                link.symlink_to(os.path.relpath(blob, link.parent))
        (folder / "refs").mkdir(exist_ok=True)
        (folder / "refs" / ref).write_text(commit)
        return str(folder / "snapshots" / commit)

    monkeypatch.setattr(library.HfApi, "model_info", model_info)
    monkeypatch.setattr(library, "snapshot_download", snapshot_download)
    hub.lay = lay
    hub.errors = importlib.import_module("huggingface_hub.errors")
    return hub


@pytest.fixture
def kaggle(tmp_path, monkeypatch):
    """kagglehub's cache; downloads raise `kaggle.error`."""
    library = pytest.importorskip("kagglehub")
    monkeypatch.setenv("KAGGLEHUB_CACHE", str(tmp_path / "kaggle"))
    monkeypatch.setattr(kaggle_hub, "_check_kaggle_reachable", lambda url: None)
    kaggle = types.SimpleNamespace(error=TimeoutError("timed out"))

    def download(handle):
        raise kaggle.error

    def lay(version, complete=True):
        folder = tmp_path / "kaggle/models" / HANDLE / str(version)
        folder.mkdir(parents=True)
        if complete:
            (folder.parent / f"{version}.complete").touch()
        return str(folder)

    monkeypatch.setattr(library, "model_download", download)
    kaggle.lay = lay
    return kaggle


def test_a_local_path_takes_precedence(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pathlib.Path(REPO).mkdir(parents=True)
    pathlib.Path("albert/model.ckpt-best.index").touch()
    for name in (REPO, "albert/model.ckpt-best"):
        assert resolve(name) == name
        with pytest.raises(InputError, match="is a local path; leave it out"):
            resolve(pathlib.Path(name), revision="main")


def test_packaged_models(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("albert_tiny_en", pathlib.Path("albert_tiny_en")):
        folder = pathlib.Path(resolve(name))
        assert folder.is_absolute()
        assert (folder / "config.json").is_file()
    with pytest.raises(InputError, match="part of albert_tf; leave it out"):
        resolve("albert_tiny_en", revision="main")
    pathlib.Path("albert_tiny_en").mkdir()
    assert resolve("albert_tiny_en") == "albert_tiny_en"


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("", "no such file or folder"),
        ("weights", 'needs no download is "albert_tiny_en"; a name on a hub'),
        ("albert_tiny", 'did you mean "albert_tiny_en"?'),
        ("Albert-Tiny-EN", 'did you mean "albert_tiny_en"?'),
        *(
            (name, "no such file or folder")
            for name in (
                *("no/such/folder", "runs/model.safetensors"),
                *("runs/model.ckpt-best", "owner/two--dashes", "owner/repo@v1"),
                *("hf://owner", "hf://owner/repo/more"),
            )
        ),
        (f"owner/{'x' * 96}", "kaggle://owner/model/framework/variation"),
        ("kaggle://keras/albert", "kaggle://owner/model/framework"),
        (f"kaggle://{HANDLE}/newest", "kaggle://owner/model/framework"),
        ("hf://owner/repo@", "revision must follow"),
        ("https://www.kaggle.com/models/google/albert", "one variation"),
        ("https://huggingface.co/datasets/nyu-mll/glue", "owner/repo"),
        ("https://huggingface.co/a/b/resolve/main/x.bin", "owner/repo"),
        (
            TF_HUB,
            'moved to Kaggle; give.* "albert/albert-base-v2".*kaggle://owner',
        ),
        ("albert_base_v2", 'did you mean "albert/albert-base-v2"?'),
        ("albert_xxlarge_v1.tar.gz", '"albert/albert-xxlarge-v1"?'),
        (
            "albert_extra_large_en_uncased",
            '"kaggle://keras/albert/keras/albert_extra_large_en_uncased"?',
        ),
        ("google/albert_large/1", '"albert/albert-large-v1"?'),
        ("tensorflow/albert_en_base/1", '"albert/albert-base-v2"?'),
        ("https://tfhub.dev/google/albert_large/1", '"albert/albert-large-v1"'),
        (
            "https://tfhub.dev/tensorflow/albert_en_preprocess/3",
            'such as "albert/albert-base-v2"',
        ),
        ("https://example.com/albert.tar.gz", "cannot download"),
        ("gs://bucket/albert", "cannot download"),
    ],
)
def test_invalid_names_and_addresses(name, match):
    with pytest.raises(InputError) as error:
        resolve(name)
    assert re.search(match.replace("?", r"\?"), str(error.value))
    assert name in str(error.value)
    assert str(error.value).count("did you mean") == match.count("?")


@pytest.mark.parametrize(
    ("takes_a_path", "instead"),
    [
        (AlbertEncoder.from_pretrained, '"albert/albert-base-v2"'),
        (load_tokenizer, '"albert/albert-base-v2"'),
        (
            lambda url: convert(ConvertConfig(input=url, output="c")),
            '"albert/albert-base-v2"',
        ),
        (AlbertTokenizer.from_file, "load_tokenizer"),
        (AlbertPreprocessor, "load_tokenizer"),
        (
            lambda url: export(ExportConfig(model=url, output="e")),
            '"albert/albert-base-v2"',
        ),
        (
            lambda url: export(
                ExportConfig(model=url, output="e", kind="task")
            ),
            "finished `albert finetune`",
        ),
        (check_export, "finished `albert export`"),
        (Predictor, "finished `albert finetune`"),
        (HubLayer, "--kind=encoder`, or --kind=preprocessor"),
        (hub_of_ours.KerasLayer, "--kind=encoder`, or --kind=preprocessor"),
    ],
)
def test_addresses_from_publications_are_explained(
    takes_a_path, instead, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=re.escape(instead)) as error:
        takes_a_path(TF_HUB)
    assert f"{TF_HUB}: tfhub.dev has moved to Kaggle; give" in str(error.value)
    assert not os.listdir(tmp_path)


def test_other_web_addresses():
    with pytest.raises(InputError, match="web addresses are not downloaded"):
        HubLayer("https://example.com/albert")


def test_conflicting_revisions():
    with pytest.raises(InputError, match="differ; give only one"):
        resolve("hf://owner/repo@v1", revision="v2")
    with pytest.raises(InputError, match="fifth part"):
        resolve(f"kaggle://{HANDLE}", revision="v2")


@pytest.mark.parametrize("name", [REPO, f"kaggle://{HANDLE}"])
def test_a_missing_library_is_an_input_error(name, monkeypatch):
    for library in ("huggingface_hub", "kagglehub"):
        monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(
        InputError, match=r"pip install .*(huggingface_|kaggle)hub"
    ):
        resolve(name)


@pytest.mark.parametrize(
    "name",
    [
        REPO,
        "albert-base-v2",
        f"hf://{REPO}",
        f"hf://{REPO}@main",
        f"https://huggingface.co/{REPO}",
        "https://huggingface.co/albert-base-v2?library=transformers",
        f"https://huggingface.co/{REPO}/tree/main",
    ],
)
def test_every_form_of_a_name_finds_the_cached_snapshot(hub, log, name):
    folder = hub.lay(REPO, CHECKPOINT)
    assert resolve(name) == folder
    assert "the hub cannot be reached (Connection refused)" in log[0]


def test_revisions_in_the_cache(hub, log):
    new = hub.lay(REPO, CHECKPOINT)
    old = hub.lay(REPO, CHECKPOINT, OLDER, ref="v1")
    assert resolve(REPO) == new
    assert resolve(REPO, revision="v1") == old
    log.clear()
    assert resolve(f"hf://{REPO}@{OLDER}") == old
    assert not log  # a commit never changes: the hub is not asked
    with pytest.raises(InputError, match="at revision v2 is neither a local"):
        resolve(REPO, revision="v2")


def test_a_commit_without_the_files_of_its_modules_is_completed(hub):
    modules = [*CHECKPOINT, "modules.json", "2_Pooling/config.json"]
    hub.lay(REPO, modules[:-1])
    hub.files = modules
    resolve(REPO, revision=COMMIT)
    assert hub.fetched == sorted(modules)


def test_a_commit_without_a_vocabulary_is_completed(hub, log):
    """Another library may have cached the weights only."""
    folder = hub.lay(REPO, CHECKPOINT[:-1])
    hub.files = CHECKPOINT
    assert resolve(REPO, revision=COMMIT) == folder
    assert hub.fetched == CHECKPOINT
    hub.files = None
    assert resolve(REPO, revision=COMMIT) == folder
    assert not log


SHARDS = ["model.safetensors.index.json"] + [
    f"model-0000{i}-of-00002.safetensors" for i in (1, 2)
]
TORCH_SHARDS = [
    "pytorch_model.bin.index.json",
    "pytorch_model-00001-of-00001.bin",
]


@pytest.mark.parametrize(
    ("files", "match"),
    [
        ([], "nor in the Hugging Face cache, and the hub cannot be reached"),
        (["config.json", "tf_model.h5"], "cache lacks weights"),
        (["model.safetensors", "spiece.model"], "cache lacks config.json"),
        (
            ["config.json", *SHARDS[:2]],
            f"lacks some of the files of {SHARDS[0]}",
        ),
    ],
)
def test_an_incomplete_snapshot(hub, files, match):
    if files:
        hub.lay(REPO, files)
    with pytest.raises(InputError, match=match):
        resolve(REPO)


def test_a_broken_link_is_a_missing_file(hub):
    folder = hub.lay(REPO, CHECKPOINT)
    pathlib.Path(folder, "model.safetensors").resolve().unlink()
    with pytest.raises(InputError, match="lacks weights"):
        resolve(REPO)


@pytest.mark.parametrize(
    ("weights", "ignored"),
    [
        (["model.safetensors"], ["pytorch_model.bin"]),
        (["pytorch_model.bin"], ["model.fp16.safetensors"]),
        (SHARDS, TORCH_SHARDS),
        (TORCH_SHARDS, ["model.weights.h5"]),
        (["model.weights.h5", "task.weights.h5"], ["tf_model.h5"]),
    ],
)
def test_only_needed_files_are_downloaded(hub, weights, ignored):
    wanted = [
        *weights,
        "assets/tokenizer/vocabulary.spm",
        "1_WordWeights/config.json",
        "1_WordWeights/model.safetensors",
        "2_Pooling/config.json",
        "config.json",
        "modules.json",
        "objective.safetensors",
        "spiece.model",
        "tokenizer.json",
        "tokenizer_config.json",
        "vocab.txt",
    ]
    others = ["README.md", "onnx/config.json", "step-5/model.safetensors"]
    hub.files = [*wanted, *ignored, *others]
    folder = resolve("owner/albert")
    assert hub.fetched == sorted(wanted)
    hub.files = None
    assert resolve("owner/albert") == folder


def test_a_repository_without_supported_weights(hub):
    hub.files = ["config.json", "tf_model.h5"]
    with pytest.raises(
        InputError, match="lacks weights .*; it has config.json, tf_model.h5$"
    ):
        resolve("owner/albert")
    assert not hub.fetched


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("GatedRepoError", "access must be requested"),
        ("RepositoryNotFoundError", "no such repository, or it is private"),
        ("HfHubHTTPError", "the hub responded with an error"),
        ("OfflineModeIsEnabled", "HF_HUB_OFFLINE is set; unset it"),
        ("RevisionNotFoundError", "has no revision 'main'"),
    ],
)
def test_errors_of_the_hub_fall_back_to_the_cache(hub, log, name, match):
    kind = getattr(hub.errors, name)
    hub.error = kind.__new__(kind)
    with pytest.raises(InputError, match=match):
        resolve(REPO)
    folder = hub.lay(REPO, CHECKPOINT)
    if name == "RevisionNotFoundError":
        return
    assert resolve(REPO) == folder
    # With HF_HUB_OFFLINE, the user has asked for the cache.
    assert bool(log) == (name != "OfflineModeIsEnabled")


@pytest.mark.parametrize(
    "name",
    [
        f"kaggle://{HANDLE}",
        f"https://www.kaggle.com/models/{HANDLE}",
        "https://kaggle.com/models/keras/albert/frameworks/keras/"
        "variations/albert_base_en_uncased?tfhub-redirect=true",
    ],
)
def test_the_newest_complete_version_of_the_cache(kaggle, log, name):
    kaggle.lay(2)
    newest = kaggle.lay(10)
    kaggle.lay(11, complete=False)
    assert resolve(name) == newest
    assert "Kaggle cannot be reached (timed out)" in log[0]


@pytest.mark.parametrize(
    "form", ["kaggle://{}/2", "https://www.kaggle.com/models/{}/versions/2"]
)
def test_a_named_version_needs_no_network(kaggle, log, form):
    folder = kaggle.lay(2)
    kaggle.lay(4, complete=False)
    assert resolve(form.format(HANDLE)) == folder
    assert not log
    with pytest.raises(InputError, match="not in the cache of kagglehub"):
        resolve(f"kaggle://{HANDLE}/4")


@pytest.mark.parametrize(
    ("status", "match"),
    [
        (401, "Kaggle requires a login"),
        (403, "Kaggle requires a login"),
        (404, "Kaggle has no such model, variation or version"),
        (500, "Kaggle responded with an error"),
    ],
)
def test_errors_of_kaggle_fall_back_to_the_cache(kaggle, log, status, match):
    import requests

    response = requests.Response()
    response.status_code = status
    kaggle.error = requests.HTTPError("refused", response=response)
    with pytest.raises(InputError, match=match):
        resolve(f"kaggle://{HANDLE}")
    folder = kaggle.lay(1)
    assert resolve(f"kaggle://{HANDLE}") == folder
    assert match in log[0]


def test_connections_to_kaggle_have_a_timeout(monkeypatch):
    pytest.importorskip("kagglehub")
    for key in os.environ:
        if key.lower().endswith("_proxy"):
            monkeypatch.delenv(key)

    def time_out(address, timeout):
        assert address == ("kaggle.example", 443)
        raise TimeoutError("timed out")

    monkeypatch.setattr(socket, "create_connection", time_out)
    with pytest.raises(TimeoutError):
        kaggle_hub._check_kaggle_reachable("https://kaggle.example")
    # Connections through a proxy are left to the library.
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    kaggle_hub._check_kaggle_reachable("https://kaggle.example")
