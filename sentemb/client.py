"""Clients of `sentemb serve`, synchronous and asynchronous."""

from __future__ import annotations

import asyncio
import base64
import functools
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Concatenate, Literal, ParamSpec, Self, TypeVar
from urllib.parse import quote

import httpx
import numpy as np
from numpy.typing import NDArray

from sentemb._calls import Ask, Ranked, Steps, ask, hits_of, parts, path_to, pause, read, result, write
from sentemb._network import find_proxy, is_loopback
from sentemb.errors import InputError
from sentemb.search.documents import Document
from sentemb.search.hit import Hit
from sentemb.search.prepared import Truncate
from sentemb.search.searching import Mode
from sentemb.search.writer import Changed

_START = "start a server with `sentemb serve`"
Given = ParamSpec("Given")
Result = TypeVar("Result")


class _Connection:
    """What both clients know of the server."""

    def __init__(self, url: str, key: str | None = None, *, timeout: float = 300.0, retries: int = 5) -> None:
        self.url = url.rstrip("/")
        self._retries = retries
        headers = {"Content-Type": "application/json"}
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        limits = httpx.Timeout(timeout, connect=min(10.0, timeout))
        try:
            address = httpx.URL(self.url)
        except httpx.InvalidURL as error:
            raise InputError(f"{url} is not a URL: {error}", "write it like http://127.0.0.1:8000") from None
        host = address.host
        proxy = find_proxy(address.scheme, host)
        self._server = f"{self.url} through the proxy {proxy}" if proxy else self.url
        self._remedy = f"set NO_PROXY={host} to reach it without the proxy" if proxy else _START
        # No proxy can reach this machine's own addresses, though the environment may name one for all.
        direct = {"trust_env": False} if is_loopback(host) else {}
        self._options: dict[str, Any] = {
            "base_url": self.url,
            "headers": headers,
            "timeout": limits,
            **direct,
        }

    def _again(self, response: httpx.Response, attempt: int) -> float | None:
        """Seconds until the next attempt; None where there is none."""
        if attempt == self._retries:
            return None
        return pause(response.status_code, response.headers.get("retry-after"))

    def _no_answer(self, error: httpx.HTTPError | httpx.InvalidURL) -> InputError:
        reason = str(error) or type(error).__name__
        return InputError(f"cannot reach {self._server}: {reason}", self._remedy)


def _call(
    steps: Callable[Concatenate[Client, Given], Steps[Result]],
) -> Callable[Concatenate[Client, Given], Result]:
    """Make the method of `Client` of the requests that it makes."""

    @functools.wraps(steps)
    def call(self: Client, /, *args: Given.args, **options: Given.kwargs) -> Result:
        asked, answer = steps(self, *args, **options), None
        while True:
            try:
                answer = self._send(asked.send(answer))
            except StopIteration as done:
                returned: Result = done.value
                return returned

    return call


def _twin(
    method: Callable[Concatenate[Client, Given], Result],
) -> Callable[Concatenate[AsyncClient, Given], Awaitable[Result]]:
    """Make the method of `AsyncClient` of that of `Client`."""
    steps: Callable[..., Steps[Result]] = method.__wrapped__  # type: ignore[attr-defined]

    @functools.wraps(method)
    async def call(self: AsyncClient, /, *args: Given.args, **options: Given.kwargs) -> Result:
        asked, answer = steps(self, *args, **options), None
        while True:
            try:
                answer = await self._send(asked.send(answer))
            except StopIteration as done:
                returned: Result = done.value
                return returned

    return call


class Client(_Connection):
    """Encodes and searches on a server that `sentemb serve` runs.

    A request that the server is too busy for is sent again when the server says so.

    Args:
        url: Where the server is, such as `http://127.0.0.1:8000`.
        key: The API key, where the server asks for one.
        timeout: Seconds that a request may take.
        retries: How often a request is sent again to a busy server.

    Raises:
        InputError: By every method: the server cannot be reached, or refuses the request and says why.

    Example:
        >>> with Client("http://127.0.0.1:8000") as client:  # doctest: +SKIP
        ...     client.encode(["a cat sat"]).shape
        ...     client.search("animals", "kitten", k=1)[0].text
        (1, 384)
        'a cat sat'
    """

    def __init__(self, url: str, key: str | None = None, *, timeout: float = 300.0, retries: int = 5) -> None:
        super().__init__(url, key, timeout=timeout, retries=retries)
        self._http = httpx.Client(**self._options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _send(self, asked: Ask) -> Any:
        attempt = 0
        while True:
            try:
                response = self._http.request(asked.method, asked.path, content=asked.content)
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise self._no_answer(error) from error
            if (seconds := self._again(response, attempt)) is None:
                return result(self._server, response.status_code, response.content)
            attempt += 1
            time.sleep(seconds)

    @_call
    def encode(
        self,
        texts: Sequence[str],
        *,
        model: str | None = None,
        role: Literal["query", "document"] | None = None,
        dimensions: int | None = None,
        truncate: Literal["error", "truncate"] | None = None,
    ) -> Steps[NDArray[np.float32]]:
        """Encode texts.

        Args:
            texts: The texts, in any number.
            model: The model; by default the server's first.
            role: Whose prompt the texts get, of models that have one.
            dimensions: Keep the first so many, of models that were trained for it.
            truncate: Refuse texts that are longer than the model reads, or encode their beginning; by default
                what the server was started with.

        Returns:
            float32 array (len(texts), dimensions): the bytes that `encode` of the library gives.
        """
        if isinstance(texts, str):
            raise InputError("texts must be a list, not a string", "wrap it in a list")
        model = model or (yield Ask("GET", "v1/models"))["data"][0]["id"]
        options = {"model": model, "role": role, "dimensions": dimensions, "truncate": truncate}
        rows: list[bytes] = []
        for some in parts(texts, len):
            answer = yield ask("POST", "v1/embeddings", input=some, encoding_format="base64", **options)
            rows += [base64.b64decode(one["embedding"]) for one in answer["data"]]
        if not rows:
            name = model.removesuffix(":query").removesuffix(":document")
            width = dimensions or (yield Ask("GET", f"v1/models/{quote(name)}"))["dimension"]
            return np.empty((0, width), dtype=np.float32)
        return np.frombuffer(b"".join(rows), dtype="<f4").reshape(len(rows), -1).astype(np.float32)

    @_call
    def rerank(
        self, query: str, documents: Sequence[str], *, model: str, k: int | None = None
    ) -> Steps[list[Ranked]]:
        """Order documents by a cross-encoder.

        Args:
            query: What is asked.
            documents: The texts.
            model: The cross-encoder.
            k: Keep the best so many.

        Returns:
            Places among `documents` and scores, best first.
        """
        body = {"model": model, "query": query, "documents": list(documents), "top_n": k}
        answer = yield ask("POST", "v1/rerank", **body)
        return [Ranked(one["index"], one["relevance_score"]) for one in answer["results"]]

    @_call
    def search(
        self,
        index: str,
        query: str,
        k: int = 10,
        *,
        mode: Mode = "dense",
        min_score: float | str | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> Steps[list[Hit]]:
        """Find the best documents for a query.

        Args:
            index: The index, by its name.
            query: What is asked.
            k: How many hits, 1,000 at most.
            mode: As for `SearchIndex.search`, like the rest.
            min_score: The lowest score, or percentile such as `99%`.
            where: Conditions on the metadata.

        Returns:
            The hits, best first; they have snippets in every mode.
        """
        body = {"query": query, "k": k, "mode": mode, "min_score": min_score, "where": where}
        return hits_of((yield ask("POST", path_to(index, "search"), **body)))

    @_call
    def add(
        self, index: str, documents: Iterable[Any], *, truncate: Truncate | None = None
    ) -> Steps[Changed]:
        """Add documents.

        Up to 2,048 documents are added together or not at all; more are sent in several requests. What was
        answered is in the index, whatever becomes of the server.

        Args:
            index: The index, by its name.
            documents: Texts, `(id, text)`, `(id, text, metadata)` or `Document`s.
            truncate: As for `SearchIndex.add`.

        Returns:
            The counts.
        """
        return (yield from write("POST", index, documents, truncate))

    @_call
    def update(
        self, index: str, documents: Iterable[Any], *, truncate: Truncate | None = None
    ) -> Steps[Changed]:
        """Put documents in the place of those with their ids, and add those with new ids; see `add`."""
        return (yield from write("PUT", index, documents, truncate))

    @_call
    def delete(self, index: str, ids: Iterable[str | int]) -> Steps[int]:
        """Delete documents by their ids, and say how many there were; 1 and "1" are different ids."""
        deleted = 0
        for some in parts(ids):
            deleted += (yield ask("DELETE", path_to(index, "documents"), ids=some))["deleted"]
        return deleted

    @_call
    def get(self, index: str, ids: Iterable[str | int]) -> Steps[list[Document | None]]:
        """The documents with some ids, in their order; None for an id that the index does not have."""
        return (yield from read(index, ids))

    @_call
    def stats(self, index: str) -> Steps[dict[str, Any]]:
        """What is known of an index: counts, model, language and the fields of its metadata."""
        answer: dict[str, Any] = yield Ask("GET", path_to(index, "stats"))
        return answer


class AsyncClient(_Connection):
    """The same as `Client`, with methods that are awaited.

    Args:
        url: As for `Client`, like the rest.
        key: The API key.
        timeout: Seconds that a request may take.
        retries: How often a request is sent again to a busy server.

    Example:
        >>> async with AsyncClient("http://127.0.0.1:8000") as client:  # doctest: +SKIP
        ...     hits = await client.search("animals", "kitten")
    """

    def __init__(self, url: str, key: str | None = None, *, timeout: float = 300.0, retries: int = 5) -> None:
        super().__init__(url, key, timeout=timeout, retries=retries)
        self._http = httpx.AsyncClient(**self._options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _send(self, asked: Ask) -> Any:
        attempt = 0
        while True:
            try:
                response = await self._http.request(asked.method, asked.path, content=asked.content)
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise self._no_answer(error) from error
            if (seconds := self._again(response, attempt)) is None:
                return result(self._server, response.status_code, response.content)
            attempt += 1
            await asyncio.sleep(seconds)

    encode = _twin(Client.encode)
    rerank = _twin(Client.rerank)
    search = _twin(Client.search)
    add = _twin(Client.add)
    update = _twin(Client.update)
    delete = _twin(Client.delete)
    get = _twin(Client.get)
    stats = _twin(Client.stats)
