"""Clients of `sentemb serve`, synchronous and asynchronous."""

from __future__ import annotations

import asyncio
import base64
import functools
import json
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import tee
from typing import Any, Concatenate, Literal, ParamSpec, Self, TypeVar
from urllib.parse import quote, urlencode

import httpx
import numpy as np
from numpy.typing import NDArray

from sentemb._http import in_parts, retry_after
from sentemb._uris import find_proxy, is_loopback
from sentemb.errors import InputError
from sentemb.search import Changed, Document, Hit, Hits, Snippet
from sentemb.search.documents import as_documents
from sentemb.search.passages import Span

logger = logging.getLogger(__name__)
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
LongDocuments = Literal["split", "warn", "error"]

_MAX_ADDRESS = 4000  # characters of the ids in an address
_MAX_WAIT = 60.0


def _path(index: str, what: str) -> str:
    return f"v1/indexes/{quote(index, safe='')}/{what}"


@dataclass(frozen=True, slots=True)
class Ranked:
    """A document of `Client.rerank`: its position among the documents, and its score; larger is better."""

    index: int
    score: float


class AsyncClient:
    """Encodes and searches on a server that `sentemb serve` runs.

    A request to a busy server is retried when the server says so.

    Args:
        url: URL of the server, such as `http://127.0.0.1:8000`.
        key: The API key, if the server has keys.
        timeout: Seconds that a request may take.
        retries: How often a request is retried.

    Raises:
        InputError: By every method: the server cannot be reached, or rejects the request and says why.

    Example:
        >>> async def first_hit(question: str) -> str:
        ...     async with AsyncClient("http://127.0.0.1:8000") as client:
        ...         hits = await client.search("animals", question, k=1)
        ...     return hits[0].text
        >>> asyncio.run(first_hit("kitten"))  # doctest: +SKIP
        'a cat sat'
    """

    _transport: type[httpx.AsyncClient | httpx.Client] = httpx.AsyncClient

    def __init__(self, url: str, key: str | None = None, *, timeout: float = 300.0, retries: int = 5) -> None:
        self.url = url.rstrip("/")
        self._retries = retries
        try:
            address = httpx.URL(self.url)
        except httpx.InvalidURL as error:
            raise InputError(f"{url} is not a URL: {error}", "write it like http://127.0.0.1:8000") from None
        proxy = find_proxy(address.scheme, address.host)
        self._server = f"{self.url} through the proxy {proxy}" if proxy else self.url
        without = f"set NO_PROXY={address.host} to reach it without the proxy"
        self._remedy = without if proxy else "start a server with `sentemb serve`"
        authorization = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._http: httpx.AsyncClient | httpx.Client = self._transport(
            base_url=self.url,
            headers={"Content-Type": "application/json", **authorization},
            timeout=httpx.Timeout(timeout, connect=min(10.0, timeout)),
            # No proxy can reach this machine's own addresses, though the environment may name one for all.
            trust_env=not is_loopback(address.host),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        if isinstance(self._http, httpx.Client):
            self._http.close()
        else:
            await self._http.aclose()

    async def encode(
        self,
        texts: Sequence[str],
        *,
        model: str | None = None,
        role: Literal["query", "document"] | None = None,
        dimensions: int | None = None,
        truncate: Literal["error", "truncate"] | None = None,
    ) -> NDArray[np.float32]:
        """Encode texts.

        Args:
            texts: Any number of texts.
            model: The model; the server's first one by default.
            role: Role of the texts, which selects the model's prompt.
            dimensions: Keep only the first dimensions, for models that were trained for it.
            truncate: Texts longer than the model's maximum length: raise an error, or encode their beginning.
                The default is the setting of the server.

        Returns:
            float32 array (len(texts), dimensions) with the bytes that `encode` of the library returns.
        """
        if isinstance(texts, str):
            raise InputError("texts must be a list, not a string", "wrap it in a list")
        model = model or (await self._call("GET", "v1/models"))["data"][0]["id"]
        options = {"model": model, "role": role, "dimensions": dimensions, "truncate": truncate}
        rows: list[bytes] = []
        for part in in_parts(texts, len):
            answer = await self._call(
                "POST", "v1/embeddings", input=part, encoding_format="base64", **options
            )
            rows += [base64.b64decode(item["embedding"]) for item in answer["data"]]
        if not rows:
            name = model.removesuffix(":query").removesuffix(":document")
            width = dimensions or (await self._call("GET", f"v1/models/{quote(name)}"))["dimension"]
            return np.empty((0, width), dtype=np.float32)
        return np.frombuffer(b"".join(rows), dtype="<f4").reshape(len(rows), -1).astype(np.float32)

    async def rerank(
        self, query: str, documents: Sequence[str], *, model: str, k: int | None = None
    ) -> list[Ranked]:
        """Rank documents with a cross-encoder.

        Args:
            query: The query.
            documents: The texts.
            model: The cross-encoder.
            k: Number of documents to return; all by default.

        Returns:
            Positions in `documents` and scores, best first.
        """
        body = {"model": model, "query": query, "documents": list(documents), "top_n": k}
        answer = await self._call("POST", "v1/rerank", **body)
        return [Ranked(result["index"], result["relevance_score"]) for result in answer["results"]]

    async def search(
        self,
        index: str,
        query: str,
        k: int = 10,
        *,
        mode: Literal["dense", "keyword", "hybrid"] = "dense",
        min_score: float | str | None = None,
        where: Mapping[str, Any] | None = None,
        abstain: bool = False,
    ) -> Hits:
        """Find the best documents for a query.

        Args:
            index: Name of the index.
            query: The query.
            k: Number of hits, up to 1,000.
            mode: As for `SearchIndex.search`, like the rest.
            min_score: The lowest score, or a percentile such as `99%`.
            where: Conditions on the metadata.
            abstain: Return no hits, but the `reason`, if no document seems to answer the query.

        Returns:
            The hits, best first, with snippets in every mode.
        """
        body = {"query": query, "k": k, "mode": mode, "min_score": min_score, "where": where}
        body |= {"abstain": True} if abstain else {}
        answer = await self._call("POST", _path(index, "search"), **body)
        for warning in answer["warnings"]:
            logger.warning("%s", warning)
        hits = Hits(_hit(**hit) for hit in answer["hits"])
        hits.reason = answer["reason"]
        return hits

    async def add(
        self, index: str, documents: Iterable[Any], *, truncate: LongDocuments | None = None
    ) -> Changed:
        """Add documents.

        Up to 2,048 documents are added together or not at all; more are sent in several requests. What the
        server has confirmed is in the index, even if the server is killed.

        Args:
            index: Name of the index.
            documents: Texts, `(id, text)`, `(id, text, metadata)` or `Document`s.
            truncate: As for `SearchIndex.add`.

        """
        return await self._write("POST", index, documents, truncate)

    async def update(
        self, index: str, documents: Iterable[Any], *, truncate: LongDocuments | None = None
    ) -> Changed:
        """Replace documents by their ids, and add those with new ids; see `add`."""
        return await self._write("PUT", index, documents, truncate)

    async def delete(self, index: str, ids: Iterable[str | int]) -> int:
        """Delete documents by their ids, and return their number; 1 and "1" are different ids."""
        answers = [await self._call("DELETE", _path(index, "documents"), ids=part) for part in in_parts(ids)]
        return sum(answer["deleted"] for answer in answers)

    async def get(self, index: str, ids: Iterable[str | int]) -> list[Document | None]:
        """Return the documents with these ids, in their order; None for an unknown id."""
        documents: list[Document | None] = []
        for part in in_parts(map(json.dumps, ids), len, limit=_MAX_ADDRESS):
            query = urlencode([("id", encoded) for encoded in part])
            answer = await self._call("GET", f"{_path(index, 'documents')}?{query}")
            documents += [None if item is None else Document(**item) for item in answer["documents"]]
        return documents

    async def stats(self, index: str) -> dict[str, Any]:
        """Describe an index: counts, model, language and the fields of its metadata."""
        answer: dict[str, Any] = await self._call("GET", _path(index, "stats"))
        return answer

    async def _write(
        self, method: str, index: str, documents: Iterable[Any], truncate: str | None
    ) -> Changed:
        total = Changed(0, 0, 0)
        for part in in_parts(_bodies(documents), lambda body: len(body["text"])):
            answer = await self._call(method, _path(index, "documents"), documents=part, truncate=truncate)
            counts = [answer[name] for name in ("added", "replaced", "skipped", "chunked", "truncated")]
            total = Changed(*map(sum, zip(total, counts, strict=True)))
        return total

    async def _call(self, method: str, path: str, **fields: Any) -> Any:
        """Send a request with those fields that are not None, and return the answer."""
        values = {name: value for name, value in fields.items() if value is not None}
        try:
            content = json.dumps(values, ensure_ascii=False, allow_nan=False).encode() if fields else None
        except (TypeError, ValueError) as error:
            raise InputError(
                f"the request cannot be sent as JSON: {error}", "pass only strings, numbers, lists and dicts"
            ) from None
        for attempt in range(self._retries + 1):
            try:
                sent = self._http.request(method, path, content=content)
                response = sent if isinstance(sent, httpx.Response) else await sent
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                reason = str(error) or type(error).__name__
                raise InputError(f"cannot reach {self._server}: {reason}", self._remedy) from error
            if response.status_code not in (429, 503):
                break
            if attempt < self._retries:
                stated = retry_after(response)
                seconds = min(1.0 if stated is None else stated, _MAX_WAIT)
                if isinstance(self._http, httpx.Client):
                    time.sleep(seconds)
                else:
                    await asyncio.sleep(seconds)
        try:
            answer = response.json()
        except ValueError:
            answer = None
        if response.is_success and answer is not None:
            return answer
        detail = answer.get("detail") if isinstance(answer, dict) else None
        if detail is None or response.status_code == 500:  # it has failed, or it is not a server of sentemb
            body = detail or response.content[:200]
            raise RuntimeError(f"{self._server} answered with status {response.status_code}: {body!r}")
        raise InputError(f"{self._server} rejected the request: {detail}")


class _BlockingClient(AsyncClient):
    """An `AsyncClient` whose coroutines end without an event loop, because its transport blocks."""

    _transport = httpx.Client


def _blocking(
    method: Callable[Concatenate[AsyncClient, Parameters], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[Client, Parameters], Result]:
    """Make a method of `Client` from that of `AsyncClient`."""

    @functools.wraps(method)
    def call(self: Client, /, *args: Parameters.args, **options: Parameters.kwargs) -> Result:
        coroutine = method(self._client, *args, **options)
        try:
            coroutine.send(None)
        except StopIteration as done:
            result: Result = done.value
            return result
        raise AssertionError("a blocking call has waited")

    return call


class Client:
    """The same as `AsyncClient`, with the same arguments, and with methods that are not awaited.

    Example:
        >>> with Client("http://127.0.0.1:8000") as client:  # doctest: +SKIP
        ...     client.encode(["a cat sat"]).shape
        ...     client.search("animals", "kitten", k=1)[0].text
        (1, 384)
        'a cat sat'
    """

    def __init__(self, url: str, key: str | None = None, *, timeout: float = 300.0, retries: int = 5) -> None:
        self._client = _BlockingClient(url, key, timeout=timeout, retries=retries)
        self.url = self._client.url

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    close = _blocking(AsyncClient.close)
    encode = _blocking(AsyncClient.encode)
    rerank = _blocking(AsyncClient.rerank)
    search = _blocking(AsyncClient.search)
    add = _blocking(AsyncClient.add)
    update = _blocking(AsyncClient.update)
    delete = _blocking(AsyncClient.delete)
    get = _blocking(AsyncClient.get)
    stats = _blocking(AsyncClient.stats)


def _bodies(documents: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Return documents as a request has them; those without an id get one from the index."""
    if isinstance(documents, str | bytes):
        documents = as_documents(documents)  # raises when it is read; its letters are not documents
    items, copies = tee(documents)
    for item, document in zip(items, as_documents(copies), strict=True):
        has_id = item.id is not None if isinstance(item, Document) else not isinstance(item, str)
        id_of = {"id": document.id} if has_id else {}
        yield {"text": document.text, "metadata": dict(document.metadata), **id_of}


def _hit(*, length: int, snippet: dict[str, Any], passage: dict[str, int] | None, **hit: Any) -> Hit:
    shown = Snippet(snippet["text"], snippet["start"], tuple(map(tuple, snippet["spans"])))
    return Hit(**hit, snippet=shown, passage=None if passage is None else Span(**passage))
