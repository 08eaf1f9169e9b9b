"""The web application: requests, limits and errors."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import importlib.resources
import json
import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    Response,
)
from starlette.routing import Route

from albert_tf.errors import InputError, shown
from albert_tf.input_files import parse_object
from albert_tf.pipelines.sentence_embedder import SentenceEmbedder
from albert_tf.server.batcher import Batcher, Overloaded
from albert_tf.server.config import ServeConfig
from albert_tf.server.endpoints import Endpoint, ServedModel, rounded
from albert_tf.server.metrics import Metrics

Handler = Callable[[Request], Awaitable[Response]]

_logger = logging.getLogger(__name__)
# How long to wait for the batch that is being computed when the server ends.
_CLOSING_SECONDS = 2.0
# Of OpenAI's embeddings. `user` is for its accounts.
_OPENAI_FIELDS = ("input", "model", "encoding_format", "dimensions", "user")
# As many as OpenAI takes in a request: its clients send up to 1,000 by default.
_OPENAI_TEXTS = 2048
# Time for each part of a body; less than a server that ends waits for requests.
_BODY_SECONDS = 20


def create_app(model: ServedModel, config: ServeConfig) -> Starlette:
    """Creates the application of a loaded model."""
    return _Server(model, config).app()


class _Server:
    def __init__(self, model: ServedModel, config: ServeConfig):
        self._model = model
        self._config = config
        self._metrics = Metrics()
        self._batchers = {
            path: self._batcher(endpoint)
            for path, endpoint in model.endpoints.items()
        }
        self._paths = list(model.endpoints)
        if model.embedder is not None:
            self._paths.append("/v1/embeddings")

    def app(self) -> Starlette:
        routes = [
            Route("/", self._page),
            Route("/healthz", self._health),
            Route("/metrics", self._read_metrics),
        ]
        for path, endpoint in self._model.endpoints.items():
            routes.append(self._post(path, self._outputs_of(endpoint)))
        if self._model.embedder is not None:
            routes += [
                self._post(
                    "/v1/embeddings",
                    self._openai_embeddings_of(self._model.embedder),
                ),
                Route("/v1/models", self._openai_models),
            ]

        @contextlib.asynccontextmanager
        async def lifespan(app: Starlette) -> AsyncIterator[None]:
            yield
            # uvicorn has answered the open requests by now, or has canceled
            # them: nobody waits for a batch that is still computed. Their
            # answers are sent meanwhile.
            closing = (
                asyncio.to_thread(batcher.close, _CLOSING_SECONDS)
                for batcher in self._batchers.values()
            )
            await asyncio.gather(*closing)

        return Starlette(
            routes=routes,
            lifespan=lifespan,
            exception_handlers={HTTPException: self._not_found},
        )

    def _batcher(self, endpoint: Endpoint) -> Batcher:
        return Batcher(
            endpoint.compute,
            max_batch_size=self._config.max_batch_size,
            max_waiting=self._config.max_waiting,
            observe=lambda size: self._metrics.batch(endpoint.path, size),
        )

    def _post(self, path: str, handler: Handler) -> Route:
        """A route whose errors are JSON with one line, and that is counted."""

        async def handle(request: Request) -> Response:
            start = time.perf_counter()
            response = await self._response(handler, request)
            seconds = time.perf_counter() - start
            self._metrics.request(path, response.status_code, seconds)
            return response

        return Route(path, handle, methods=["POST"])

    async def _response(self, handler: Handler, request: Request) -> Response:
        try:
            return await handler(request)
        except InputError as error:
            return _error(400, " ".join(str(error).split()))
        except HTTPException as error:
            return _error(error.status_code, error.detail)
        except Overloaded as error:
            return _error(503, str(error), {"Retry-After": "1"})
        except asyncio.CancelledError:
            problem = "the server is shutting down; retry later"
            return _error(503, problem, {"Retry-After": "1"})
        except ClientDisconnect:
            return Response(status_code=499)  # Nobody reads it; counted.
        except Exception:
            _logger.exception("%s failed", request.url.path)
            return _error(500, "internal error; the server's log has it")

    async def _not_found(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        paths = ", ".join(self._paths)
        detail = f"{error.detail}; POST to {paths}"
        return _error(error.status_code, detail, error.headers)

    async def _fields(self, request: Request) -> dict[str, Any]:
        """Reads a body of bounded size, a JSON object."""
        limit, body, size = self._config.max_body_bytes, bytearray(), 0
        chunks = request.stream()
        # To the end, as a closed connection would lose the answer.
        while (chunk := await _next_chunk(chunks)) is not None:
            size += len(chunk)
            if size <= limit:
                body += chunk
        if size > limit:
            raise HTTPException(413, f"the body has more than {limit:,} bytes")
        return parse_object(bytes(body), "the body")

    def _check_size(self, given: Any, name: str, max_texts: int) -> None:
        """Checks the lengths of all strings and lists, such as `options`."""
        most = self._config.max_characters
        if isinstance(given, str) and len(given) > most:
            raise InputError(
                f"{name} has {len(given):,} characters; expected at most "
                f"{most:,}"
            )
        if isinstance(given, Mapping):
            for key, value in given.items():
                self._check_size(value, f"{name}[{shown(key)}]", max_texts)
        elif isinstance(given, list):
            if not 1 <= len(given) <= max_texts:
                raise InputError(
                    f"{name} has {len(given)} texts; expected 1 to {max_texts}"
                )
            for number, value in enumerate(given):
                self._check_size(value, f"{name}[{number}]", max_texts)

    async def _compute(
        self,
        request: Request,
        endpoint: Endpoint,
        inputs: list[Any],
        options: Mapping[str, Any],
    ) -> list[Any]:
        """Computes what a request asks for, unless its client goes before."""
        # In a thread, as some are tokenized.
        items = await asyncio.to_thread(
            lambda: [
                endpoint.item(given, number, options)
                for number, given in enumerate(inputs)
            ]
        )
        future = asyncio.wrap_future(
            self._batchers[endpoint.path].submit(items)
        )
        gone = asyncio.ensure_future(_disconnection(request))
        try:
            await asyncio.wait(
                (future, gone), return_when=asyncio.FIRST_COMPLETED
            )
            if not future.done():
                raise ClientDisconnect
            return future.result()
        finally:
            future.cancel()
            gone.cancel()

    def _outputs_of(self, endpoint: Endpoint) -> Handler:
        async def handler(request: Request) -> Response:
            fields = await self._fields(request)
            _check_names(fields, "inputs", ("inputs", *endpoint.options))
            inputs = fields.pop("inputs")
            if not isinstance(inputs, list):
                inputs = [inputs]
            self._check_size(inputs, "inputs", self._config.max_texts)
            outputs = await self._compute(request, endpoint, inputs, fields)
            return JSONResponse({"outputs": _plain(outputs)})

        return handler

    def _openai_embeddings_of(self, embedder: SentenceEmbedder) -> Handler:
        """https://platform.openai.com/docs/api-reference/embeddings."""

        async def handler(request: Request) -> Response:
            fields = await self._fields(request)
            _check_names(fields, "input", _OPENAI_FIELDS)
            # Some clients send null for what is not given.
            fields = {name: x for name, x in fields.items() if x is not None}
            encoding = fields.get("encoding_format", "float")
            if encoding not in ("float", "base64"):
                raise InputError(
                    f"encoding_format={shown(encoding)} must be float or base64"
                )
            size = embedder.vector_size
            if fields.get("dimensions", size) != size:
                raise InputError(
                    f"dimensions={shown(fields['dimensions'])}: the model has "
                    f"vectors of {size}; leave dimensions out"
                )
            inputs = fields.get("input")
            texts = inputs if isinstance(inputs, list) else [inputs]
            if not all(isinstance(text, str) for text in texts):
                raise InputError(
                    f"input={shown(inputs)} must be a text or a list of texts; "
                    "token ids are not supported"
                )
            self._check_size(texts, "input", _OPENAI_TEXTS)
            vectors = await self._compute(
                request, self._model.endpoints["/embed"], texts, {}
            )
            encode = _base64 if encoding == "base64" else rounded
            tokens = await asyncio.to_thread(_count_tokens, embedder, texts)
            return JSONResponse(
                {
                    "object": "list",
                    "model": self._config.model,
                    "data": [
                        {
                            "object": "embedding",
                            "index": index,
                            "embedding": encode(vector),
                        }
                        for index, vector in enumerate(vectors)
                    ],
                    "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
                }
            )

        return handler

    async def _openai_models(self, request: Request) -> Response:
        model = {
            "id": self._config.model,
            "object": "model",
            "created": 0,
            "owned_by": "albert_tf",
        }
        return JSONResponse({"object": "list", "data": [model]})

    async def _health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok", "model": self._config.model})

    async def _read_metrics(self, request: Request) -> Response:
        waiting = sum(x.num_waiting for x in self._batchers.values())
        return PlainTextResponse(self._metrics.text(waiting))

    async def _page(self, request: Request) -> Response:
        facts = {
            "model": self._config.model,
            "task": self._model.task,
            "paths": list(self._model.endpoints),
            "texts": self._model.texts,
        }
        # In a script, "</script>" would end it.
        data = json.dumps(facts).replace("<", "\\u003c")
        page = importlib.resources.files("albert_tf.server") / "page.html"
        text = page.read_text("utf-8").replace("{{facts}}", data)
        policy = (
            "default-src 'none'; connect-src 'self'; img-src data:; "
            "style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        return HTMLResponse(text, headers={"Content-Security-Policy": policy})


async def _disconnection(request: Request) -> None:
    """Waits until the client of a request whose body was read has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _count_tokens(embedder: SentenceEmbedder, texts: list[str]) -> int:
    """Counts the tokens that are used, with [CLS] and [SEP]."""
    most = embedder.max_length - 2
    # One by one: other threads wait for what tokenizers do in one call.
    return sum(
        len(embedder.tokenizer.encode(text, max_length=most)) + 2
        for text in texts
    )


def _check_names(
    fields: Mapping[str, Any], required: str, known: tuple[str, ...]
) -> None:
    unknown = sorted(set(fields) - set(known))
    if unknown or required not in fields:
        problem = f"has no {required!r}"
        if unknown:
            problem = f"has {shown(unknown[0])}"
        raise InputError(
            f"the body {problem}; expected an object with {', '.join(known)}"
        )


async def _next_chunk(chunks: AsyncIterator[bytes]) -> bytes | None:
    """Returns the next part of a body, or None at its end.

    Raises:
      HTTPException: with status 408 if none comes within `_BODY_SECONDS`.
    """

    async def read() -> bytes | None:
        return await anext(chunks, None)

    try:
        return await asyncio.wait_for(read(), _BODY_SECONDS)
    except asyncio.TimeoutError:
        raise HTTPException(
            408, f"no part of the body came within {_BODY_SECONDS} seconds"
        ) from None


def _error(
    status: int, message: str, headers: Mapping[str, str] | None = None
) -> Response:
    """An error in OpenAI's format, which its clients show."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    error = {"message": message, "type": kind, "param": None, "code": None}
    return JSONResponse({"error": error}, status, dict(headers or {}))


def _plain(value: Any) -> Any:
    """Returns JSON values: vectors as lists, and null for what is no number."""
    if isinstance(value, np.ndarray):
        return rounded(value)
    if isinstance(value, Mapping):
        return {key: _plain(x) for key, x in value.items()}
    if isinstance(value, (list, tuple)):
        return list(map(_plain, value))
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _base64(vector: np.ndarray) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")
