"""A served model: tokenizes the texts of a request and waits for their vectors or scores."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from sentemb.encoding import TextEncoder, for_role, similarity_of
from sentemb.encoding.rows import ReadyTexts, RowEncoder, row_encoder
from sentemb.encoding.tokens import Tokens, tokens_of
from sentemb.serving.http import Problem
from sentemb.serving.scheduler import Matrix, Priority, Scheduler
from sentemb.serving.schemas import Role, Truncate

# An interactive request is tokenized and computed in about the time of one batch.
_FEW_INPUTS = 8
_FEW_CHARACTERS = 4000
# Inputs tokenized at a time: the first ones are computed while the next ones are tokenized.
_CHUNK = 256


class Encoded(NamedTuple):
    """The result of a request."""

    vectors: Matrix  # float32 (n, dim); scores or probabilities for a reranker or classifier
    tokens: int  # that the model read
    truncated: int  # number of inputs longer than the model's maximum length


class ServedModel:
    """A model behind the queues of a scheduler: an encoder has rows for each role, others only for None."""

    max_tokens: int | None = None
    """Tokens that the model reads of a text, if that is known."""

    def __init__(
        self, name: str, rows: Mapping[Role | None, RowEncoder], scheduler: Scheduler, truncate: Truncate
    ) -> None:
        self.name = name
        self._rows = rows
        self._scheduler = scheduler
        self._metrics = scheduler.metrics
        self._truncate: Truncate = truncate
        self._tokenizing = ThreadPoolExecutor(1, thread_name_prefix=f"tokenize-{name}")

    def close(self) -> None:
        """Stop the thread that tokenizes."""
        self._tokenizing.shutdown(cancel_futures=True)

    async def compute(
        self,
        inputs: Sequence[Any],
        *,
        role: Role | None = None,
        truncate: Truncate | None = None,
        field: str = "input",
    ) -> Encoded:
        """Compute texts or pairs; each result is the same whatever else is computed."""
        places: dict[Any, int] = {}
        positions = [places.setdefault(value, len(places)) for value in inputs]
        unique = list(places)
        size = sum(map(_characters, unique))
        few = len(unique) <= _FEW_INPUTS and size <= _FEW_CHARACTERS
        source = self._rows[role]
        # Few texts do not wait for the tokens of a bulk request.
        executor = None if few else self._tokenizing
        loop = asyncio.get_running_loop()
        parts: list[ReadyTexts] = []
        computing: list[asyncio.Task[Matrix]] = []
        with self._scheduler.reserve(size // 4 + 3 * len(unique)):
            try:
                for start in range(0, len(unique), _CHUNK):
                    ready = await loop.run_in_executor(
                        executor, source.prepare, unique[start : start + _CHUNK]
                    )
                    if len(ready.cut) and (truncate or self._truncate) == "error":
                        raise self._too_long(f"{field}.{positions.index(start + int(ready.cut[0]))}")
                    parts.append(ready)
                    priority: Priority = "interactive" if few else "bulk"
                    work = self._scheduler.compute(source, ready, priority)
                    computing.append(asyncio.ensure_future(work))
                vectors = np.concatenate(await asyncio.gather(*computing))
            except BaseException:
                for task in computing:
                    task.cancel()
                await asyncio.gather(*computing, return_exceptions=True)
                raise
        lengths = np.concatenate([ready.lengths for ready in parts])[positions]
        is_long = np.concatenate([np.isin(range(len(one.lengths)), one.cut) for one in parts])[positions]
        encoded = Encoded(vectors[positions], int(lengths.sum()), int(is_long.sum()))
        self._metrics.texts.labels(self.name).inc(len(inputs))
        self._metrics.tokens.labels(self.name).inc(encoded.tokens)
        self._metrics.truncated.labels(self.name).inc(encoded.truncated)
        return encoded

    def _too_long(self, field: str) -> Problem:
        room = "maximum length" if self.max_tokens is None else f"{self.max_tokens:,} tokens"
        remedy = 'shorten it, or send "truncate": "truncate" to truncate it'
        return Problem(409, f"{field} is longer than the {room} of {self.name}; {remedy}", field=field)


class ServedEncoder(ServedModel):
    """An encoder behind the queues; its vectors have the bytes that `encode` of the library returns."""

    def __init__(
        self, encoder: TextEncoder, scheduler: Scheduler, truncate: Truncate, *, is_matryoshka: bool = False
    ) -> None:
        rows: dict[Role | None, RowEncoder] = {None: row_encoder(encoder)}
        for role in ("query", "document"):
            own = for_role(encoder, role)
            rows[role] = rows[None] if own is encoder else row_encoder(own)
        # A tokenizer sets its limits in the first call, which must not run in parallel to another. Kernels
        # are tried in it too, with as many threads as torch has before the scheduler starts.
        encoder.encode(["first"])
        tokens = tokens_of(encoder)
        super().__init__(encoder.name, rows, scheduler, truncate)
        self.max_tokens = tokens.room if tokens else None
        self.encoder = encoder
        self.dimension = encoder.dimension
        self.similarity = similarity_of(encoder)
        self.precision: str | None = encoder.describe().get("precision")
        self.fingerprint = encoder.fingerprint
        self.is_matryoshka = is_matryoshka
        self.loop: asyncio.AbstractEventLoop | None = None  # the server's, once it runs


class QueuedEncoder:
    """A served encoder as the library's `TextEncoder`, for the threads of a `SearchIndex`."""

    def __init__(self, served: ServedEncoder, role: Role | None = None) -> None:
        self._served = served
        self._role = role
        self._encoder = served.encoder if role is None else for_role(served.encoder, role)
        self.name = served.encoder.name
        self.fingerprint = self._encoder.fingerprint
        self.dimension = served.dimension

    def for_role(self, role: Role) -> QueuedEncoder:
        """Return the encoder of queries or documents."""
        return QueuedEncoder(self._served, role)

    @property
    def tokens(self) -> Tokens | None:
        """The encoder's tokens."""
        return tokens_of(self._encoder)

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> Matrix:
        """Encode texts; see `TextEncoder.encode`. Never in the thread of the event loop."""
        served = self._served
        assert served.loop is not None  # the server runs
        if not len(texts):
            return np.empty((0, self.dimension), dtype=np.float32)
        work = served.compute(texts, role=self._role, truncate="truncate")
        return asyncio.run_coroutine_threadsafe(work, served.loop).result().vectors

    def describe(self) -> dict[str, Any]:
        """Describe how vectors are computed; see `TextEncoder.describe`."""
        return self._encoder.describe()


def _characters(value: str | tuple[str, str]) -> int:
    return len(value) if isinstance(value, str) else sum(map(len, value))
