"""Searches of a served index: the library's own, with the query encoded before others' bulk."""

from __future__ import annotations

from typing import Any

from anyio import to_thread

from sentemb.encoding.encoder import Vectors
from sentemb.encoding.roles import for_role
from sentemb.errors import InputError
from sentemb.search import Document, Hit, SearchIndex
from sentemb.search.calibration import lowest_score
from sentemb.search.snippets import snippets_of
from sentemb.serving.indexes import ServedIndex
from sentemb.serving.problems import Problem
from sentemb.serving.search_shapes import SearchRequest, SimilarRequest, fits


async def found(served: ServedIndex, wanted: SearchRequest) -> dict[str, Any]:
    """What a search finds.

    Args:
        served: The index.
        wanted: The search.

    Returns:
        A `SearchAnswer`.

    Raises:
        Problem: A condition is none, or the index has no words or percentiles.
    """
    where = None if wanted.where is None else wanted.where.plain()
    index = served.index
    vectors: Vectors | None = None
    cut = False
    # Without vectors, the library finds out how far to trust them in a hybrid, where that is not known.
    if wanted.mode == "dense" or (wanted.mode == "hybrid" and index.manifest.hybrid is not None):
        encoded = await served.encoder.encode(
            [wanted.query], role=served.query_role, priority="interactive", truncate="truncate"
        )
        vectors, cut = encoded.vectors, encoded.cut > 0

    def search() -> dict[str, Any]:
        _check_state(index, wanted)
        if where is not None and (reason := index.explain_no_match(where)):
            return _no_match(index, reason, cut=cut)
        hits = index.search(
            wanted.query,
            wanted.k,
            mode=wanted.mode,
            min_score=wanted.min_score,
            where=where,
            vectors=vectors,
        )
        return _answer(index, wanted.query, hits, with_text=wanted.text, cut=cut)

    return await to_thread.run_sync(search)


async def similar_to(served: ServedIndex, wanted: SimilarRequest) -> dict[str, Any]:
    """What is like a document.

    Args:
        served: The index.
        wanted: The search.

    Returns:
        A `SearchAnswer` without the document itself.

    Raises:
        Problem: There is no such document, or a condition is none.
    """
    where = None if wanted.where is None else wanted.where.plain()
    index = served.index

    def search() -> dict[str, Any]:
        document = index.get([wanted.id])[0] if fits(wanted.id) else None
        if document is None:
            raise Problem(
                404,
                f"the index {served.name} does not contain a document with the id {wanted.id!r}",
                field="id",
            )
        if where is not None and (reason := index.explain_no_match(where)):
            return _no_match(index, reason, cut=False)
        vectors = _vectors_of(served, document)
        hits = index.search(document.text, wanted.k + 1, where=where, vectors=vectors)
        others = [hit for hit in hits if hit.id != wanted.id][: wanted.k]
        return _answer(index, "", others, with_text=wanted.text, cut=False)

    return await to_thread.run_sync(search)


def _vectors_of(served: ServedIndex, document: Document) -> Vectors | None:
    """The vector of a document; None where its text must be encoded as a query."""
    assert document.id is not None  # what an index gives out has one
    if served.adapted:
        return None
    if served.index.manifest.kind == "ivfpq":  # which keeps rounded vectors
        return for_role(served.index.encoder, "document").encode([document.text])
    return served.index.vectors([document.id])


def _check_state(index: SearchIndex, wanted: SearchRequest) -> None:
    """Refuse what this index cannot do, though others can."""
    if isinstance(wanted.min_score, str):
        if wanted.mode != "dense":
            raise Problem(
                422, "min_score in percent works only in dense mode; send a score", field="min_score"
            )
        try:
            lowest_score(wanted.min_score, index.manifest.calibration, index.manifest.vectors)
        except InputError as error:
            raise Problem(409, str(error), field="min_score") from None
    if wanted.mode != "dense" and not index.manifest.has_keywords:
        raise Problem(
            409,
            "the index does not have keywords, or has those of an older version; run `sentemb index compact`",
            field="mode",
        )


def _answer(index: SearchIndex, query: str, hits: list[Hit], *, with_text: bool, cut: bool) -> dict[str, Any]:
    return {
        "hits": [_hit(hit, with_text=with_text) for hit in _with_snippets(index, query, hits)],
        "documents": len(index),
        "query_cut": cut,
        "warnings": [],
    }


def _no_match(index: SearchIndex, reason: str, *, cut: bool) -> dict[str, Any]:
    """Answer a search whose conditions cannot match; a search would log the client's field names."""
    return {
        "hits": [],
        "documents": len(index),
        "query_cut": cut,
        "warnings": [f"the conditions cannot match any document: {reason}"],
    }


def _with_snippets(index: SearchIndex, query: str, hits: list[Hit]) -> list[tuple[Hit, Any]]:
    """Hits with their snippets, which hits of dense search have not yet."""
    language = index.manifest.language or "und"
    bare = [hit for hit in hits if hit.snippet is None]
    starts = [hit.passage.start if hit.passage else 0 for hit in bare]
    made = iter(snippets_of(query, [hit.text for hit in bare], language, starts))
    return [(hit, hit.snippet or next(made)) for hit in hits]


def _hit(pair: tuple[Hit, Any], *, with_text: bool) -> dict[str, Any]:
    hit, snippet = pair
    return {
        "id": hit.id,
        "score": hit.score,
        "percentile": hit.percentile,
        "length": len(hit.text),
        "text": hit.text if with_text else None,
        "metadata": dict(hit.metadata),
        "snippet": {"text": snippet.text, "start": snippet.start, "spans": snippet.spans},
        "passage": None if hit.passage is None else hit.passage._asdict(),
    }
