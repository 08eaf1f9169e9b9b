"""A running server."""

from __future__ import annotations

import socket
from collections.abc import Callable

from albert_tf.errors import InputError
from albert_tf.optional_packages import import_packages
from albert_tf.runtimes.config import choose_runtime
from albert_tf.server.config import ServeConfig


def serve(
    config: ServeConfig, *, report: Callable[[str], None] = print
) -> None:
    """Serves a model until SIGINT or SIGTERM, then answers open requests.

    Args:
      config: model, address and limits.
      report: called with the address when the model is ready.

    Raises:
      InputError: if the address is not free, a package is missing, or the model
        cannot be loaded.
    """
    uvicorn, _ = import_packages(["uvicorn", "starlette"], "servers")
    from albert_tf.server.app import create_app
    from albert_tf.server.endpoints import load_served_model

    # Before the model is loaded, which takes longer.
    listener = _bind(config.host, config.port)
    with listener:
        config.load_task_module()
        runtime = choose_runtime(config.runtime)
        model = load_served_model(config.model, config.max_batch_size, runtime)
        settings = uvicorn.Config(
            create_app(model, config),
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=30,
        )
        # From now on connections wait for the server instead of being refused.
        listener.listen(settings.backlog)
        host, port = listener.getsockname()[:2]
        shown_host = f"[{host}]" if ":" in host else host
        report(
            f"{config.model} ({model.task}, {runtime}) answers at "
            f"http://{shown_host}:{port}: {', '.join(model.endpoints)}"
        )
        uvicorn.Server(settings).run(sockets=[listener])


def _bind(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise InputError(f"--host={host}: {error}") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise InputError(
            f"cannot listen on --host={host} --port={port}: {error.strerror}"
        ) from None
    return listener
