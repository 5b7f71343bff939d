"""An encoder behind an OpenAI-compatible endpoint: `endpoint:URL#MODEL`."""

from __future__ import annotations

import base64
import binascii
import copy
import hashlib
import json
import logging
import os
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import httpx
import numpy as np
from rich.console import Console
from rich.progress import track

from sentemb._http import in_parts, retry_after
from sentemb._uris import ENDPOINT, is_loopback, without_secrets
from sentemb.encoding.encoder import Role, Vectors, check_finite, unique_texts
from sentemb.errors import InputError

logger = logging.getLogger(__name__)

KEY = "OPENAI_API_KEY"
"""Variable of the environment with the key of the endpoint."""
_FORM = "write it like endpoint:https://api.openai.com/v1#text-embedding-3-small"
# Of a request: text-embeddings-inference takes 32 texts by default, OpenAI 300,000 tokens.
_TEXTS, _CHARACTERS = 32, 100_000
_BUSY = (408, 429, 500, 502, 503, 504)
_RETRIES = 5  # after 1, 2, 4, 8 and 16 seconds, unless the endpoint says when
_LONGEST_WAIT = 600.0  # seconds that an endpoint may ask for
_SECRET = 8  # characters from which a key is one
_TIMEOUT = 120.0  # seconds that a request may take


def split_address(address: str) -> tuple[str, str]:
    """Return the URL and the model of `endpoint:URL#MODEL`, or raise InputError."""
    url, _, model = address.removeprefix(ENDPOINT).partition("#")
    # Without a scheme, it is not a URI, but what stands in it may be secret all the same.
    place = without_secrets(url).rpartition("@")[2].partition("?")[0]
    shown = f"{ENDPOINT}{place}#{model}" if model else f"{ENDPOINT}{place}"
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        parsed = httpx.URL()
    if parsed.scheme not in ("http", "https") or not parsed.host or not model:
        raise InputError(f"{shown} is not of the form endpoint:URL#MODEL", _FORM)
    if parsed.userinfo or parsed.query:
        raise InputError(f"{shown}: the URL has a password or a query", f"remove it, and set {KEY} instead")
    return url.rstrip("/"), model


class EndpointEncoder:
    """Encodes with an OpenAI-compatible endpoint, such as OpenAI's, vLLM's or that of `sentemb serve`.

    A busy endpoint is asked again, at the time that it names. An empty text is sent as a space, which OpenAI
    requires. `sentemb serve` also gets the role of the texts and truncates long ones, so its vectors are
    those of the library; other endpoints encode queries and documents alike.

    Args:
        address: `endpoint:URL#MODEL`; the URL is that before `/embeddings`, often with `/v1` at its end. The
            key is read from `OPENAI_API_KEY` and is never printed or recorded.

    Raises:
        InputError: Here and by `encode`: the endpoint cannot be reached, does not have the model, or gives an
            answer that cannot be used.

    Example:
        >>> encoder = EndpointEncoder("endpoint:http://127.0.0.1:8000/v1#static-mini")  # doctest: +SKIP
        >>> encoder.encode(["a cat sat"]).shape  # doctest: +SKIP
        (1, 256)
    """

    def __init__(self, address: str) -> None:
        self._url, self._model = split_address(address)
        self.name = f"{ENDPOINT}{self._url}#{self._model}"
        self._key = os.environ.get(KEY, "").strip()
        if not (self._key.isascii() and self._key.isprintable()):
            raise InputError(f"{KEY} contains characters that a key cannot have", "set it again")
        self._http = httpx.Client(
            headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
            timeout=_TIMEOUT,
            # No proxy can reach this machine's own addresses, though the environment may name one for all.
            trust_env=not is_loopback(httpx.URL(self._url).host),
        )
        self._role: Role | None = None
        self._dimension: int | None = None
        self._answered: str | None = None
        self._card = self._read_card()
        self._is_sentemb = self._card.get("owned_by") == "sentemb"
        self._request(["text"])  # an endpoint that cannot be used must not cost minutes of other work

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        assert self._dimension is not None  # the first request has set it
        return self._dimension

    @property
    def similarity(self) -> str:
        """The similarity that the endpoint names, or the cosine."""
        return str(self._card.get("similarity", "cosine")) if self._is_sentemb else "cosine"

    @property
    def fingerprint(self) -> str:
        """Hash of the address and of what the endpoint says of itself, and the role where it has one."""
        said = [self._url, self._model, self._answered, self._dimension, self._card, self._role]
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()

    def for_role(self, role: Role) -> EndpointEncoder:
        """Return the encoder of queries or documents; the same one for endpoints without roles."""
        if not self._is_sentemb:
            return self
        own = copy.copy(self)
        own._role = role
        return own

    def describe(self) -> dict[str, Any]:
        """Describe what was served; see `TextEncoder.describe`."""
        return {
            "encoder": "endpoint",
            "backend": self._url,
            "model": self._model,
            "answered_as": self._answered,
            "said_of_itself": self._card,
            "similarity": self.similarity,
            "precision": "unknown",
        }

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> Vectors:
        """Encode texts; see `TextEncoder.encode`."""
        unique, positions = unique_texts(texts)
        if not unique:
            return np.zeros((0, self.dimension), dtype=np.float32)
        batches = in_parts(unique, len, most=_TEXTS, limit=_CHARACTERS)
        console = Console(stderr=True)
        parts = track([*batches], "encoding", console=console, transient=True, disable=not progress)
        truncated, found = 0, []
        for part in parts:
            answer, vectors = self._request(part)
            found.append(vectors)
            truncated += int(answer.get("truncated") or 0) if self._is_sentemb else 0
        if truncated:
            logger.warning("%s: %d texts are longer than its maximum; truncated", self.name, truncated)
        vectors = np.concatenate(found)[positions]
        check_finite(vectors, texts, name=self.name)
        return vectors

    def _request(self, texts: list[str]) -> tuple[dict[str, Any], Vectors]:
        """Return the answer for some texts, and their vectors."""
        body: dict[str, Any] = {"model": self._model, "input": texts, "encoding_format": "base64"}
        if self._is_sentemb:
            body |= {"truncate": "truncate"} | ({"role": self._role} if self._role else {})
        else:
            body["input"] = [text or " " for text in texts]
        response = self._send("POST", "embeddings", body)
        if not response.is_success:
            raise self._refusal(response)
        try:
            answer = response.json()
            data = answer["data"]
            order = [row.get("index", place) for place, row in enumerate(data)]
            rows = [_numbers(data[place]["embedding"]) for place in np.argsort(order, kind="stable")]
            said = self._hidden(str(answer.get("model", "")))
            complete = sorted(order) == [*range(len(texts))]
        except (AttributeError, KeyError, TypeError, ValueError, binascii.Error) as error:
            text = self._shown(response)
            raise InputError(
                f"{self._url} does not answer as OpenAI's API does: {text}", "check the URL"
            ) from error
        if not complete:
            raise InputError(f"{self._url} returned {len(rows)} vectors for {len(texts)} texts")
        widths = [*dict.fromkeys([*([self._dimension] if self._dimension else []), *map(len, rows)])]
        if len(widths) > 1 or not widths[0]:
            raise InputError(
                f"{self.name} returned vectors of {widths[-1]} dimensions, after {widths[0]} before",
                "check what the endpoint serves",
            )
        if self._answered not in (None, said):
            raise InputError(
                f"{self.name} answered as {said}, after {self._answered} before",
                "check what the endpoint serves",
            )
        self._dimension, self._answered = widths[0], said
        return answer, np.stack(rows)

    def _send(self, method: str, path: str, body: dict[str, Any] | None = None) -> httpx.Response:
        """Send a request, again if the endpoint is busy or the connection ends."""
        content = None if body is None else json.dumps(body).encode()
        headers = {} if body is None else {"Content-Type": "application/json"}
        for attempt in range(_RETRIES + 1):
            stated, last = None, attempt == _RETRIES
            try:
                response = self._http.request(method, f"{self._url}/{path}", content=content, headers=headers)
                if response.status_code not in _BUSY or last:
                    return response
                why, stated = f"status {response.status_code}", retry_after(response)
            except httpx.RequestError as error:
                why = self._hidden(str(error)) or type(error).__name__
                if last or isinstance(error, (httpx.ConnectError, httpx.UnsupportedProtocol)):
                    raise InputError(
                        f"cannot reach {self._url}: {why}", "check the URL and the network"
                    ) from None
            seconds = float(2**attempt) if stated is None else stated
            if seconds > _LONGEST_WAIT:
                raise InputError(
                    f"{self._url} is busy ({why}) and asks to wait {seconds:,.0f} s", "try again later"
                )
            logger.warning("%s: %s; trying again in %.0f s", self._url, why, seconds)
            time.sleep(seconds)
        raise AssertionError("the last attempt returns or raises")

    def _read_card(self) -> dict[str, Any]:
        """Return what the endpoint says of the model; nothing where it does not have that route."""
        response = self._send("GET", f"models/{quote(self._model)}")
        if response.status_code in (401, 403):
            raise self._refusal(response)
        try:
            card = json.loads(self._hidden(response.text)) if response.is_success else {}
        except ValueError:
            card = {}
        return card if isinstance(card, dict) else {}

    def _refusal(self, response: httpx.Response) -> InputError:
        """Return the error that a response means."""
        status, said = response.status_code, self._shown(response)
        if status in (401, 403):
            what = "rejects the API key" if self._key else "requires an API key"
            return InputError(f"{self._url} {what} (status {status})", f"set {KEY} to the endpoint's key")
        if status == 404:
            return InputError(
                f"{self._url} does not have {self._model!r} (status 404): {said}",
                "check the model after #, and the URL, which often ends in /v1",
            )
        return InputError(f"{self._url} answered with status {status}: {said}")

    def _shown(self, response: httpx.Response) -> str:
        """Return what a response says, in one line and without the key."""
        text = response.text
        try:
            answer = response.json()
            error = answer.get("error") or answer
            text = error if isinstance(error, str) else error.get("message") or error.get("detail") or text
        except (AttributeError, ValueError):
            pass
        return " ".join(self._hidden(str(text)).split())[:200]

    def _hidden(self, text: str) -> str:
        # Local servers get any word as a key, which may be part of others.
        return text.replace(self._key, "***") if len(self._key) >= _SECRET else text


def _numbers(embedding: Any) -> Vectors:
    """Return an embedding, which is a list of numbers or float32 values in base64."""
    if isinstance(embedding, str):
        return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4").astype(np.float32)
    vector: Vectors = np.asarray(embedding, dtype=np.float32)
    if vector.ndim != 1:
        raise ValueError("an embedding is a list of numbers")
    return vector
