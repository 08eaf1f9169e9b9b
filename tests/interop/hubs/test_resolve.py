"""Names of checkpoints, against the real libraries, their caches and a hub.

Every case runs in a process of its own, because the libraries read their
settings when imported. The hubs are a server of this test or a closed port, so
that a machine with a network sees the same as one without.
"""

import contextlib
import hashlib
import http.server
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time
import urllib.parse

import pytest

from albert_tf.errors import InputError
from albert_tf.interop.hubs.resolve import resolve

_COMMIT = "0123456789abcdef0123456789abcdef01234567"
_OLDER = "89abcdef0123456789abcdef0123456789abcdef"
_CHECKPOINT = {
    "config.json": '{"model_type": "albert"}',
    "model.safetensors": "weights",
    "spiece.model": "pieces",
}
_HANDLE = "keras/albert/keras/albert_base_en_uncased"
_CLOSED = "http://127.0.0.1:9"  # the discard port; nothing listens there
_SCRIPT = """
import json, sys
for library in json.loads(sys.argv[3]):
    sys.modules[library] = None  # as if it were not installed
from albert_tf.errors import InputError
from albert_tf.interop.hubs.resolve import resolve
loaded = {"huggingface_hub", "kagglehub", "tensorflow"} & {
    name for name, module in sys.modules.items() if module
}
assert not loaded, loaded
try:
    answer = {"path": resolve(sys.argv[1], **json.loads(sys.argv[2]))}
except InputError as error:
    answer = {"error": str(error)}
print("\\n" + json.dumps(answer))
"""


@pytest.fixture
def ask(tmp_path):
    """Returns `ask(name, ...)`: the answer of `resolve`, offline by default."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.upper().startswith(("HF_", "HUGGING", "KAGGLE", "TBE_"))
        and not key.lower().endswith("_proxy")
    }
    offline = {
        "HOME": str(tmp_path),  # no tokens
        "HF_HOME": str(tmp_path / "hf"),
        "HF_ENDPOINT": _CLOSED,
        "KAGGLEHUB_CACHE": str(tmp_path / "kaggle"),
        "KAGGLE_API_ENVIRONMENT": "LOCALHOST",
        "HTTP_PROXY": _CLOSED,  # how requests for "localhost" reach a server
        "NO_PROXY": "127.0.0.1",
    }

    def run(name, *, env=None, absent=(), seconds=20, **arguments):
        started = time.monotonic()
        process = subprocess.run(
            [sys.executable, "-c", _SCRIPT, name]
            + [json.dumps(arguments), json.dumps(absent)],
            env=kept | offline | (env or {}),
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert process.returncode == 0, process.stderr
        assert time.monotonic() - started < seconds
        answer = json.loads(process.stdout.splitlines()[-1])
        assert "\n" not in answer.get("error", "")
        return answer | {"log": process.stderr}

    return run


@pytest.fixture
def hub_library():
    return pytest.importorskip(
        "huggingface_hub", reason="huggingface_hub is not installed"
    )


@pytest.fixture
def kaggle_library():
    return pytest.importorskip("kagglehub", reason="kagglehub is not installed")


def _lay_snapshot(root, repo, files, commit=_COMMIT, ref="main"):
    """Lays out a snapshot as huggingface_hub does; returns its folder."""
    folder = root / "hf/hub" / f"models--{repo.replace('/', '--')}"
    snapshot = folder / "snapshots" / commit
    for name in ("blobs", "refs"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        blob = folder / "blobs" / hashlib.sha1(text.encode()).hexdigest()
        blob.write_text(text)
        link = snapshot / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(blob, link.parent))
    if ref:
        (folder / "refs" / ref).write_text(commit)
    return str(snapshot)


def _lay_version(root, version, complete=True):
    """Lays out a version as kagglehub does; returns its folder."""
    folder = root / "kaggle/models" / _HANDLE / str(version)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    if complete:
        (folder.parent / f"{version}.complete").touch()
    return str(folder)


@contextlib.contextmanager
def _serve(answer):
    """Serves `answer(path, body) -> (status, headers, bytes)`."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            size = int(self.headers.get("Content-Length") or 0)
            url = urllib.parse.urlsplit(self.path)
            status, headers, body = answer(url.path, self.rfile.read(size))
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_POST = do_GET

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def _hub(repo, files, fetched):
    """Answers as huggingface.co does for one repository at "main"."""

    def answer(path, body):
        for revision in ("main", _COMMIT):
            if path == f"/api/models/{repo}/revision/{revision}":
                siblings = [{"rfilename": name} for name in files]
                return _json({"id": repo, "sha": _COMMIT, "siblings": siblings})
            if path == f"/api/models/{repo}/tree/{revision}":
                return _json(
                    [
                        {"type": "file", "path": name, "size": len(text)}
                        | {"oid": hashlib.sha1(text.encode()).hexdigest()}
                        for name, text in files.items()
                    ]
                )
            name = path.removeprefix(f"/{repo}/resolve/{revision}/")
            if name in files:
                fetched.add(name)
                data = files[name].encode()
                etag = hashlib.sha1(data).hexdigest()
                return (
                    200,
                    {"ETag": f'"{etag}"', "X-Repo-Commit": _COMMIT},
                    data,
                )
        code = "RevisionNotFound" if repo in path else "RepoNotFound"
        return 404, {"X-Error-Code": code}, b""

    return answer


def _json(value):
    kind = {"Content-Type": "application/json"}
    return 200, kind, json.dumps(value).encode()


class TestLocal:
    def test_existing_path_wins_over_any_name(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        pathlib.Path("albert/albert-base-v2").mkdir(parents=True)
        pathlib.Path("albert-base-v2").touch()
        pathlib.Path("albert/model.ckpt-best.index").touch()
        for name in (
            "albert/albert-base-v2",
            "albert-base-v2",
            "albert/model.ckpt-best",
        ):
            assert resolve(name) == name
            assert resolve(pathlib.Path(name), revision="main") == name

    @pytest.mark.parametrize(
        "name",
        [
            "",
            "weights",
            "no/such/folder",
            "../albert/base",
            "/nowhere/at/all",
            "runs/model.safetensors",
            "runs/albert_base.tar.gz",
            "runs/model.ckpt-best",
            "owner/two--dashes",
            "owner/repo@v1",
            "hf://owner",
            "hf://owner/repo/more",
            "owner /repo",
            f"owner/{'x' * 96}",
        ],
    )
    def test_neither_path_nor_name(self, name):
        with pytest.raises(InputError, match="no such file or folder") as info:
            resolve(name)
        assert repr(name) in str(info.value)
        assert "kaggle://owner/model/framework/variation" in str(info.value)

    @pytest.mark.parametrize(
        ("name", "rule"),
        [
            ("kaggle://keras/albert", "kaggle://owner/model/framework"),
            (f"kaggle://{_HANDLE}/newest", "kaggle://owner/model/framework"),
            ("hf://owner/repo@", "revision must follow"),
            ("https://www.kaggle.com/models/google/albert", "one variation"),
            ("https://huggingface.co/datasets/nyu-mll/glue", "owner/repo"),
            (
                "https://huggingface.co/a/b/resolve/main/model.safetensors",
                "owner/repo",
            ),
            ("https://tfhub.dev/google/albert_base/3", "kaggle://owner"),
            ("https://example.com/albert.tar.gz", "cannot download"),
            ("gs://bucket/albert", "cannot download"),
        ],
    )
    def test_bad_addresses_name_the_form(self, name, rule):
        with pytest.raises(InputError, match=rule) as info:
            resolve(name)
        assert name in str(info.value)

    def test_two_revisions(self):
        with pytest.raises(InputError, match="give one"):
            resolve("hf://owner/repo@v1", revision="v2")
        with pytest.raises(InputError, match="fifth part"):
            resolve(f"kaggle://{_HANDLE}", revision="v2")


class TestLibraryAbsent:
    @pytest.mark.parametrize(
        "name", ["albert/albert-base-v2", f"kaggle://{_HANDLE}"]
    )
    def test_says_what_to_install(self, ask, name):
        answer = ask(name, absent=["huggingface_hub", "kagglehub"])
        assert name in answer["error"]
        assert 'pip install "albert-tf[download]"' in answer["error"]


@pytest.mark.usefixtures("hub_library")
class TestHuggingFaceCache:
    @pytest.mark.parametrize(
        "name",
        [
            "albert/albert-base-v2",
            "albert-base-v2",
            "hf://albert/albert-base-v2",
            "hf://albert/albert-base-v2@main",
            "https://huggingface.co/albert/albert-base-v2",
            "https://huggingface.co/albert-base-v2?library=transformers",
            "https://huggingface.co/albert/albert-base-v2/tree/main",
        ],
    )
    def test_every_form_finds_the_snapshot(self, ask, tmp_path, name):
        folder = _lay_snapshot(tmp_path, "albert/albert-base-v2", _CHECKPOINT)
        assert ask(name)["path"] == folder

    def test_revisions(self, ask, tmp_path):
        repo = "albert/albert-base-v2"
        new = _lay_snapshot(tmp_path, repo, _CHECKPOINT)
        old = _lay_snapshot(tmp_path, repo, _CHECKPOINT, _OLDER, ref="v1")
        assert ask(repo)["path"] == new
        assert ask(repo, revision="v1")["path"] == old
        assert ask(f"hf://{repo}@{_OLDER}")["path"] == old
        error = ask(repo, revision="v2")["error"]
        assert f"{repo} at revision v2 is neither a local path nor" in error

    def test_unreachable_is_told_and_chosen_offline_is_not(self, ask, tmp_path):
        _lay_snapshot(tmp_path, "albert/albert-base-v2", _CHECKPOINT)
        told = ask("albert/albert-base-v2")["log"]
        assert "the hub cannot be reached (Connection refused)" in told
        chosen = ask("albert/albert-base-v2", env={"HF_HUB_OFFLINE": "1"})
        assert "path" in chosen
        assert "HF_HUB_OFFLINE" not in chosen["log"]

    def test_nothing_cached(self, ask):
        error = ask("albert/albert-base-v2")["error"]
        assert error == (
            "albert/albert-base-v2 is neither a local path nor in the Hugging "
            "Face cache, and the hub cannot be reached (Connection refused); "
            "connect, or give a local folder"
        )
        error = ask("albert-base-v2", env={"HF_HUB_OFFLINE": "1"})["error"]
        assert "HF_HUB_OFFLINE is set; unset it" in error

    def test_name_that_does_not_resolve_fails_at_once(self, ask):
        env = {"HF_ENDPOINT": "http://hub.invalid", "HTTP_PROXY": ""}
        error = ask("albert/albert-base-v2", env=env, seconds=10)["error"]
        assert "the hub cannot be reached" in error

    @pytest.mark.parametrize(
        ("files", "lacks"),
        [
            (["config.json", "spiece.model"], "lacks weights"),
            (["model.safetensors", "spiece.model"], "lacks config.json"),
            (
                [
                    "config.json",
                    "model.safetensors.index.json",
                    "model-00001-of-00002.safetensors",
                ],
                "lacks some of the files of model.safetensors.index.json",
            ),
            (["config.json", "tf_model.h5"], "lacks weights"),
        ],
    )
    def test_partial_snapshot(self, ask, tmp_path, files, lacks):
        folder = _lay_snapshot(
            tmp_path, "albert/albert-base-v2", dict.fromkeys(files, "x")
        )
        error = ask("albert/albert-base-v2")["error"]
        assert f"{folder} in the Hugging Face cache {lacks}" in error
        assert "the hub cannot be reached" in error

    def test_link_without_blob_is_not_there(self, ask, tmp_path):
        folder = _lay_snapshot(tmp_path, "albert/albert-base-v2", _CHECKPOINT)
        pathlib.Path(folder, "model.safetensors").resolve().unlink()
        assert "lacks weights" in ask("albert/albert-base-v2")["error"]

    def test_cache_folder_of_the_environment(self, ask, tmp_path):
        folder = _lay_snapshot(tmp_path, "albert/albert-base-v2", _CHECKPOINT)
        (tmp_path / "hf/hub").rename(tmp_path / "elsewhere")
        env = {"HF_HUB_CACHE": str(tmp_path / "elsewhere")}
        path = ask("albert/albert-base-v2", env=env)["path"]
        assert path == folder.replace("hf/hub", "elsewhere")


@pytest.mark.usefixtures("hub_library")
class TestHuggingFaceDownload:
    _OTHERS = (
        "README.md",
        "tf_model.h5",
        "flax_model.msgpack",
        "rust_model.ot",
        "onnx/model.onnx",
        "onnx/config.json",
        "checkpoint-5/model.safetensors",
    )
    _COMPANIONS = (
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "spiece.model",
        "vocab.txt",
    )

    @pytest.mark.parametrize(
        ("weights", "ignored"),
        [
            (["model.safetensors"], ["pytorch_model.bin"]),
            (["pytorch_model.bin"], ["model.fp16.safetensors"]),
            (
                [
                    "model.safetensors.index.json",
                    "model-00001-of-00002.safetensors",
                    "model-00002-of-00002.safetensors",
                ],
                [
                    "pytorch_model.bin.index.json",
                    "pytorch_model-00001-of-00001.bin",
                ],
            ),
            (
                [
                    "pytorch_model.bin.index.json",
                    "pytorch_model-00001-of-00001.bin",
                ],
                ["model.weights.h5"],
            ),
            (
                [
                    "model.weights.h5",
                    "task.weights.h5",
                    "assets/tokenizer/vocabulary.spm",
                ],
                [],
            ),
        ],
    )
    def test_fetches_what_is_needed_and_finds_it_offline(
        self, ask, weights, ignored
    ):
        wanted = {*weights, *self._COMPANIONS}
        files = {
            name: f"text of {name}"
            for name in (*wanted, *ignored, *self._OTHERS)
        }
        fetched = set()
        with _serve(_hub("owner/albert", files, fetched)) as address:
            answer = ask("owner/albert", env={"HF_ENDPOINT": address})
        folder = pathlib.Path(answer["path"])
        assert fetched == wanted
        assert {
            path.relative_to(folder).as_posix(): path.read_text()
            for path in folder.rglob("*")
            if path.is_file()
        } == {name: files[name] for name in wanted}
        assert ask("owner/albert")["path"] == answer["path"]
        # A commit never changes: the hub is not even asked.
        pinned = ask("owner/albert", revision=_COMMIT)
        assert pinned["path"] == answer["path"]
        assert "cannot be reached" not in pinned["log"]

    def test_repository_without_our_weights(self, ask):
        files = {"config.json": "{}", "tf_model.h5": "x"}
        fetched = set()
        with _serve(_hub("owner/albert", files, fetched)) as address:
            error = ask("owner/albert", env={"HF_ENDPOINT": address})["error"]
        assert "owner/albert on Hugging Face lacks weights" in error
        assert error.endswith("it has config.json, tf_model.h5")
        assert not fetched

    def test_repository_or_revision_that_is_not_there(self, ask):
        with _serve(_hub("owner/albert", _CHECKPOINT, set())) as address:
            env = {"HF_ENDPOINT": address}
            error = ask("owner/bert", env=env)["error"]
            assert "owner/bert is neither a local path nor" in error
            assert "the hub has no such repository" in error
            error = ask("hf://owner/albert@v9", env=env)["error"]
            assert error == "owner/albert on Hugging Face has no revision 'v9'"

    @pytest.mark.parametrize(
        ("status", "code", "says"),
        [
            (403, "GatedRepo", "access is by request"),
            (401, "RepoNotFound", "or it is private (then `hf auth login`)"),
            (503, "", "the hub answers with an error ("),
        ],
    )
    def test_refusal(self, ask, tmp_path, status, code, says):
        def refuse(path, body):
            return status, {"X-Error-Code": code}, b""

        with _serve(refuse) as address:
            env = {"HF_ENDPOINT": address}
            assert says in (ask("owner/albert", env=env)["error"])
            folder = _lay_snapshot(tmp_path, "owner/albert", _CHECKPOINT)
            answer = ask("owner/albert", env=env)
        assert answer["path"] == folder
        assert says in answer["log"]

    def test_gated_files(self, ask):
        hub = _hub("owner/albert", _CHECKPOINT, set())

        def refuse(path, body):
            if "/resolve/" in path:
                return 403, {"X-Error-Code": "GatedRepo"}, b""
            return hub(path, body)

        with _serve(refuse) as address:
            error = ask("owner/albert", env={"HF_ENDPOINT": address})["error"]
        assert error.startswith("owner/albert could not be downloaded: access")


@pytest.mark.usefixtures("kaggle_library")
class TestKaggle:
    @pytest.mark.parametrize(
        "name",
        [
            f"kaggle://{_HANDLE}",
            f"https://www.kaggle.com/models/{_HANDLE}",
            "https://kaggle.com/models/keras/albert/frameworks/keras/"
            "variations/albert_base_en_uncased?tfhub-redirect=true",
        ],
    )
    def test_newest_complete_version_offline(self, ask, tmp_path, name):
        _lay_version(tmp_path, 2)
        newest = _lay_version(tmp_path, 10)
        _lay_version(tmp_path, 11, complete=False)
        answer = ask(name)
        assert answer["path"] == newest
        assert "Kaggle cannot be reached" in answer["log"]

    @pytest.mark.parametrize("form", ["kaggle://{}/2", "{}/versions/2"])
    def test_named_version_needs_no_network(self, ask, tmp_path, form):
        folder = _lay_version(tmp_path, 2)
        _lay_version(tmp_path, 3)
        _lay_version(tmp_path, 4, complete=False)
        handle = _HANDLE
        if "://" not in form:
            handle = f"https://www.kaggle.com/models/{handle}"
        answer = ask(form.format(handle))
        assert answer["path"] == folder
        assert "cannot be reached" not in answer["log"]
        error = ask(f"kaggle://{_HANDLE}/4")["error"]
        assert "is not in the cache of kagglehub" in error

    @pytest.mark.parametrize("env", [{}, {"HTTP_PROXY": ""}])
    def test_nothing_cached(self, ask, env):
        if env:  # without the proxy it is localhost:7777 that is asked
            env = env | {"KAGGLE_API_ENVIRONMENT": "TEST"}
        error = ask(f"kaggle://{_HANDLE}", env=env)["error"]
        assert error == (
            f"kaggle://{_HANDLE} is not in the cache of kagglehub, and Kaggle "
            "cannot be reached (Connection refused); connect, or give a local "
            "folder"
        )

    def test_downloads_and_finds_it_offline(self, ask, tmp_path):
        files = {"config.json": "{}", "assets/tokenizer/vocabulary.spm": "x"}

        def answer(path, body):
            call = path.rpartition("/")[2]
            if call == "GetModelInstance":
                return _json({"versionNumber": 5})
            if call == "ListModelInstanceVersionFiles":
                return _json({"files": [{"name": name} for name in files]})
            name = json.loads(body)["path"]
            return 200, {}, files[name].encode()

        with _serve(answer) as address:
            env = {"HTTP_PROXY": address}
            folder = ask(f"kaggle://{_HANDLE}", env=env)["path"]
        assert folder == str(tmp_path / "kaggle/models" / _HANDLE / "5")
        for name, text in files.items():
            assert pathlib.Path(folder, name).read_text() == text
        assert ask(f"kaggle://{_HANDLE}")["path"] == folder

    @pytest.mark.parametrize(
        ("status", "says"),
        [
            (401, "Kaggle asks who you are"),
            (403, "Kaggle asks who you are"),
            (404, "Kaggle has no such model, variation or version"),
            (500, "Kaggle answers with an error"),
        ],
    )
    def test_refusal(self, ask, tmp_path, status, says):
        with _serve(lambda path, body: (status, {}, b"")) as address:
            env = {"HTTP_PROXY": address}
            assert says in ask(f"kaggle://{_HANDLE}", env=env)["error"]
            folder = _lay_version(tmp_path, 1)
            answer = ask(f"kaggle://{_HANDLE}", env=env)
        assert answer["path"] == folder
        assert says in answer["log"]

    @pytest.mark.skipif(
        sys.platform != "linux", reason="other systems refuse at once"
    )
    def test_firewall_that_drops_packets(self, monkeypatch, tmp_path):
        for key in os.environ:
            if key.lower().endswith("_proxy"):
                monkeypatch.delenv(key)
        monkeypatch.setenv("KAGGLEHUB_CACHE", str(tmp_path / "kaggle"))
        monkeypatch.setattr("kagglehub.clients.DEFAULT_CONNECT_TIMEOUT", 1.0)
        with socket.socket() as server, contextlib.ExitStack() as waiting:
            server.bind(("127.0.0.1", 0))
            server.listen(0)
            address = server.getsockname()
            # Linux drops what comes once nobody takes from a full queue.
            for _ in range(4):
                client = waiting.enter_context(socket.socket())
                client.setblocking(False)
                client.connect_ex(address)
            monkeypatch.setattr(
                "kagglesdk.kaggle_env.get_endpoint",
                lambda env: f"http://127.0.0.1:{address[1]}",
            )
            started = time.monotonic()
            with pytest.raises(InputError, match=r"be reached \(timed out\)"):
                resolve(f"kaggle://{_HANDLE}")
            assert time.monotonic() - started < 5
            folder = _lay_version(tmp_path, 2)
            assert resolve(f"kaggle://{_HANDLE}") == folder
            started = time.monotonic()
            assert resolve(f"kaggle://{_HANDLE}/2") == folder
            assert time.monotonic() - started < 0.9  # nothing is waited for

    def test_framework_that_kaggle_does_not_know(self, ask):
        error = ask("kaggle://keras/albert/keraz/albert_base")["error"]
        assert "could not be downloaded: 'keraz' is not a valid" in error
