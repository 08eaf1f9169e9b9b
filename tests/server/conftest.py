import contextlib
import dataclasses
import json
import threading
import time
import urllib.error
import urllib.request

import keras
import pytest
import uvicorn

import albert_tf
from albert_tf.config import AlbertConfig
from albert_tf.finetuning.model_folder import save_model
from albert_tf.finetuning.registry import known_task, make_task_type
from albert_tf.server.app import create_app
from albert_tf.server.config import ServeConfig
from albert_tf.server.endpoints import load_served_model


@pytest.fixture(scope="session")
def make_finetuned(tmp_path_factory):
    """Returns `make(task)`: the folder of a model with random weights."""
    tokenizer = albert_tf.load_tokenizer("albert_tiny_en")

    def make(name):
        task_config = known_task(name)
        if name == "ner":
            labels = ("B-X", "B-Y", "O")
            task_config = dataclasses.replace(task_config, labels=labels)
        kind = make_task_type(task_config, tokenizer)
        keras.utils.set_random_seed(4)
        model = kind.model_class(
            AlbertConfig(
                vocab_size=tokenizer.vocab_size,
                embedding_size=16,
                hidden_size=32,
                num_hidden_layers=1,
                num_attention_heads=2,
                intermediate_size=64,
                max_position_embeddings=512,
                initializer_range=0.3,
            ),
            **kind.model_arguments(),
        )
        folder = tmp_path_factory.mktemp("finetuned") / name
        save_model(folder, model, kind, task_config)
        return folder

    return make


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
