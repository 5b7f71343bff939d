"""The indexes that are served: each by its name, with one writer at a time."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from anyio import to_thread

from sentemb.encoding.encoder import Role
from sentemb.errors import InputError, unknown
from sentemb.search import Field, SearchIndex
from sentemb.search.encoders import AdaptedEncoder, RolelessEncoder, has_built
from sentemb.search.manifest import Manifest
from sentemb.serving.batcher import ServedEncoder
from sentemb.serving.problems import Problem

_MOST_WAITING = 32  # changes of one index
Done = TypeVar("Done")


@dataclass(eq=False)
class ServedIndex:
    """An index that is served.

    Args:
        name: What requests call it: the name of its folder.
        path: The folder.
        index: The index, whose encoder waits in the queue of its model.
        encoder: The model, for queries.
    """

    name: str
    path: Path
    index: SearchIndex
    encoder: ServedEncoder
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _reading_fields: asyncio.Lock = field(default_factory=asyncio.Lock)
    _fields: tuple[object, tuple[Field, ...]] | None = None
    _waiting: int = 0

    @property
    def writable(self) -> bool:
        """Whether the folder can be changed."""
        return os.access(self.path, os.W_OK | os.X_OK)

    @property
    def query_role(self) -> Role | None:
        """The role that queries of the index are encoded with; None where the index was built without."""
        encoder = self.index.encoder
        own = encoder.queries if isinstance(encoder, AdaptedEncoder) else encoder
        return None if isinstance(own, RolelessEncoder) else "query"

    @property
    def adapted(self) -> bool:
        """Whether the vectors of queries are mapped to those of another encoder."""
        return isinstance(self.index.encoder, AdaptedEncoder)

    async def change(self, work: Callable[[SearchIndex], Done]) -> Done:
        """Change the index after those who asked before; what has begun is finished in any case.

        Args:
            work: Changes the index, in a thread.

        Returns:
            What `work` returns.

        Raises:
            Problem: 429 where too many wait, 403 where the folder cannot be written to.
        """
        if not self.writable:
            raise Problem(
                403,
                f"the folder of the index {self.name} is not writable by the server; change its permissions",
            )
        if self._waiting >= _MOST_WAITING:
            raise Problem(
                429,
                f"{self._waiting} changes of {self.name} are already waiting; try again in 1 s",
                headers={"Retry-After": "1"},
            )
        self._waiting += 1
        try:
            async with self._writing:
                return await to_thread.run_sync(work, self.index)
        finally:
            self._waiting -= 1

    async def fields(self) -> tuple[Field, ...]:
        """The fields of the metadata, read anew where documents have changed."""
        async with self._reading_fields:
            manifest = await to_thread.run_sync(lambda: self.index.manifest)
            # The manifest of a state is made once.
            if self._fields is None or self._fields[0] is not manifest:
                self._fields = manifest, await to_thread.run_sync(self.index.fields)
            return self._fields[1]


class Indexes:
    """The indexes of a server."""

    def __init__(self, served: Iterable[ServedIndex]) -> None:
        self._served = {one.name: one for one in served}

    @classmethod
    def open(cls, paths: Iterable[Path], encoders: Mapping[str, ServedEncoder]) -> Indexes:
        """Open index folders.

        Args:
            paths: The folders.
            encoders: The models that are served, by their names.

        Returns:
            The indexes.

        Raises:
            InputError: A folder holds no index or a damaged one, two have the same name, or no model that is
                served is the one of an index.
        """
        opened: dict[str, ServedIndex] = {}
        for path in paths:
            name = path.resolve().name
            if name in opened:
                raise InputError(
                    f"{path} and {opened[name].path} are both called {name}", "rename one of them"
                )
            encoder = _encoder_of(path, encoders)
            opened[name] = ServedIndex(name, path, SearchIndex.load(path, encoder.queued), encoder)
        return cls(opened.values())

    def __iter__(self) -> Iterator[ServedIndex]:
        return iter(self._served.values())

    def names(self) -> list[str]:
        """The names of the indexes, in the order in which they were given."""
        return list(self._served)

    def get(self, name: str) -> ServedIndex:
        """The index with a name.

        Args:
            name: The name.

        Returns:
            The index.

        Raises:
            Problem: 404 where there is none.
        """
        if name not in self._served:
            raise Problem(404, str(unknown("index", name, self._served)), field="name")
        return self._served[name]

    def close(self) -> None:
        """Forget the indexes; their files are closed with the last search of them."""
        self._served.clear()


def _encoder_of(path: Path, encoders: Mapping[str, ServedEncoder]) -> ServedEncoder:
    """The served model whose vectors an index holds."""
    wanted = Manifest.read(path).encoder
    for encoder in encoders.values():
        if has_built(encoder.queued, wanted):
            return encoder
    raise InputError(
        f"{path} was built with {wanted.name} ({wanted.fingerprint[:12]}), which is not served",
        "serve its model too: sentemb serve MODEL --index FOLDER",
    )
