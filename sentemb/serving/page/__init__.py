"""The search page: one answer that needs nothing but itself."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from fastapi import APIRouter, Response

_SCRIPTS = ("server.js", "hits.js", "filters.js", "pane.js", "page.js")


class Page(NamedTuple):
    """The page and what its browser may do with it."""

    html: str
    policy: str


@cache
def page() -> Page:
    """The page with its style and script, which are let in by their checksums and by nothing else."""
    style, script = _read("page.css"), "".join(_read(name) for name in _SCRIPTS)
    html = _read("page.html").replace("{{style}}", style).replace("{{script}}", script)
    policy = (
        f"default-src 'none'; script-src '{_checksum(script)}'; style-src '{_checksum(style)}'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    return Page(html, policy)


def page_router() -> APIRouter:
    """The route of the page; it shows no document until it was given a key, where the server asks for one."""
    router = APIRouter()

    @router.get("/", include_in_schema=False)
    async def show() -> Response:
        html, policy = page()
        return Response(html, media_type="text/html", headers={"Content-Security-Policy": policy})

    return router


def _read(name: str) -> str:
    return (files(__name__) / name).read_text(encoding="utf-8")


def _checksum(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
