"""Every error as a problem document (RFC 9457) that says what to do and names the field."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.routing import Match

from sentemb.errors import InputError

MEDIA_TYPE = "application/problem+json"
_TITLES = {
    400: "Bad request",
    401: "API key required",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    408: "Request timeout",
    409: "Conflict",
    413: "Body too large",
    415: "Unsupported content type",
    421: "Unknown host name",
    422: "Invalid request",
    429: "Too many requests",
    431: "Header too large",
    500: "Server error",
    503: "Not ready",
    507: "Disk full",
}
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_LONGEST_DETAIL = 2000
_LONGEST_FIELD = 100
_LENGTHS = ("too_long", "too_short")


class ErrorObject(BaseModel):
    """The error in the format of OpenAI's API, because its clients show only this."""

    message: str = Field(description="The same as `detail`.")
    type: str = Field(description="Kind of error, such as `invalid_request_error`.")
    param: str | None = Field(description="The same as `field`.")
    code: str = Field(description="Name of the status, such as `not_found`.")


class ProblemDocument(BaseModel):
    """The body of every error response (RFC 9457)."""

    type: str = Field(default="about:blank", description="URI of the kind of problem.")
    title: str = Field(description="Short name of the problem.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What is wrong, and what to do next.")
    field: str | None = Field(default=None, description="The invalid field, such as `input.3`.")
    request_id: str = Field(description="Id of the request in the server log.")
    error: ErrorObject = Field(description="The same error for clients of OpenAI's API.")


class Problem(HTTPException):
    """An error that the client can mend.

    Args:
        status: The HTTP status.
        detail: What is wrong, and the next step.
        title: The kind of problem; by default that of the status.
        field: The field of the request that is wrong.
        type: A URI of the kind of problem.
        headers: Headers of the answer.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        title: str | None = None,
        field: str | None = None,
        type: str = "about:blank",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        # OpenAI's clients would send again what is in conflict with the model.
        retry = {"X-Should-Retry": "false"} if status == 409 else {}
        super().__init__(status, detail, {**retry, **(headers or {})})
        self.title = title or _TITLES.get(status, "Error")
        self.field = field
        self.type = type

    def response(self, request_id: str) -> Response:
        """The answer."""
        detail = self.detail[:_LONGEST_DETAIL]
        error = ErrorObject(
            message=detail, type=_error_type(self.status_code), param=self.field, code=_code(self.status_code)
        )
        document = ProblemDocument(
            type=self.type,
            title=self.title,
            status=self.status_code,
            detail=detail,
            field=self.field,
            request_id=request_id,
            error=error,
        )
        # OpenAI's error object has all its members; a problem document leaves out those without a value.
        body = orjson.dumps({**document.model_dump(exclude_none=True), "error": error.model_dump()})
        return Response(body, self.status_code, self.headers, MEDIA_TYPE)


def problem_of(error: Exception) -> Problem:
    """The problem that an exception is; one that nobody foresaw says nothing of the server."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, InputError):
        return Problem(422, str(error))
    if isinstance(error, OSError) and error.errno in _NO_SPACE:
        return Problem(507, "the server's disk is full; free some space, and send the request again")
    if isinstance(error, RequestValidationError):
        return _invalid(error)
    if isinstance(error, HTTPException) and error.status_code == 404:
        return Problem(404, "unknown route; GET /openapi.json lists all routes")
    if isinstance(error, HTTPException):
        return Problem(error.status_code, str(error.detail), headers=error.headers)
    return Problem(500, "internal server error; the server log has the reason under the request id")


def handle_problems(app: FastAPI) -> None:
    """Answer every exception that a client can mend with a problem document; the guard answers the rest."""

    async def answer(request: Request, error: Exception) -> Response:
        problem = problem_of(error)
        if problem.status_code == 405:
            problem.headers = {"Allow": ", ".join(_methods(request))}
        return problem.response(request_id_of(request.scope))

    for kind in (HTTPException, InputError, RequestValidationError):
        app.add_exception_handler(kind, answer)


def request_id_of(scope: Mapping[str, Any]) -> str:
    """The id of a request, which its answer and its line in the log have too."""
    return str(scope.get("state", {}).get("request_id", ""))


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What OpenAPI says of some statuses."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}}
    return {status: {"description": _TITLES[status], "content": content} for status in statuses}


def _error_type(status: int) -> str:
    """Return the kind of error by the names of OpenAI's API."""
    kinds = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
    return kinds.get(status, "server_error" if status >= 500 else "invalid_request_error")


def _code(status: int) -> str:
    """Return the status in words that a program compares."""
    return _TITLES.get(status, "Error").lower().replace(" ", "_")


def _methods(request: Request) -> list[str]:
    """The methods of an address, which may be those of several routes."""

    def fits(method: str) -> bool:
        scope = {**request.scope, "method": method}
        return any(route.matches(scope)[0] == Match.FULL for route in request.app.routes)

    return [method for method in ("DELETE", "GET", "POST", "PUT") if fits(method)]


def _invalid(error: RequestValidationError) -> Problem:
    errors = error.errors()
    if errors[0]["type"] == "json_invalid":
        reason = errors[0].get("ctx", {}).get("error", errors[0]["msg"])
        return Problem(400, f"the body is not valid JSON: {reason}; send JSON in UTF-8")
    # Of a union, the member that was meant is the one that reads all but its length, or else the furthest.
    faults = [(one["type"] in _LENGTHS, _place_of(one, error.body), one["msg"]) for one in errors]
    _, place, message = max(faults, key=lambda fault: (fault[0], len(fault[1])))
    field = ".".join(place) or None
    return Problem(422, f"{field or 'the body'}: {message}", field=field)


def _place_of(error: Mapping[str, Any], body: Any) -> list[str]:
    """Where a fault is in the request; pydantic names the members of unions too, which no client knows."""
    where, *parts = error["loc"]
    if where != "body":
        return [str(part) for part in parts]
    place: list[str] = []
    for part in parts:
        if (isinstance(body, dict) and part in body) or (isinstance(body, list) and isinstance(part, int)):
            body = body[part]
        elif error["type"] != "missing" or part != parts[-1]:
            continue
        place.append(str(part)[:_LONGEST_FIELD])
    return place
