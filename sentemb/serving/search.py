"""`/v1/indexes`: what the library's `SearchIndex` does, over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

from anyio import to_thread
from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi import Path as PathParameter

from sentemb.encoding import for_role
from sentemb.encoding.tokens import tokens_of
from sentemb.errors import InputError
from sentemb.search import Changed, Document, Field, Hits, SearchIndex
from sentemb.search.keywords import snippets_of
from sentemb.serving import schemas
from sentemb.serving.http import JsonRoute, Problem, find
from sentemb.serving.models import QueuedEncoder, ServedEncoder
from sentemb.serving.settings import Settings

_MAX_WAITING = 32  # changes of one index
Result = TypeVar("Result")


class ServedIndex:
    """An index with one writer at a time, whose queries and new documents wait in the queue of its model."""

    def __init__(self, name: str, path: Path, encoder: ServedEncoder) -> None:
        self.name = name
        self.path = path
        self.model = encoder.name
        self.index = SearchIndex.load(path, QueuedEncoder(encoder))
        self._writing = asyncio.Lock()
        self._reading_fields = asyncio.Lock()
        self._fields: tuple[object, tuple[Field, ...]] | None = None
        self._waiting = 0

    @property
    def is_writable(self) -> bool:
        """Return whether the server can write to the folder."""
        return os.access(self.path, os.W_OK | os.X_OK)

    async def read(self, work: Callable[[], Result]) -> Result:
        """Run work in a thread; an InputError becomes a `Problem` without the server's paths."""
        try:
            return await to_thread.run_sync(work)
        except InputError as error:
            reason = str(error).replace(str(self.path), self.name)
            field = re.match(r"documents\.\d+|where|min_score", reason)
            raise Problem(409, reason, field=field[0] if field else None) from None

    async def change(self, work: Callable[[], Result]) -> Result:
        """Change the index after earlier changes; a change that has begun is always finished."""
        if not self.is_writable:
            reason = f"the folder of the index {self.name} is not writable by the server"
            raise Problem(403, f"{reason}; change its permissions")
        if self._waiting >= _MAX_WAITING:
            reason = f"{self._waiting} changes of {self.name} are already waiting; try again in 1 s"
            raise Problem(429, reason, retry_after=1)
        self._waiting += 1
        try:
            async with self._writing:
                return await self.read(work)
        finally:
            self._waiting -= 1

    async def fields(self) -> tuple[Field, ...]:
        """Return the fields of the metadata, which are read again only after a change."""
        async with self._reading_fields:
            manifest = await self.read(lambda: self.index.manifest)  # one object until the next change
            if self._fields is None or self._fields[0] is not manifest:
                self._fields = manifest, await self.read(self.index.fields)
            return self._fields[1]


def _find(request: Request, name: _Name) -> ServedIndex:
    indexes: dict[str, ServedIndex] = request.app.state.registry.indexes
    return find(indexes, name, "index", "name")


def _find_writable(request: Request, name: _Name) -> ServedIndex:
    settings: Settings = request.app.state.settings
    if settings.read_only:
        raise Problem(403, "the server was started with --read-only; change the index with `sentemb index`")
    if not settings.is_writable:
        reason = "other machines cannot change an index without an API key"
        raise Problem(403, f"{reason}; start the server with --keys FILE")
    return _find(request, name)


_Name = Annotated[str, PathParameter(description="Name of the index, which is the name of its folder.")]
_Served = Annotated[ServedIndex, Depends(_find)]
_Writable = Annotated[ServedIndex, Depends(_find_writable)]
_Ids = Annotated[
    list[str],
    Query(
        min_length=1,
        max_length=schemas.MAX_INPUTS,
        description='Ids. Quote a string that looks like a number: id=3 is a number, id="3" a string.',
    ),
]
router = APIRouter(prefix="/v1/indexes", route_class=JsonRoute, tags=["search"])


@router.get("", response_model=dict[str, list[schemas.IndexSummary]])
async def list_indexes(request: Request) -> Any:
    """List the indexes."""
    indexes = request.app.state.registry.indexes.values()
    return {"indexes": [await index.read(partial(_summary, request, index)) for index in indexes]}


@router.post("/{name}/search", response_model=schemas.SearchAnswer)
async def search(served: _Served, body: schemas.SearchRequest) -> Response:
    """Search an index, as `SearchIndex.search` does."""
    if isinstance(body.min_score, str) and body.mode != "dense":
        raise Problem(409, "min_score in percent works only in dense mode; send a score", field="min_score")

    def run() -> Hits:
        return served.index.search(
            body.query,
            body.k,
            mode=body.mode,
            min_score=body.min_score,
            where=body.where,
            abstain=body.abstain,
        )

    return await served.read(partial(_answer, served.index, body, run))


@router.post("/{name}/similar", response_model=schemas.SearchAnswer)
async def similar(served: _Served, body: schemas.SimilarRequest) -> Response:
    """Search for documents similar to a document of the index, which is not among the hits."""
    index = served.index
    (document,) = await served.read(partial(index.get, [body.id])) if _fits(body.id) else (None,)
    if document is None:
        reason = f"the index {served.name} does not have a document with the id {body.id!r}"
        raise Problem(404, reason, field="id")

    def run() -> Hits:
        vectors = index.vectors([body.id])
        hits = index.search(document.text, body.k + 1, where=body.where, vectors=vectors)
        return Hits([hit for hit in hits if hit.id != body.id][: body.k])

    return await served.read(partial(_answer, index, body, run))


@router.get("/{name}/documents", response_model=schemas.DocumentsAnswer)
async def get_documents(served: _Served, id: _Ids) -> Response:
    """Return documents in the order of the ids; null for an unknown id."""
    stored = await served.read(partial(served.index.get, list(map(_parse_id, id))))
    return _json({"documents": list(map(_document, stored))})


@router.post("/{name}/documents", response_model=schemas.WriteAnswer)
async def add_documents(served: _Writable, body: schemas.WriteRequest) -> Any:
    """Add documents whose ids are new."""
    return await _write(served, served.index.add, body)


@router.put("/{name}/documents", response_model=schemas.WriteAnswer)
async def update_documents(served: _Writable, body: schemas.WriteRequest) -> Any:
    """Replace the documents with these ids, and add the others."""
    return await _write(served, served.index.update, body)


@router.delete("/{name}/documents", response_model=dict[str, int])
async def delete_documents(served: _Writable, body: schemas.DeleteRequest) -> Any:
    """Delete documents in one step; unknown ids are skipped."""
    ids = list(filter(_fits, body.ids))
    return {"deleted": await served.change(partial(served.index.delete, ids))}


@router.get("/{name}/stats", response_model=schemas.StatsAnswer)
async def stats(request: Request, served: _Served) -> Any:
    """Describe an index and the fields of its metadata."""
    fields = await served.fields()
    return await served.read(partial(_stats, request, served, fields))


def _answer(index: SearchIndex, body: schemas.SearchOptions, run: Callable[[], Hits]) -> Response:
    query = body.query if isinstance(body, schemas.SearchRequest) else ""
    is_encoded = isinstance(body, schemas.SearchRequest) and (body.mode != "keyword" or body.abstain)
    tokens = tokens_of(for_role(index.encoder, "query")) if is_encoded else None
    is_truncated = tokens is not None and bool(tokens.lengths([query])[0] > tokens.room)
    # Explained first, because a search would log the client's field names.
    reason = None if body.where is None else index.explain_no_match(body.where)
    hits = Hits() if reason else run()
    # Hits of dense search do not have snippets yet.
    without = [hit for hit in hits if hit.snippet is None]
    starts = [hit.passage.start if hit.passage else 0 for hit in without]
    language = index.manifest.language
    snippets = iter(snippets_of(query, [hit.text for hit in without], language, starts))
    return _json(
        {
            "hits": [
                {
                    "id": hit.id,
                    "score": hit.score,
                    "percentile": hit.percentile,
                    "p_value": hit.p_value,
                    "length": len(hit.text),
                    "text": hit.text if body.text else None,
                    "metadata": dict(hit.metadata),
                    "snippet": asdict(hit.snippet or next(snippets)),
                    "passage": None if hit.passage is None else hit.passage._asdict(),
                }
                for hit in hits
            ],
            "documents": len(index),
            "query_truncated": is_truncated,
            "warnings": [f"the conditions cannot match any document: {reason}"] if reason else [],
            "reason": hits.reason,
        }
    )


async def _write(served: ServedIndex, write: Callable[..., Changed], body: schemas.WriteRequest) -> Any:
    documents = [
        Document(item.text, item.id, item.metadata, location=f"documents.{place}")
        for place, item in enumerate(body.documents)
    ]
    changed = await served.change(partial(write, documents, truncate=body.truncate))
    return dict(zip(schemas.WriteAnswer.model_fields, changed, strict=True))


def _fits(id: int | str) -> bool:
    """Return whether an index can store an id; many readers of the schema support only doubles."""
    return isinstance(id, str) or -(2**63) <= id < 2**63


def _parse_id(text: str) -> str | int:
    """Return the id that an address names: JSON if that is an integer or a string, otherwise the text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if type(value) in (int, str) and _fits(value) else text


def _document(stored: Document | None) -> dict[str, Any] | None:
    if stored is None:
        return None
    return {"id": stored.id, "text": stored.text, "metadata": dict(stored.metadata)}


def _summary(request: Request, served: ServedIndex) -> dict[str, Any]:
    return {
        "name": served.name,
        "model": served.model,
        "documents": len(served.index),
        "writable": request.app.state.settings.is_writable and served.is_writable,
    }


def _stats(request: Request, served: ServedIndex, fields: tuple[Field, ...]) -> dict[str, Any]:
    manifest = served.index.manifest
    return {
        **_summary(request, served),
        "vectors": manifest.vectors,
        "skipped": manifest.skipped,
        "chunked": manifest.chunked,
        "truncated": manifest.truncated,
        "dimension": manifest.dimension,
        "kind": manifest.kind,
        "metric": manifest.metric,
        "language": manifest.language,
        "created": manifest.created,
        "fingerprint": manifest.encoder.fingerprint,
        "hybrid_weight": manifest.hybrid.weight if manifest.hybrid else None,
        "most_percentile": manifest.calibration.most if manifest.calibration else None,
        "can_abstain": served.index.explain_no_abstention() is None,
        "fields": [
            {**asdict(field), "values": [{"value": value, "documents": n} for value, n in field.values]}
            for field in fields
        ],
    }


def _json(answer: dict[str, Any]) -> Response:
    """Return a response; orjson refuses unpaired surrogates and very large numbers in metadata."""
    return Response(json.dumps(answer, separators=(",", ":")), media_type="application/json")
