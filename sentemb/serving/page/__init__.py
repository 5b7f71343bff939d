"""The search page: one response that loads nothing else."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

from fastapi import APIRouter, Response

_SCRIPTS = ("server.js", "hits.js", "filters.js", "pane.js", "page.js")

router = APIRouter()


@router.get("/", include_in_schema=False)
async def show() -> Response:
    """Show the page; it shows no document until it has a key, if the server has keys."""
    html, policy = page()
    return Response(html, media_type="text/html", headers={"Content-Security-Policy": policy})


@cache
def page() -> tuple[str, str]:
    """Return the page, and the policy that allows only its own style and script, by their checksums."""
    style, script = _read("page.css"), "".join(map(_read, _SCRIPTS))
    html = _read("page.html").replace("{{style}}", style).replace("{{script}}", script)
    policy = (
        f"default-src 'none'; script-src '{_checksum(script)}'; style-src '{_checksum(style)}'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    return html, policy


def _read(name: str) -> str:
    return (files(__name__) / name).read_text(encoding="utf-8")


def _checksum(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
