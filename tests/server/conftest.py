import contextlib
import json
import threading
import time
import urllib.error
import urllib.request

import pytest
import uvicorn

from albert_tf.server.app import create_app
from albert_tf.server.config import ServeConfig
from albert_tf.server.endpoints import load_served_model


@pytest.fixture(scope="session")
def config(config, tokenizer):
    """The small architecture, for `tokenizer` and the lengths of the tasks."""
    return config.replace(
        vocab_size=tokenizer.vocab_size, max_position_embeddings=512
    )


@pytest.fixture(scope="session")
def post():
    """Returns `post(url, body)` -> (status, JSON); bodies may be bytes."""

    def post(url, body):
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        request = urllib.request.Request(url, body)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    return post


@pytest.fixture(scope="session")
def running():
    """A context `running(model, **limits)`: the address of a server."""

    @contextlib.contextmanager
    def run(model, **limits):
        config = ServeConfig(model=str(model), **limits)
        served = load_served_model(config.model, config.max_batch_size)
        settings = uvicorn.Config(
            create_app(served, config), port=0, log_level="warning"
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

    return run
