"""A model that is served: texts in, the vectors that the library's `encode` gives out."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sentemb.encoding import for_role
from sentemb.encoding.encoder import Role, TextEncoder, Vectors, unique_texts
from sentemb.encoding.rows import ReadyTexts, RowEncoder, row_encoder
from sentemb.encoding.tokens import Tokens, tokens_of
from sentemb.serving.metrics import Metrics
from sentemb.serving.problems import Problem
from sentemb.serving.queues import Priority
from sentemb.serving.scheduler import Scheduler
from sentemb.serving.settings import Truncate

# Interactive is what is made ready and computed in about the time of a batch.
_FEW_TEXTS = 8
_FEW_CHARACTERS = 4000
# Texts made ready at one time: the first ones are computed while the next ones are tokenised.
_TEXTS_AT_ONCE = 256


class Encoded(NamedTuple):
    """The vectors of a request.

    Attributes:
        vectors: float32 (n, dim).
        tokens: Tokens that the model read of each text, (n,).
        cut: How many of the texts are longer than the model reads.
    """

    vectors: Vectors
    tokens: NDArray[np.int64]
    cut: int


class ServedEncoder:
    """An encoder behind the queues, for one event loop.

    Args:
        name: What requests call it.
        encoder: The encoder; nobody trains it meanwhile.
        scheduler: The model threads.
        metrics: Where texts are counted.
        truncate: What becomes of long texts where a request does not say.
        matryoshka: Whether it was trained so that the first dimensions do alone.
    """

    def __init__(
        self,
        name: str,
        encoder: TextEncoder,
        scheduler: Scheduler,
        metrics: Metrics,
        *,
        truncate: Truncate,
        matryoshka: bool,
    ) -> None:
        self.name = name
        self.encoder = encoder
        self.dimension = encoder.dimension
        self.fingerprint = encoder.fingerprint
        self.matryoshka = matryoshka
        self.agreement: dict[int, float] = {}  # what fewer dimensions cost; see `check_dimensions`
        self._scheduler = scheduler
        self._metrics = metrics
        self._truncate: Truncate = truncate
        self._rows: dict[Role | None, RowEncoder] = {None: row_encoder(encoder)}
        for role in ("query", "document"):
            own = for_role(encoder, role)
            self._rows[role] = self._rows[None] if own is encoder else row_encoder(own)
        self._tokenising = ThreadPoolExecutor(1, thread_name_prefix=f"tokenise-{name}")
        self._loop: asyncio.AbstractEventLoop | None = None
        # A tokenizer sets its limits at the first call, which must not happen beside another.
        self._rows[None].prepare(["first"])

    @property
    def queued(self) -> QueuedEncoder:
        """The same as a `TextEncoder` for other threads than the event loop's, with bulk priority."""
        return QueuedEncoder(self)

    def open(self) -> None:
        """Begin to serve, in the running event loop."""
        self._loop = asyncio.get_running_loop()

    def close(self) -> None:
        """End the thread that tokenises."""
        self._tokenising.shutdown(cancel_futures=True)

    async def encode(
        self,
        texts: Sequence[str],
        *,
        role: Role | None = None,
        priority: Priority | None = None,
        truncate: Truncate | None = None,
    ) -> Encoded:
        """Encode texts: the bytes that `encode` of the library gives, whatever else is being encoded.

        Args:
            texts: The texts.
            role: Of the texts, for the prompt and route of models that have one.
            priority: The queue; by default a few short texts are interactive, and all else is bulk.
            truncate: What becomes of texts that are longer than the model reads; by default what the server
                was started with.

        Returns:
            Vectors and counts.

        Raises:
            Problem: A text is too long and must not be cut, or too much waits already.
            InputError: A text is no string, or its vector is not finite.
        """
        unique, positions = unique_texts(texts)
        characters = sum(map(len, unique))
        few = len(unique) <= _FEW_TEXTS and characters <= _FEW_CHARACTERS
        priority = priority or ("interactive" if few else "bulk")
        source = self._rows[role]
        with self._scheduler.reserved(characters // 4 + 3 * len(unique)):
            parts = await self._parts(source, unique, positions, priority, truncate or self._truncate, few)
        lengths = np.concatenate([ready.lengths for ready, _ in parts] or [np.empty(0, np.int64)])
        vectors = np.concatenate([some for _, some in parts]) if parts else np.empty((0, self.dimension))
        cut_rows = np.zeros(len(unique), dtype=bool)
        start = 0
        for ready, _ in parts:
            cut_rows[[start + row for row in ready.cut]] = True
            start += len(ready.lengths)
        rows = vectors.astype(np.float32, copy=False)[positions]
        return self._counted(Encoded(rows, lengths[positions], int(cut_rows[positions].sum())))

    async def encode_ids(self, ids: Sequence[Sequence[int]]) -> Encoded:
        """Encode texts that are given as the model's own token ids, special tokens among them.

        Args:
            ids: The ids of each text.

        Returns:
            Vectors and counts.

        Raises:
            Problem: Too much waits already.
            InputError: An id is none of the model's, there are more than it reads, or it takes none.
        """
        ready = self._rows[None].prepare_ids(ids)
        few = len(ids) <= _FEW_TEXTS and ready.lengths.sum() <= _FEW_CHARACTERS // 4
        with self._scheduler.reserved(int(ready.lengths.sum())):
            vectors = await self._scheduler.compute(self._rows[None], ready, "interactive" if few else "bulk")
        return self._counted(Encoded(vectors, ready.lengths, 0))

    def _counted(self, encoded: Encoded) -> Encoded:
        self._metrics.texts.labels(self.name).inc(len(encoded.tokens))
        self._metrics.tokens.labels(self.name).inc(int(encoded.tokens.sum()))
        self._metrics.cut.labels(self.name).inc(encoded.cut)
        return encoded

    async def _parts(
        self,
        source: RowEncoder,
        unique: list[str],
        positions: NDArray[np.intp],
        priority: Priority,
        truncate: Truncate,
        few: bool,
    ) -> list[tuple[ReadyTexts, Vectors]]:
        """Make texts ready part by part, while the parts before are computed."""
        readied: list[ReadyTexts] = []
        computing: list[asyncio.Task[Vectors]] = []
        try:
            for start, some in _slices(unique):
                if few:
                    ready = source.prepare(some)
                else:
                    ready = await self._in_thread(source, some)
                if len(ready.cut) and truncate == "error":
                    raise self._too_long(int(np.flatnonzero(positions == start + ready.cut[0])[0]))
                readied.append(ready)
                computing.append(asyncio.ensure_future(self._scheduler.compute(source, ready, priority)))
            return list(zip(readied, await asyncio.gather(*computing), strict=True))
        except BaseException:
            for task in computing:
                task.cancel()
            await asyncio.gather(*computing, return_exceptions=True)
            raise

    async def _in_thread(self, source: RowEncoder, texts: list[str]) -> ReadyTexts:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._tokenising, source.prepare, texts)

    def _too_long(self, index: int) -> Problem:
        tokens = tokens_of(self.encoder)
        room = f"{tokens.room:,} tokens" if tokens else "maximum length"
        return Problem(
            409,
            f"text {index} is longer than the {room} of {self.name}; shorten it, or send "
            '"truncate": "truncate" to truncate it',
            field=f"input.{index}",
        )


class QueuedEncoder:
    """A served encoder as the library's `TextEncoder`, for threads: what `SearchIndex.load` takes."""

    def __init__(self, served: ServedEncoder, role: Role | None = None) -> None:
        self._served = served
        self._role = role
        self._encoder = served.encoder if role is None else for_role(served.encoder, role)
        self.name = served.encoder.name
        self.fingerprint = served.fingerprint if role is None else self._encoder.fingerprint
        self.dimension = served.dimension

    def for_role(self, role: Role) -> QueuedEncoder:
        """Return the encoder of queries or documents."""
        return QueuedEncoder(self._served, role)

    @property
    def tokens(self) -> Tokens | None:
        """The encoder's tokens."""
        return tokens_of(self._encoder)

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> Vectors:
        """Encode texts in their turn; see `TextEncoder.encode`. Not in the event loop's own thread."""
        served = self._served
        assert served._loop is not None  # the server has begun
        work = served.encode(list(texts), role=self._role, priority="bulk", truncate="truncate")
        return asyncio.run_coroutine_threadsafe(work, served._loop).result().vectors

    def describe(self) -> dict[str, Any]:
        """Say how vectors are made; see `TextEncoder.describe`."""
        return self._encoder.describe()


def _slices(texts: list[str]) -> Iterator[tuple[int, list[str]]]:
    for start in range(0, len(texts), _TEXTS_AT_ONCE):
        yield start, texts[start : start + _TEXTS_AT_ONCE]
