"""What a client asks of a server, as data: requests, and what their answers and refusals mean."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import tee
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

from sentemb.errors import InputError
from sentemb.search.documents import Document, as_documents
from sentemb.search.hit import Hit, Snippet
from sentemb.search.prepared import Span, Truncate
from sentemb.search.writer import Changed

logger = logging.getLogger(__name__)

MOST = 2048
"""Texts, documents or ids of one request, as many as the server takes by default."""
_MOST_CHARACTERS = 4_000_000  # of one request: in UTF-8 and escaped they fit the server's 32 MiB
_ADDRESS = 4000  # characters of the ids in one address; a request's head may have 64 KiB
_LONGEST_WAIT = 60.0
_BUSY = (429, 503)

Item = TypeVar("Item")
Result = TypeVar("Result")


class Ask(NamedTuple):
    """One request."""

    method: str
    path: str
    content: bytes | None = None


Steps = Generator[Ask, Any, Result]
"""A call as the requests that it makes one after another; it is sent the answer of each."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A document of `Client.rerank`.

    Args:
        index: Its place among the documents given.
        score: Larger is better.
    """

    index: int
    score: float


def ask(method: str, path: str, **body: Any) -> Ask:
    """A request with the values that are not None.

    Raises:
        InputError: A value cannot be sent as JSON.
    """
    given = {name: value for name, value in body.items() if value is not None}
    try:
        content = json.dumps(given, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the request cannot be sent as JSON: {error}", "pass only strings, numbers, lists and dicts"
        ) from None
    return Ask(method, path, content)


def path_to(index: str, what: str) -> str:
    """The path of a route of an index."""
    return f"v1/indexes/{quote(index, safe='')}/{what}"


def parts(
    items: Iterable[Item], size: Callable[[Item], int] = lambda item: 1, *, most: int = _MOST_CHARACTERS
) -> Iterator[list[Item]]:
    """Items in lists that fit a request."""
    some: list[Item] = []
    sizes = 0
    for item in items:
        if some and (len(some) == MOST or sizes + size(item) > most):
            yield some
            some, sizes = [], 0
        some.append(item)
        sizes += size(item)
    if some:
        yield some


def write(method: str, index: str, documents: Iterable[Any], truncate: Truncate | None) -> Steps[Changed]:
    """Write documents, as many in a request as it may have."""
    done = Changed(0, 0, 0)
    path = path_to(index, "documents")
    for some in parts(_sent(documents), lambda one: len(one["text"])):
        answer = yield ask(method, path, documents=some, truncate=truncate)
        done = Changed(*map(sum, zip(done, Changed(**answer), strict=True)))
    return done


def read(index: str, ids: Iterable[str | int]) -> Steps[list[Document | None]]:
    """Read documents, as many in a request as its address may name."""
    found: list[Document | None] = []
    for some in parts(map(json.dumps, ids), len, most=_ADDRESS):
        query = urlencode([("id", one) for one in some])
        answer = yield Ask("GET", f"{path_to(index, 'documents')}?{query}")
        found += [None if one is None else Document(**one) for one in answer["documents"]]
    return found


def hits_of(answer: dict[str, Any]) -> list[Hit]:
    """Return the hits of an answer, and log its warnings as a search by the library does."""
    for warning in answer.get("warnings", ()):
        logger.warning("%s", warning)
    return [_hit(**one) for one in answer["hits"]]


def pause(status: int, retry_after: str | None) -> float | None:
    """Seconds after which a request is worth another attempt; None where it is not."""
    if status not in _BUSY:
        return None
    seconds = int(retry_after) if retry_after and retry_after.isdecimal() else 1
    return min(float(seconds), _LONGEST_WAIT)


def result(server: str, status: int, content: bytes) -> Any:
    """What an answer says.

    Raises:
        InputError: The server refused the request, and says why.
        RuntimeError: The server failed, or it is no server of sentemb.
    """
    try:
        answer = json.loads(content)
    except ValueError:
        answer = None
    if 200 <= status < 300 and answer is not None:
        return answer
    detail = answer.get("detail") if isinstance(answer, dict) else None
    if detail is None or status == 500:
        raise RuntimeError(f"{server} answered with status {status}: {detail or content[:200]!r}")
    raise InputError(f"{server} rejected the request: {detail}")


def _sent(documents: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Documents as a request has them; those without an id get theirs from the index."""
    if isinstance(documents, str | bytes):
        documents = [next(as_documents(documents))]  # refused, not cut to letters
    given, checked = tee(documents)
    for item, document in zip(given, as_documents(checked), strict=True):
        has_id = item.id is not None if isinstance(item, Document) else not isinstance(item, str)
        named = {"id": document.id} if has_id else {}
        yield {"text": document.text, "metadata": dict(document.metadata), **named}


def _hit(*, length: int, snippet: dict[str, Any] | None, passage: dict[str, int] | None, **hit: Any) -> Hit:
    shown = snippet and Snippet(snippet["text"], snippet["start"], tuple(map(tuple, snippet["spans"])))
    return Hit(**hit, snippet=shown or None, passage=None if passage is None else Span(**passage))
