"""The application: its routes, and the layer in front of them."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import hmac
import logging
import re
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import PlainTextResponse
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sentemb import __version__
from sentemb.serving import embeddings, page, scoring, search
from sentemb.serving.http import MEDIA_TYPE, STATUSES, JsonRoute, Problem, error_response
from sentemb.serving.metrics import CONTENT_TYPE, Metrics
from sentemb.serving.registry import Registry
from sentemb.serving.schemas import ProblemDocument
from sentemb.serving.settings import Settings

logger = logging.getLogger("sentemb.serving")
_OPEN_PATHS = frozenset({"/", "/health", "/ready", "/openapi.json"})  # they show nothing of the documents
_WITHOUT_PREFIX = frozenset({"/classify", "/embeddings", "/models", "/rerank"})
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
MAX_HEADER = 64 * 1024
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}


def create_app(settings: Settings) -> FastAPI:
    """Load models and indexes, and create the application; its `state` has settings, metrics and registry."""
    settings, metrics = settings.checked(), Metrics()
    registry = Registry(settings, metrics)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        registry.start()
        app.state.ready = True
        try:
            yield
        finally:
            app.state.ready = False
            registry.close()

    app = FastAPI(
        title="sentemb",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers={HTTPException: _raise_again, RequestValidationError: _raise_again},
    )
    app.state.settings, app.state.metrics, app.state.registry = settings, metrics, registry
    app.state.ready = False
    for router in (_router, embeddings.router, scoring.router, search.router, page.router):
        app.include_router(router)
    if settings.is_loopback:
        # A web page whose name resolves to this machine could otherwise read what only this machine may.
        hosts = ["localhost", "127.0.0.1", "[::1]", settings.host]
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)
    app.add_middleware(Guard, settings=settings, metrics=metrics)
    app.openapi = functools.cache(lambda: _openapi(app))  # type: ignore[method-assign]
    return app


async def _raise_again(request: Request, error: Exception) -> Response:
    """Pass the framework's errors to `Guard`, which handles all errors."""
    raise error


_router = APIRouter(route_class=JsonRoute, tags=["server"])


@_router.get("/health")
async def health() -> dict[str, str]:
    """Report that the process is alive."""
    return {"status": "ok", "version": __version__}


@_router.get("/ready")
async def ready(request: Request) -> dict[str, str]:
    """Report whether the server is ready for requests."""
    if not request.app.state.ready:
        raise Problem(503, "the server is starting or stopping; try again in 1 s", retry_after=1)
    return {"status": "ready"}


@_router.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request) -> Response:
    """Return metrics for Prometheus."""
    return Response(request.app.state.metrics.text(), media_type=CONTENT_TYPE)


class Guard:
    """The outermost layer: API key, limits, errors, request ids, metrics and the log."""

    def __init__(self, app: ASGIApp, *, settings: Settings, metrics: Metrics) -> None:
        self._app = app
        self._settings = settings
        self._metrics = metrics
        self._keys = [_digest(key) for key in settings.keys or ()]
        self._open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # Other servers' clients leave out `/v1`, or add a slash.
        path = scope["path"].rstrip("/") or "/"
        scope = {**scope, "path": f"/v1{path}" if path in _WITHOUT_PREFIX else path}
        headers = Headers(scope=scope)
        proposed = headers.get("x-request-id", "")
        request_id = proposed if _REQUEST_ID.fullmatch(proposed) else uuid.uuid4().hex
        start, status = time.monotonic(), 499  # the client has gone

        async def respond(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                answered = MutableHeaders(scope=message)
                answered["X-Request-ID"] = request_id
                for name, value in _HEADERS.items():
                    answered.setdefault(name, value)
            await send(message)

        self._open += 1
        self._metrics.open.set(self._open)
        try:
            self._check_head(scope["path"], headers)
            # Paths that need no key have no body: nobody without a key makes the server wait for one.
            body = b"" if scope["path"] in _OPEN_PATHS else await self._read(headers, receive)
            await _run_while_connected(self._app, scope, body, receive, respond)
        except Exception as error:
            if status != 499:
                raise
            response = error_response(error, scope, request_id)
            if response.status_code >= 500 and not isinstance(error, Problem):
                unexpected = error if response.status_code == 500 else None
                logger.error("request %s failed: %s", request_id, error, exc_info=unexpected)
            await response(scope, receive, respond)
        finally:
            self._open -= 1
            self._metrics.open.set(self._open)
            self._log(scope, request_id, status, time.monotonic() - start)

    def _check_head(self, path: str, headers: Headers) -> None:
        """Reject a request before its body is read or parsed."""
        # uvicorn only limits a header that arrives in parts.
        if sum(len(name) + len(value) + 4 for name, value in headers.raw) > MAX_HEADER:
            reason = f"the request header is larger than {MAX_HEADER:,} bytes; send a shorter one"
            raise Problem(431, reason, headers={"Connection": "close"})
        if self._settings.keys is not None and path not in _OPEN_PATHS:
            scheme, _, key = headers.get("authorization", "").partition(" ")
            # All keys are compared, in a time that reveals nothing about them.
            if scheme.lower() != "bearer" or not any(
                [hmac.compare_digest(_digest(key.strip()), known) for known in self._keys]
            ):
                wrong = "the API key is not valid" if key else "an API key is required"
                remedy = "send the header `Authorization: Bearer KEY` with a key of this server"
                raise Problem(401, f"{wrong}; {remedy}", headers={"WWW-Authenticate": "Bearer"})
        if self._open > self._settings.max_requests:
            raise Problem(429, "too many open requests; try again in 1 s", retry_after=1)

    async def _read(self, headers: Headers, receive: Receive) -> bytes:
        """Read the body, up to the limit."""
        limit = self._settings.max_body
        declared = headers.get("content-length", "0")
        size = int(declared) if declared.isdecimal() else 0
        body, is_complete = bytearray(), False
        while not is_complete and max(size, len(body)) <= limit:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Problem(400, "the client closed the connection")
            body += message.get("body", b"")
            is_complete = not message.get("more_body", False)
        if max(size, len(body)) > limit:
            reason = f"the body is larger than {limit:,} bytes; split it into several requests"
            raise Problem(413, reason, headers={"Connection": "close"})
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if body and kind != "application/json":
            raise Problem(415, "send the body as JSON, with the header `Content-Type: application/json`")
        if body and headers.get("content-encoding", "identity").lower() != "identity":
            raise Problem(415, "the body is compressed; send it uncompressed")
        return bytes(body)

    def _log(self, scope: Scope, request_id: str, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", None) or "none"
        self._metrics.count_request(route, scope["method"], status, seconds)
        fields = {"request_id": request_id, "method": scope["method"], "route": route, "status": status}
        fields["milliseconds"] = round(1000 * seconds, 2)
        logger.info("request", extra={"fields": fields})


async def _run_while_connected(app: ASGIApp, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
    """Answer a request; stop when the client disconnects."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        if not messages:
            await anyio.sleep_forever()
        return messages.pop()

    async def wait_for_disconnect() -> None:
        while (await receive())["type"] != "http.disconnect":  # a body that was not read
            pass

    work = asyncio.ensure_future(app(scope, replay, send))
    disconnect = asyncio.ensure_future(wait_for_disconnect())  # also ends once the response is complete
    try:
        await asyncio.wait({work, disconnect}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
    finally:
        disconnect.cancel()
        work.cancel()
    with suppress(asyncio.CancelledError):
        await work


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def _openapi(app: FastAPI) -> dict[str, Any]:
    """Return the schema, with all errors of all routes, and the key if the server has keys."""
    summary = "Embeddings, reranking, classification and search with sentemb over HTTP"
    schema = get_openapi(title=app.title, version=app.version, routes=app.routes, summary=summary)
    problem = ProblemDocument.model_json_schema(ref_template="#/components/schemas/{model}")
    schema["components"]["schemas"].update(problem.pop("$defs"), ProblemDocument=problem)
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}}
    errors = {str(status): {"description": title, "content": content} for status, title in STATUSES.items()}
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            operation["responses"].update(errors)
            if app.state.settings.keys is not None and path not in _OPEN_PATHS:
                operation["security"] = [{"bearer": []}]
    schema["components"]["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
    return schema
