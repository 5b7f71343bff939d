"""What stands before every route: host, size, pace and kind of a request, its id and its line in the log."""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import orjson
from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sentemb._network import is_loopback
from sentemb.serving.auth import check_key
from sentemb.serving.logs import log_request, logger
from sentemb.serving.metrics import Metrics
from sentemb.serving.problems import Problem, problem_of
from sentemb.serving.settings import Settings

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_BYTES_PER_SECOND = 64 * 1024  # the slowest body that is waited for
LARGEST_HEAD = 64 * 1024
TOO_LARGE_HEAD = f"the request header is larger than {LARGEST_HEAD:,} bytes; send a shorter one"
_AROUND = 4  # bytes around a header: a colon, a space and the end of the line
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::[0-9]*)?")
_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_UNPREFIXED = frozenset({"/classify", "/embeddings", "/models", "/rerank"})
_SECURITY = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}


class JsonRequest(Request):
    """A request whose body is read by orjson: UTF-8 alone, no lone surrogates, no NaN, limited depth."""

    async def json(self) -> Any:
        """The body."""
        return orjson.loads(await self.body())


class JsonRoute(APIRoute):
    """A route of `JsonRequest`s; the `route_class` of every router."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Hand the request on as one whose body orjson reads."""
        handle = super().get_route_handler()

        async def strict(request: Request) -> Response:
            return await handle(JsonRequest(request.scope, request.receive))

        return strict


class Guard:
    """The outermost layer of the application.

    Args:
        app: The layers inside.
        settings: The server's.
        metrics: Where requests are counted.
    """

    def __init__(self, app: ASGIApp, *, settings: Settings, metrics: Metrics) -> None:
        self._app = app
        self._settings = settings
        self._metrics = metrics
        self._open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Guard one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope = _with_canonical_path(scope)
        request = _Answered(scope, send)
        self._open += 1
        self._metrics.open.set(self._open)
        try:
            try:
                self._check_head(scope["path"], request.headers)
                body = await self._body(request.headers, receive)
            except Problem as problem:
                await problem.response(request.id)(scope, receive, request.send)
                return
            try:
                await _while_client_is_there(self._app, scope, body, receive, request)
            except Exception as error:
                if request.status is not None:
                    raise
                answer = problem_of(error)
                if answer.status_code == 500:
                    logger.exception("request %s failed", request.id)
                else:
                    logger.error("request %s failed: %s", request.id, error)
                await answer.response(request.id)(scope, receive, request.send)
        finally:
            self._open -= 1
            self._metrics.open.set(self._open)
            self._note(scope, request)

    def _check_head(self, path: str, headers: Headers) -> None:
        settings = self._settings
        # The parser counts what is incomplete; a head that comes at once is never that.
        if sum(len(name) + len(value) + _AROUND for name, value in headers.raw) > LARGEST_HEAD:
            raise Problem(431, TOO_LARGE_HEAD, headers={"Connection": "close"})
        if settings.loopback and not is_loopback(_host_of(headers.get("host", ""))):
            # A web page whose name was made to point to this machine would read what only it may.
            raise Problem(
                421,
                "this server accepts only the host names localhost and 127.0.0.1; start it "
                "with --host to use others",
            )
        # Before the body: nobody without a key makes the server read or parse one.
        check_key(path, headers, settings.keys)
        if self._open > settings.max_requests:
            raise Problem(429, "too many open requests; try again in 1 s", headers={"Retry-After": "1"})

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        most = self._settings.max_body
        too_large = Problem(
            413,
            f"the body is larger than {most:,} bytes; split it into several requests",
            headers={"Connection": "close"},
        )
        declared = headers.get("content-length", "0")
        if declared.isdigit() and int(declared) > most:
            raise too_large
        chunks: list[bytes] = []
        size, start = 0, time.monotonic()
        while True:
            left = start + self._settings.body_seconds + size / _BYTES_PER_SECOND - time.monotonic()
            try:
                message = await asyncio.wait_for(receive(), timeout=max(0.0, left))
            except TimeoutError:
                raise Problem(
                    408,
                    "the body did not arrive in time; send it faster, or in smaller requests",
                    headers={"Connection": "close"},
                ) from None
            if message["type"] == "http.disconnect":
                raise Problem(408, "the client closed the connection")
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            if size > most:
                raise too_large
            if not message.get("more_body", False):
                break
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if size and kind != "application/json":
            raise Problem(415, "send the body as JSON, with the header `Content-Type: application/json`")
        if size and headers.get("content-encoding", "identity").lower() != "identity":
            raise Problem(415, "the body is compressed; send it uncompressed")
        return b"".join(chunks)

    def _note(self, scope: Scope, request: _Answered) -> None:
        route = getattr(scope.get("route"), "path", None) or "none"
        seconds = time.monotonic() - request.start
        status = request.status or 499  # the client had gone
        # Clients invent methods, and every label value is kept forever.
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._metrics.requests.labels(route, method, str(status)).inc()
        self._metrics.seconds.labels(route).observe(seconds)
        log_request(
            request_id=request.id, method=scope["method"], route=route, status=status, seconds=seconds
        )


class _Answered:
    """A request and what was answered so far."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self.headers = Headers(scope=scope)
        given = self.headers.get("x-request-id", "")
        self.id = given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = self.id
        self.start = time.monotonic()
        self.status: int | None = None
        self.complete = False
        self._send = send

    async def send(self, message: Message) -> None:
        """Send a part of the answer, the head with the headers that every answer has."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["X-Request-ID"] = self.id
            for name, value in _SECURITY.items():
                headers.setdefault(name, value)
        elif message["type"] == "http.response.body" and not message.get("more_body", False):
            self.complete = True
        await self._send(message)


async def _while_client_is_there(
    app: ASGIApp, scope: Scope, body: bytes, receive: Receive, request: _Answered
) -> None:
    """Answer a request whose body has been read, until its client goes."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            await asyncio.Event().wait()  # whoever asks waits for the client to go; that ends all of this
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    work = asyncio.ensure_future(app(scope, replay, request.send))
    watch = asyncio.ensure_future(gone())
    try:
        await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done() and not request.complete:
            work.cancel()
            with suppress(asyncio.CancelledError):
                await work
            return
        await work
    finally:
        watch.cancel()
        work.cancel()


def _with_canonical_path(scope: Scope) -> Scope:
    """Drop a trailing slash and add a missing `/v1`, as clients of other servers send them."""
    path = scope["path"].rstrip("/") or "/"
    return {**scope, "path": f"/v1{path}" if path in _UNPREFIXED else path}


def _host_of(header: str) -> str:
    """The host of a `Host` header, without its port; empty for what is not one host."""
    found = _HOST.fullmatch(header)
    return found[1] or found[2] if found else ""
