"""Who may read, and who may change indexes."""

from __future__ import annotations

import hashlib
import hmac

from fastapi import Request
from starlette.datastructures import Headers

from sentemb.serving.problems import Problem
from sentemb.serving.settings import Settings

SCHEME = "bearer"
OPEN_PATHS = frozenset({"/", "/health", "/ready", "/openapi.json"})
"""Paths that need no key: they show nothing of the documents."""
_REMEDY = "send the header `Authorization: Bearer KEY` with a key of this server"


def check_key(path: str, headers: Headers, keys: frozenset[str] | None) -> None:
    """Refuse a request without a key, unless its path is open or the server asks for none.

    Raises:
        Problem: There is no key, or the server does not know it.
    """
    if keys is None or path in OPEN_PATHS:
        return
    scheme, _, given = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not _is_one_of(given.strip(), keys):
        wrong = "the API key is not valid" if given else "an API key is required"
        raise Problem(401, f"{wrong}; {_REMEDY}", headers={"WWW-Authenticate": "Bearer"})


async def writer(request: Request) -> None:
    """Let those in who may change indexes; a dependency of every route that does."""
    settings = settings_of(request)
    if settings.read_only:
        raise Problem(
            403, "the server was started with --read-only; change the index with `sentemb index` instead"
        )
    if not settings.writable:
        raise Problem(
            403, "other machines cannot change an index without an API key; start the server with --keys FILE"
        )


def settings_of(request: Request) -> Settings:
    """The server's settings."""
    settings: Settings = request.app.state.settings
    return settings


def _is_one_of(given: str, keys: frozenset[str]) -> bool:
    """Compare with every key, in a time that tells nothing of any of them."""
    digest = hashlib.sha256(given.encode("utf-8", "surrogateescape")).digest()
    equal = [hmac.compare_digest(digest, hashlib.sha256(key.encode()).digest()) for key in sorted(keys)]
    return any(equal)
