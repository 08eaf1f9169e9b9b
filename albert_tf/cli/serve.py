r"""Serve a model over HTTP, with a page to try it.

A fine-tuned model has the path /predict; a pretrained one /fill-mask, /embed
and OpenAI's /v1/embeddings. Bodies are JSON objects with `inputs`, a text or a
list; /healthz and /metrics (Prometheus) are for operators. SIGTERM and Ctrl-C
end the server after the open requests.

Examples:
  albert serve --model=albert_tiny_en
  albert serve --model=reviews --host=0.0.0.0 --port=80 --max_texts=16
"""

from __future__ import annotations

from albert_tf.cli.flags import CommandFlags
from albert_tf.server.config import ServeConfig

CONFIGS = (ServeConfig,)


def main(flags: CommandFlags) -> None:
    """Serves until it is interrupted."""
    config = flags.build(ServeConfig)
    from albert_tf.server.serve import serve

    serve(config, report=lambda line: print(line, flush=True))
