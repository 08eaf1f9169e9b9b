import base64
import concurrent.futures
import contextlib
import json
import re
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import numpy as np
import pytest
import uvicorn

import albert_tf
from albert_tf.models.base import AlbertModel
from albert_tf.server import app
from albert_tf.server.app import create_app
from albert_tf.server.config import ServeConfig
from albert_tf.server.endpoints import load_served_model

TEXTS = ["A woman plays the violin.", "", "Prices rose faster. ünïcödé 漢字"]


def get(url):
    with urllib.request.urlopen(url, timeout=60) as response:
        return response.read().decode(), response.headers


def post(url, body):
    """Returns the status and the JSON; bodies may be bytes."""
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    request = urllib.request.Request(url, body)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


@pytest.fixture(scope="session")
def config(config, tokenizer):
    """The small architecture, for `tokenizer` and the lengths of the tasks."""
    return config.replace(
        vocab_size=tokenizer.vocab_size, max_position_embeddings=512
    )


@contextlib.contextmanager
def running(model, patience=30, **limits):
    """Yields the address of a server; at its end, it waits for requests."""
    config = ServeConfig(model=str(model), **limits)
    served = load_served_model(config.model, config.max_batch_size)
    settings = uvicorn.Config(
        create_app(served, config),
        port=0,
        log_level="warning",
        timeout_graceful_shutdown=patience,
    )
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    (listener,) = server.servers[0].sockets
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="module")
def pretrained():
    """The address of a server of the packaged model, with small limits."""
    limits = {"max_texts": 4, "max_characters": 100, "max_body_bytes": 2048}
    with running("albert_tiny_en", **limits) as address:
        yield address


@pytest.fixture(scope="module")
def vectors():
    return albert_tf.SentenceEmbedder()(TEXTS)


class TestPretrained:
    def test_embed(self, pretrained, vectors):
        status, answer = post(f"{pretrained}/embed", {"inputs": TEXTS})
        assert status == 200
        # The rows of a batch may be computed in another order of additions.
        np.testing.assert_allclose(answer["outputs"], vectors, atol=1e-6)
        _, one = post(f"{pretrained}/embed", {"inputs": TEXTS[0]})
        np.testing.assert_allclose(one["outputs"], vectors[:1], atol=1e-6)

    def test_fill_mask(self, pretrained):
        texts = ["The [MASK] is red.", "[MASK] and [MASK]."]
        expected = albert_tf.FillMask()(texts, top_k=5)
        url = f"{pretrained}/fill-mask"
        _, answer = post(url, {"inputs": texts, "top_k": 3})
        one, two = answer["outputs"]
        for fills, right in zip(
            [*one, *two], [expected[0], *expected[1]], strict=True
        ):
            assert [x["token"] for x in fills] == [
                x["token"] for x in right[:3]
            ]
            scores = [[x["score"] for x in y] for y in (fills, right[:3])]
            np.testing.assert_allclose(*scores, rtol=1e-4)
        assert len(post(url, {"inputs": texts[0]})[1]["outputs"][0][0]) == 5

    def test_openai_embeddings(self, pretrained, vectors):
        """The request and the answer of OpenAI's API reference."""
        url = f"{pretrained}/v1/embeddings"
        body = {"input": TEXTS, "model": "any", "encoding_format": "float"}
        status, answer = post(url, body)
        assert status == 200
        assert answer["object"] == "list"
        assert answer["model"] == "albert_tiny_en"
        assert [x["index"] for x in answer["data"]] == [0, 1, 2]
        floats = [x["embedding"] for x in answer["data"]]
        np.testing.assert_allclose(floats, vectors, atol=1e-6)
        tokenizer = albert_tf.load_tokenizer("albert_tiny_en")
        count = sum(len(tokenizer.encode(x)) + 2 for x in TEXTS)
        usage = {"prompt_tokens": count, "total_tokens": count}
        assert answer["usage"] == usage
        # What OpenAI's client asks for by default; others send nulls.
        body = {"input": TEXTS[0], "encoding_format": "base64", "user": None}
        (row,) = post(url, body | {"dimensions": None})[1]["data"]
        decoded = np.frombuffer(base64.b64decode(row["embedding"]), "<f4")
        np.testing.assert_allclose(decoded, vectors[0], atol=1e-6)
        assert "albert_tiny_en" in get(f"{pretrained}/v1/models")[0]
        # More texts than --max_texts: clients send them in large requests.
        status, answer = post(url, {"input": ["a"] * 65})
        assert (status, len(answer["data"])) == (200, 65)
        assert answer["usage"]["total_tokens"] == 65 * 3

    @pytest.mark.parametrize(
        ("path", "body", "status", "message"),
        [
            ("/embed", b"{", 400, "the body is not JSON"),
            ("/embed", b"[" * 2000, 400, "nested deeper"),
            ("/embed", b'{"inputs": "\xff"}', 400, "the body is not JSON"),
            ("/embed", b'{"inputs": "\\ud800"}', 400, "surrogate"),
            ("/embed", [1], 400, "expected a JSON object"),
            ("/embed", {}, 400, "has no 'inputs'; expected an object with"),
            ("/embed", {"inputs": "a", "top_k": 1}, 400, "has 'top_k'"),
            ("/embed", {"inputs": []}, 400, "0 texts; expected 1 to 4"),
            ("/embed", {"inputs": ["a"] * 5}, 400, "5 texts; expected 1 to 4"),
            ("/embed", {"inputs": ["a", 2]}, 400, "inputs[1]=2 must be a text"),
            ("/embed", {"inputs": [None]}, 400, "inputs[0]=None must be"),
            ("/embed", {"inputs": "a" * 101}, 400, "101 characters; expected"),
            ("/embed", {"inputs": {"a": ["b" * 101]}}, 400, "101 characters"),
            ("/embed", {"inputs": {"a": ["b"] * 5}}, 400, "5 texts; expected"),
            ("/embed", b" " * 3000, 413, "more than 2,048 bytes"),
            ("/fill-mask", {"inputs": "no mask"}, 400, "has no [MASK]"),
            (
                "/fill-mask",
                {"inputs": "[MASK]", "top_k": 101},
                400,
                "top_k=101 must be an integer in [1, 100]",
            ),
            ("/fill-mask", {"inputs": "[MASK]", "top_k": True}, 400, "top_k"),
            # The logits of many masks do not fit into memory.
            (
                "/fill-mask",
                {"inputs": ["[MASK]", "[MASK]" * 2], "top_k": 51},
                400,
                "inputs[1]: top_k=51 for 2 [MASK] is more than 100 words",
            ),
            # Of LangChain, for example.
            ("/v1/embeddings", {"input": [[1] * 9]}, 400, "token ids are not"),
            ("/v1/embeddings", {"input": [1] * 9}, 400, "token ids are not"),
            ("/v1/embeddings", {"input": None}, 400, "input=None must be a "),
            (
                "/v1/embeddings",
                {"input": "a", "dimensions": 8},
                400,
                "vectors of 384; leave dimensions out",
            ),
            (
                "/v1/embeddings",
                {"input": "a", "encoding_format": "int8"},
                400,
                "must be float or base64",
            ),
            ("/predict", {"inputs": "a"}, 404, "POST to /embed, /fill-mask"),
            ("/healthz", {}, 405, "Method Not Allowed"),
        ],
    )
    def test_bad_requests(self, pretrained, path, body, status, message):
        found, answer = post(pretrained + path, body)
        assert found == status
        assert message in answer["error"]["message"]
        assert "\n" not in answer["error"]["message"]
        assert answer["error"]["type"] == "invalid_request_error"

    def test_large_body_is_answered(self, pretrained):
        status, answer = post(f"{pretrained}/embed", b" " * 20_000_000)
        assert status == 413
        assert "more than 2,048 bytes" in answer["error"]["message"]

    def test_body_that_does_not_come(self, pretrained, monkeypatch):
        """Or clients that stop sending would hold up the end of the server."""
        monkeypatch.setattr(app, "_BODY_SECONDS", 0.2)
        address = urllib.parse.urlsplit(pretrained)
        with socket.create_connection(
            (address.hostname, address.port), timeout=60
        ) as client:
            client.sendall(
                b"POST /embed HTTP/1.1\r\nHost: here\r\n"
                b'Content-Length: 100\r\n\r\n{"inputs":'
            )
            answer = client.makefile("rb").read()
        head, body = answer.split(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 408 ")
        message = json.loads(body)["error"]["message"]
        assert message == "no part of the body came within 0.2 seconds"

    def test_for_operators(self, pretrained):
        assert '"status":"ok"' in get(f"{pretrained}/healthz")[0]
        post(f"{pretrained}/embed", {"inputs": "a"})
        metrics, headers = get(f"{pretrained}/metrics")
        assert headers["Content-Type"].startswith("text/plain")
        assert re.search(
            r'albert_requests_total\{path="/embed",status="200"\} [1-9]',
            metrics,
        )

    def test_page(self, pretrained):
        page, headers = get(pretrained)
        assert '"model": "albert_tiny_en"' in page
        assert '"texts": {}' in page
        # Nothing is loaded from elsewhere, and it says so to the browser.
        assert not re.search(r"(src|href)=.?https?:", page)
        assert "default-src 'none'" in headers["Content-Security-Policy"]


def test_requests_of_clients_that_have_gone_are_not_computed(monkeypatch):
    """They would keep others waiting."""
    computed, opened = [], threading.Event()
    called = albert_tf.SentenceEmbedder.__call__

    def embed(self, texts, **settings):
        computed.extend(texts)
        opened.wait(60)
        return called(self, texts, **settings)

    with running("albert_tiny_en", max_batch_size=1) as address:
        monkeypatch.setattr(albert_tf.SentenceEmbedder, "__call__", embed)
        url = urllib.parse.urlsplit(address)
        sockets = []
        for text in ("first", "second", "third"):
            connection = socket.create_connection((url.hostname, url.port))
            body = json.dumps({"inputs": text}).encode()
            connection.sendall(
                b"POST /embed HTTP/1.1\r\nHost: a\r\nContent-Length: %d"
                b"\r\n\r\n%s" % (len(body), body)
            )
            sockets.append(connection)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            while waiting(address) != 2:  # The first one is computed.
                time.sleep(0.01)
            for connection in sockets:
                connection.close()
            last = pool.submit(post, f"{address}/embed", {"inputs": "last"})
            while waiting(address) != 1:  # Only the last one.
                time.sleep(0.01)
            opened.set()
            assert last.result(60)[0] == 200
    assert computed == ["first", "last"]


def test_a_long_batch_does_not_keep_the_server(monkeypatch):
    entered, opened = threading.Event(), threading.Event()

    def embed(*_, **__):
        entered.set()
        assert opened.wait(60)

    with concurrent.futures.ThreadPoolExecutor() as pool:
        with running("albert_tiny_en", patience=1) as address:
            monkeypatch.setattr(albert_tf.SentenceEmbedder, "__call__", embed)
            answer = pool.submit(post, f"{address}/embed", {"inputs": "long"})
            assert entered.wait(60)
        # The server has ended, and the batch has not.
        status, found = answer.result(60)
        opened.set()
    assert status == 503
    assert "is shutting down; retry later" in found["error"]["message"]


def waiting(address):
    text, _ = get(f"{address}/metrics")
    return int(re.search(r"^albert_\w*waiting\w* (\d+)", text, re.M)[1])


def test_texts_are_tokenized_in_other_threads_than_the_loop(
    pretrained, monkeypatch
):
    names = []

    def count(*_):
        names.append(threading.current_thread().name)
        return 1

    monkeypatch.setattr(albert_tf.FillMask, "count_masks", count)
    monkeypatch.setattr(app, "_count_tokens", count)
    assert post(f"{pretrained}/fill-mask", {"inputs": "A [MASK]."})[0] == 200
    assert post(f"{pretrained}/v1/embeddings", {"input": "a"})[0] == 200
    assert [name.split("_")[0] for name in names] == ["asyncio"] * 2


def test_pretrained_model_is_opened_once_and_fills_batches(monkeypatch):
    opened, load = [], AlbertModel.from_checkpoint.__func__

    def counted(cls, *arguments, **settings):
        opened.append(cls)
        return load(cls, *arguments, **settings)

    monkeypatch.setattr(AlbertModel, "from_checkpoint", classmethod(counted))
    served = load_served_model("albert_tiny_en", 2)
    assert set(served.endpoints) == {"/embed", "/fill-mask"}
    assert len(opened) == 1
    # Requests with other numbers of words share a batch.
    fill = served.endpoints["/fill-mask"].compute
    texts = ["The [MASK] is red.", "[MASK] and [MASK].", "A [MASK]."]
    found = fill(list(zip(texts, (3, 1, 3), strict=True)))
    assert [list(map(len, masks)) for masks in found] == [[3], [1, 1], [3]]


PASSAGE = {"context": "A reader came. He left.", "question": "Who came?"}


@pytest.mark.parametrize(
    ("task", "given", "bad", "message"),
    [
        # The page's form has the texts of `given`.
        ("sst2", "A good film.", {"pair": "a"}, "takes text, not pair"),
        ("mrpc", {"text": "a b", "pair": "b c"}, "a b", "takes text and pair"),
        ("stsb", {"text": "a b", "pair": "b c"}, 3, "must be a text or a dict"),
        ("ner", "A reader came.", {"text": 3}, "inputs[1]['text']"),
        ("squad1.1", PASSAGE, {"question": "Who?"}, "inputs[1]: "),
        (
            "race",
            PASSAGE | {"options": ["a reader", "nobody", "he", "we"]},
            PASSAGE | {"options": ["one"]},
            "options: give two or more",
        ),
    ],
)
def test_predict(make_finetuned, assert_close, task, given, bad, message):
    """Answers of concurrent requests are those of a `Predictor`."""
    folder = make_finetuned(task)
    expected = albert_tf.Predictor(folder)([given, given])
    with (
        running(folder) as address,
        concurrent.futures.ThreadPoolExecutor(8) as pool,
    ):
        requests = [{"inputs": [given, given]}] * 8
        answers = pool.map(lambda x: post(f"{address}/predict", x), requests)
        for status, answer in answers:
            assert status == 200
            assert_close(answer["outputs"], expected)
        status, answer = post(f"{address}/predict", {"inputs": [given, bad]})
        texts = re.search(r'"texts": (\{.*?\})', get(address)[0]).group(1)
    named = {"text": given} if isinstance(given, str) else given
    assert json.loads(texts) == {
        name: 1 + isinstance(text, list) for name, text in named.items()
    }
    assert status == 400
    assert message in answer["error"]["message"]
