import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from albert_tf.errors import InputError
from albert_tf.server.config import ServeConfig
from albert_tf.server.serve import serve

FLAGS = ["--model=albert_tiny_en", "--port=0"]


@pytest.mark.long
def test_command_serves_until_it_is_stopped():
    process = subprocess.Popen(
        [sys.executable, "-m", "albert_tf", "serve", *FLAGS],
        stdout=subprocess.PIPE,
        text=True,
    )
    line = process.stdout.readline()
    assert re.match(r"albert_tiny_en \(pretrained, \w+\) answers at http", line)
    address = line.split()[5].rstrip(":")
    with urllib.request.urlopen(
        f"{address}/embed", b'{"inputs": "A text."}', timeout=60
    ) as response:
        assert len(json.load(response)["outputs"][0]) == 384
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == -signal.SIGTERM


def test_address_in_use_is_noticed_before_the_model_is_loaded(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        config = ServeConfig(model=str(tmp_path / "absent"), port=port)
        with pytest.raises(InputError, match=f"--port={port}: Address already"):
            serve(config)


def test_unknown_host(tmp_path):
    config = ServeConfig(model=str(tmp_path), host="no host")
    with pytest.raises(InputError, match="--host=no host"):
        serve(config)
