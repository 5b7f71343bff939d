"""JSON in and out: strict requests, responses, and every error as a problem document (RFC 9457)."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import orjson
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import Scope

from sentemb.errors import InputError

MEDIA_TYPE = "application/problem+json"
STATUSES = {
    400: "Bad request",
    401: "API key required",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    413: "Body too large",
    415: "Unsupported content type",
    422: "Invalid request",
    429: "Too many requests",
    431: "Header too large",
    500: "Server error",
    503: "Not ready",
    507: "Disk full",
}
_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}  # of OpenAI's API
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_MAX_DETAIL = 2000
_MAX_FIELD = 100
Named = TypeVar("Named")


class JsonRequest(Request):
    """A request whose body is read by orjson: only UTF-8, no lone surrogates, no NaN, limited depth."""

    async def json(self) -> Any:
        """Return the body."""
        return orjson.loads(await self.body())


class JsonRoute(APIRoute):
    """A route of `JsonRequest`s; the `route_class` of all routers."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return a handler that reads the body with orjson."""
        handle = super().get_route_handler()

        async def handle_json(request: Request) -> Response:
            return await handle(JsonRequest(request.scope, request.receive))

        return handle_json


def json_response(content: Any) -> Response:
    """Return a response; float32 arrays keep their bits, because numbers get all digits that they need."""
    return Response(orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY), media_type="application/json")


async def json_array(items: Sequence[Any]) -> orjson.Fragment:
    """Return items as part of a response; other requests have their turn between them."""
    parts = []
    for start in range(0, len(items), 64):
        parts.append(orjson.dumps(items[start : start + 64], option=orjson.OPT_SERIALIZE_NUMPY)[1:-1])
        await asyncio.sleep(0)
    return orjson.Fragment(b"[" + b",".join(parts) + b"]")


class Problem(HTTPException):
    """An error that the client can fix.

    Args:
        status: The HTTP status.
        detail: What is wrong, and the next step.
        field: The invalid field of the request.
        retry_after: Seconds until another attempt can succeed.
        headers: Other headers of the response.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        field: str | None = None,
        *,
        retry_after: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        # OpenAI's clients would retry a conflict.
        retry = {"X-Should-Retry": "false"} if status == 409 else {}
        retry |= {} if retry_after is None else {"Retry-After": str(retry_after)}
        super().__init__(status, detail, {**retry, **(headers or {})})
        self.field = field


def find(things: Mapping[str, Named], name: str, kind: str, field: str = "model") -> Named:
    """Return what a request names, or raise a `Problem` (404) that lists the names."""
    if name not in things:
        names = ", ".join(sorted(things)) or "none"
        raise Problem(404, f"unknown {kind} {name[:100]!r}; this server has: {names}", field=field)
    return things[name]


def error_response(error: Exception, scope: Scope, request_id: str) -> Response:
    """Return the response to any exception of a request."""
    problem = _problem_of(error, scope)
    status, detail = problem.status_code, problem.detail[:_MAX_DETAIL]
    title = STATUSES.get(status, "Error")
    default = "server_error" if status >= 500 else "invalid_request_error"
    document = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    document |= {} if problem.field is None else {"field": problem.field}
    # OpenAI's clients show only this member.
    document["error"] = {
        "message": detail,
        "type": _TYPES.get(status, default),
        "param": problem.field,
        "code": title.lower().replace(" ", "_"),
    }
    body = orjson.dumps({**document, "request_id": request_id})
    return Response(body, status, problem.headers, MEDIA_TYPE)


def _problem_of(error: Exception, scope: Scope) -> Problem:
    """Translate an exception; an unexpected one tells clients nothing about the server."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, RequestValidationError):
        return _invalid(error)
    if isinstance(error, InputError):
        return Problem(422, str(error))
    if isinstance(error, OSError) and error.errno in _NO_SPACE:
        return Problem(507, "the server's disk is full; free some space, and send the request again")
    if isinstance(error, HTTPException) and error.status_code == 404:
        return Problem(404, "unknown route; GET /openapi.json lists all routes")
    if isinstance(error, HTTPException):
        allowed = {"Allow": ", ".join(_methods(scope))} if error.status_code == 405 else error.headers
        return Problem(error.status_code, str(error.detail), headers=allowed)
    return Problem(500, "internal server error; the server log has the reason under the request id")


def _methods(scope: Scope) -> list[str]:
    """Return the methods of a path, which several routes may serve."""
    routes = scope["app"].routes
    return [
        method
        for method in ("DELETE", "GET", "POST", "PUT")
        if any(route.matches({**scope, "method": method})[0] == Match.FULL for route in routes)
    ]


def _invalid(error: RequestValidationError) -> Problem:
    errors = error.errors()
    if errors[0]["type"] == "json_invalid":
        reason = errors[0].get("ctx", {}).get("error", errors[0]["msg"])
        return Problem(400, f"the body is not valid JSON: {reason}; send JSON in UTF-8")
    # Of a union, the member that was meant fails only by its length, or else at the deepest place.
    lengths = ("too_long", "too_short")
    faults = [(one["type"] in lengths, _path(one, error.body), one["msg"]) for one in errors]
    is_length, path, _ = max(faults, key=lambda fault: (fault[0], len(fault[1])))
    messages = dict.fromkeys(fault[2] for fault in faults if fault[:2] == (is_length, path))
    field = ".".join(path) or None
    return Problem(422, f"{field or 'the body'}: {' or '.join(messages)}", field=field)


def _path(error: Mapping[str, Any], body: Any) -> list[str]:
    """Return the path of an error in the request, without pydantic's names of union members."""
    where, *parts = error["loc"]
    if where != "body":
        return [str(part) for part in parts]
    path: list[str] = []
    for part in parts:
        if (isinstance(body, dict) and part in body) or (isinstance(body, list) and isinstance(part, int)):
            body = body[part]
        elif error["type"] != "missing" or part != parts[-1]:
            continue
        path.append(str(part)[:_MAX_FIELD])
    return path
