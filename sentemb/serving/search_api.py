"""The search API: what the library's indexes do, over HTTP."""

from __future__ import annotations

import json
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Depends, Path, Query, Request, Response

from sentemb.search import Document
from sentemb.serving.auth import settings_of, writer
from sentemb.serving.finding import found, similar_to
from sentemb.serving.guards import JsonRoute
from sentemb.serving.indexes import Indexes, ServedIndex
from sentemb.serving.problems import problem_responses
from sentemb.serving.search_shapes import (
    ChangedAnswer,
    DeletedAnswer,
    DeleteRequest,
    DocumentsAnswer,
    IndexesAnswer,
    SearchAnswer,
    SearchRequest,
    SimilarRequest,
    StatsAnswer,
    WriteRequest,
    fits,
)
from sentemb.serving.shapes import MOST_INPUTS
from sentemb.serving.writing import check_new, deleted, written

_Name = Annotated[str, Path(description="Name of the index, which is the name of its folder.")]
_Ids = Annotated[
    list[str],
    Query(
        min_length=1,
        max_length=MOST_INPUTS,
        description="Id of a document. Quote a string that looks like a number: id=3 is a number, "
        'id="3" a string.',
    ),
]


def search_router() -> APIRouter:
    """The routes of the search API."""
    router = APIRouter(
        prefix="/v1/indexes",
        route_class=JsonRoute,
        tags=["search"],
        responses=problem_responses(401),
    )
    _add_reading(router)
    _add_writing(router)
    return router


def _add_reading(router: APIRouter) -> None:
    @router.get("", response_model=IndexesAnswer, summary="List the indexes")
    async def indexes(request: Request) -> Any:
        served = [one for one in _indexes(request)]
        return {"indexes": [await to_thread.run_sync(_short, request, one) for one in served]}

    @router.post(
        "/{name}/search",
        response_model=SearchAnswer,
        responses=problem_responses(409),
        summary="Search by vectors, by keywords or by both",
    )
    async def search(request: Request, name: _Name, wanted: SearchRequest) -> Response:
        return _json(await found(_indexes(request).get(name), wanted))

    @router.post(
        "/{name}/similar",
        response_model=SearchAnswer,
        summary="Search for documents similar to a document of the index",
    )
    async def similar(request: Request, name: _Name, wanted: SimilarRequest) -> Response:
        return _json(await similar_to(_indexes(request).get(name), wanted))

    @router.get("/{name}/documents", response_model=DocumentsAnswer, summary="Get documents by their ids")
    async def documents(request: Request, name: _Name, id: _Ids) -> Response:
        index = _indexes(request).get(name).index
        stored = await to_thread.run_sync(index.get, [_id(text) for text in id])
        return _json({"documents": [None if one is None else _document(one) for one in stored]})

    @router.get("/{name}/stats", response_model=StatsAnswer, summary="Describe an index")
    async def stats(request: Request, name: _Name) -> Any:
        served = _indexes(request).get(name)
        fields = await served.fields()
        return await to_thread.run_sync(_stats, request, served, fields)


def _add_writing(router: APIRouter) -> None:
    refusals = problem_responses(403, 409)

    @router.post(
        "/{name}/documents",
        response_model=ChangedAnswer,
        dependencies=[Depends(writer)],
        responses=refusals,
        summary="Add documents, all or none",
    )
    async def add(request: Request, name: _Name, given: WriteRequest) -> Any:
        return await _write(request, name, given, replacing=False)

    @router.put(
        "/{name}/documents",
        response_model=ChangedAnswer,
        dependencies=[Depends(writer)],
        responses=refusals,
        summary="Replace documents by their ids, or add them, all or none",
    )
    async def update(request: Request, name: _Name, given: WriteRequest) -> Any:
        return await _write(request, name, given, replacing=True)

    @router.delete(
        "/{name}/documents",
        response_model=DeletedAnswer,
        dependencies=[Depends(writer)],
        responses=problem_responses(403),
        summary="Delete documents by their ids, in one step; unknown ids are skipped",
    )
    async def delete(request: Request, name: _Name, given: DeleteRequest) -> Any:
        return {"deleted": await deleted(_indexes(request).get(name), given)}


async def _write(request: Request, name: str, given: WriteRequest, *, replacing: bool) -> dict[str, int]:
    served = _indexes(request).get(name)
    check_new(given)
    return (await written(served, given, replacing=replacing))._asdict()


def _indexes(request: Request) -> Indexes:
    indexes: Indexes = request.app.state.indexes
    return indexes


def _id(text: str) -> str | int:
    """An id of an address."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if type(value) in (int, str) and fits(value) else text


def _document(document: Document) -> dict[str, Any]:
    return {"id": document.id, "text": document.text, "metadata": dict(document.metadata)}


def _short(request: Request, served: ServedIndex) -> dict[str, Any]:
    return {
        "name": served.name,
        "model": served.encoder.name,
        "documents": len(served.index),
        "writable": settings_of(request).writable and served.writable,
    }


def _stats(request: Request, served: ServedIndex, fields: Any) -> dict[str, Any]:
    manifest = served.index.manifest
    return {
        **_short(request, served),
        "vectors": manifest.vectors,
        "left_out": manifest.left_out,
        "split": manifest.split,
        "cut": manifest.cut,
        "dimension": manifest.dimension,
        "kind": manifest.kind,
        "metric": manifest.metric,
        "language": manifest.language,
        "created": manifest.created,
        "fingerprint": manifest.encoder.fingerprint,
        "hybrid_weight": manifest.hybrid.weight if manifest.hybrid else None,
        "most_percentile": manifest.calibration.most if manifest.calibration else None,
        "fields": [
            {
                "name": one.name,
                "type": one.type,
                "documents": one.documents,
                "values": [{"value": value, "documents": count} for value, count in one.values],
                "complete": one.complete,
                "least": one.least,
                "most": one.most,
            }
            for one in fields
        ],
    }


def _json(answer: dict[str, Any]) -> Response:
    """Metadata may hold what a faster writer of JSON refuses: half surrogate pairs and very large numbers."""
    return Response(json.dumps(answer, separators=(",", ":")), media_type="application/json")
