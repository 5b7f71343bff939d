"""URIs of files, such as `s3://bucket/docs.jsonl` or `file:///docs.txt`; hosts and their proxies."""

from __future__ import annotations

import ipaddress
import os
import re
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass, url2pathname

from sentemb.errors import InputError

_SCHEME = r"[a-z][a-z0-9+.-]+"  # a single letter is a Windows drive
_URI = re.compile(rf"{_SCHEME}://", re.IGNORECASE)
_LISTED = re.compile(rf"{_SCHEME}://.*?(?=,{_SCHEME}://|$)", re.IGNORECASE | re.DOTALL)
_WORD = r"[^\s'\"<>]"  # of a URI within a sentence; a colon or a stop at its end belongs to the sentence
_IN_PROSE = re.compile(
    rf"(?P<scheme>{_SCHEME}:)(?P<slashes>//?)(?P<login>[^\s/'\"<>]*@)?(?P<path>[^\s?'\"<>]*)"
    rf"(?P<query>\?{_WORD}*?)?(?=[:;,.)]*(?!{_WORD}))",
    re.IGNORECASE,
)
_NO_OUTPUT = re.compile(rf"{_SCHEME}:[/\\]|lancedb:", re.IGNORECASE)  # `Path` collapses two slashes into one
_LOCAL = ("file://", "local://")
ENDPOINT = "endpoint:"
"""Prefix of an encoder behind an OpenAI-compatible endpoint."""


def is_uri(name: str | os.PathLike[str]) -> bool:
    """Return whether a name is a URI."""
    return _URI.match(os.fspath(name)) is not None


def is_endpoint(model: object) -> bool:
    """Return whether a model is the address of an endpoint."""
    return str(model).startswith(ENDPOINT)


def is_remote(name: str | os.PathLike[str]) -> bool:
    """Return whether a name is a URI that does not refer to a local path."""
    return is_uri(name) and not os.fspath(name).lower().startswith(_LOCAL)


def local_path(name: str | os.PathLike[str]) -> Path:
    """Return the path that a name or a `file://` URI refers to; for a remote URI, one that does not exist."""
    text = os.fspath(name)
    if not is_uri(text) or is_remote(text):
        return Path(without_secrets(text))
    host, _, path = text.partition("://")[2].partition("/")
    if host not in ("", "localhost"):
        raise InputError(f"{text} is not a file on this machine", "write file:///FOLDER/FILE")
    return Path(url2pathname(f"/{path}"))


def without_secrets(name: str) -> str:
    """Remove `user:password@` and the query, which can hold tokens, from a URI; keep any other name."""
    found = _URI.match(name)
    if found is None:
        return name
    host, slash, path = name[found.end() :].partition("/")
    return found[0] + f"{host.rpartition('@')[2]}{slash}{path}".partition("?")[0]


def without_listed_secrets(text: str) -> str:
    """Remove secrets from all URIs of a comma-separated list, such as an option with several."""
    return _LISTED.sub(lambda found: without_secrets(found[0]), text)


def without_secrets_in_prose(text: str) -> str:
    """Remove secrets from URIs in prose, where a URI ends at whitespace or a quotation mark."""

    def clean(found: re.Match[str]) -> str:
        # `Path` collapses two slashes into one; `lancedb:/folder` is a path and may contain question marks.
        is_path = len(found["slashes"]) == 1 and not found["login"]
        query = found["query"] or "" if is_path else ""
        return found["scheme"] + found["slashes"] + found["path"] + query

    return _IN_PROSE.sub(clean, text)


def refuse_uri(output: str | os.PathLike[str]) -> None:
    """Raise InputError if an output is a URI: only a local file can be renamed once it is complete."""
    text = os.fspath(output)
    if _NO_OUTPUT.match(text):
        shown = without_secrets(re.sub(":/(?!/)", "://", text, count=1))
        raise InputError(
            f"cannot write to {shown}: outputs must be local paths",
            "write to a local path, and copy the result afterwards",
        )


def is_loopback(host: str) -> bool:
    """Return whether an address belongs to this machine alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def find_proxy(scheme: str, host: str) -> str | None:
    """Return the environment's proxy for a host, without its credentials; None if there is none."""
    if is_loopback(host) or proxy_bypass(host):
        return None
    proxies = getproxies()
    proxy = proxies.get(scheme) or proxies.get("all")
    if not proxy:
        return None
    parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
