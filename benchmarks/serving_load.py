"""Load of `albert serve`, beside transformers in the same server.

Both answer `/predict` of one fine-tuned text classifier; the server, its
batches and its limits are the same, only what computes a batch differs. Clients
are threads of another process that send one text and wait for the answer.

    python benchmarks/serving_load.py --model=reviews --texts=texts.txt
"""

import argparse
import http.client
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

import numpy as np

SYSTEMS = ("keras", "onnx", "openvino", "transformers")
_CLIENTS = (1, 8, 64)


def main() -> None:
    """Prints a table of rates and latencies."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="a text classifier")
    parser.add_argument("--texts", required=True, help="a text per line")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--systems", nargs="+", default=SYSTEMS)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        _serve(given.model, given.serve)
        return
    texts = pathlib.Path(given.texts).read_text().splitlines()
    bodies = [json.dumps({"inputs": text}) for text in texts if text.strip()]
    heads = "".join(
        f" {clients}: requests/s | p50, ms | p99, ms |" for clients in _CLIENTS
    )
    print(f"| system |{heads}\n|---|{'--:|' * 3 * len(_CLIENTS)}")
    for system in given.systems:
        server = subprocess.Popen(
            [sys.executable, __file__, *sys.argv[1:], f"--serve={system}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert server.stdout
            port = int(server.stdout.readline().strip().rpartition(":")[2])
            cells = [
                cell
                for clients in _CLIENTS
                for cell in _load(port, bodies, clients, given.seconds)
            ]
        finally:
            server.terminate()
            server.wait()
        print(f"| {system} | {' | '.join(cells)} |", flush=True)


def _load(
    port: int, bodies: list[str], clients: int, seconds: float
) -> tuple[str, str, str]:
    """Returns requests per second, and the median and 99th percentile in ms."""
    times: list[list[float]] = [[] for _ in range(clients)]
    end = time.perf_counter() + seconds

    def client(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.connect()
        # As HTTP libraries do: else the body waits 40 ms for an acknowledgment.
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while (start := time.perf_counter()) < end:
            body = bodies[(number + len(times[number]) * clients) % len(bodies)]
            connection.request("POST", "/predict", body)
            response = connection.getresponse()
            response.read()
            assert response.status == 200, response.status
            times[number].append(time.perf_counter() - start)

    threads = [
        threading.Thread(target=client, args=[number])
        for number in range(clients)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = 1000 * np.concatenate(times)
    return (
        f"{len(found) / seconds:,.0f}",
        f"{np.percentile(found, 50):,.1f}",
        f"{np.percentile(found, 99):,.1f}",
    )


def _serve(model: str, system: Any) -> None:
    """Serves a model until SIGTERM; prints its address."""
    import uvicorn

    from albert_tf.server.app import create_app
    from albert_tf.server.config import ServeConfig
    from albert_tf.server.endpoints import load_served_model

    config = ServeConfig(model=model)
    if system == "transformers":
        served = _transformers(model)
    else:
        served = load_served_model(model, config.max_batch_size, system)
    settings = uvicorn.Config(
        create_app(served, config), log_level="error", access_log=False
    )
    # As `serve` does: with the protocol, asyncio sends without waiting.
    listener = socket.socket(proto=socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(256)
    print(f"127.0.0.1:{listener.getsockname()[1]}", flush=True)
    uvicorn.Server(settings).run(sockets=[listener])


def _transformers(model: str):
    """Returns the model, computed by PyTorch as a pipeline does."""
    import torch
    import transformers

    from albert_tf.finetuning.text_classification.model import AlbertClassifier
    from albert_tf.server.endpoints import Endpoint, ServedModel

    folder = tempfile.mkdtemp()
    AlbertClassifier.from_pretrained(model).save_pretrained(folder)
    classify = transformers.AutoModelForSequenceClassification.from_pretrained(
        folder
    ).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)

    def compute(texts):
        with torch.inference_mode():
            # As transformers' pipeline for a list.
            rows = tokenizer(
                texts, padding=True, truncation=True, return_tensors="pt"
            )
            probabilities = classify(**rows).logits.softmax(-1)
        return [{"probabilities": row.tolist()} for row in probabilities]

    endpoint = Endpoint(
        "/predict",
        item=lambda given, number, options: given,
        compute=compute,
    )
    return ServedModel("text_classification", {"/predict": endpoint})


if __name__ == "__main__":
    main()
