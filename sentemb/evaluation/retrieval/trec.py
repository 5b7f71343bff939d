"""Runs as TREC writes them: `query Q0 document rank score tag`, a line for each document that was found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from sentemb._files import write_text
from sentemb.data.lines import read_lines
from sentemb.data.retrieval import RetrievalSet
from sentemb.data.stored_texts import places_of
from sentemb.encoding.nearest import Hits, ranked
from sentemb.errors import InputError
from sentemb.evaluation.naming import slug
from sentemb.evaluation.retrieval.ranking import id_places

SUFFIX = ".trec"
_FIELDS = 6


def run_file(folder: Path, name: str) -> Path:
    """Where the run of a set lies in a folder of runs."""
    return folder / f"{slug(name)}{SUFFIX}"


def read_run(path: Path, data: RetrievalSet) -> list[Hits]:
    """Read a run.

    The score alone decides the order, as in trec_eval; the ranks that the file states do not count. Queries
    that are not judged are left out, and those that the file does not have found nothing.

    Args:
        path: The file.
        data: The set that it is a run of.

    Returns:
        The hits of each query.

    Raises:
        InputError: The file is not there, a line is broken, a document is unknown or named twice for a query,
            or no query is judged; with the line.
    """
    if not path.is_file():
        raise InputError(f"no such file: {path}", "use a run file in TREC format")
    queries = {name: number for number, name in enumerate(data.query_ids)}
    named = {fields[2] for _, line in read_lines(path) if len(fields := line.split()) == _FIELDS}
    numbers = places_of(named, data.document_ids)
    found: list[dict[int, float]] = [{} for _ in queries]
    for number, line in read_lines(path):
        fields = line.split()
        if not fields:
            continue
        where = f"{path}, line {number}"
        if len(fields) != _FIELDS:
            raise InputError(
                f"{where}: expected six fields, found {len(fields)}",
                "write lines of the form QUERY Q0 ID RANK SCORE TAG",
            )
        if fields[0] not in queries:
            continue
        document = numbers.get(fields[2])
        if document is None:
            raise InputError(
                f"{where}: {data.name} does not contain a document {fields[2]!r}",
                "check that the run belongs to this set",
            )
        own = found[queries[fields[0]]]
        if document in own:
            raise InputError(
                f"{where}: document {fields[2]!r} is listed twice for query {fields[0]!r}",
                "keep one of the lines",
            )
        own[document] = _score(fields[4], where)
    if not any(found):
        raise InputError(
            f"{path} does not contain any query of {data.name} with qrels",
            "check that the run belongs to this set",
        )
    places = id_places(data)
    return [
        ranked(np.array([*own], dtype=np.int32), np.array([*own.values()]), places, len(own)) for own in found
    ]


def write_run(path: Path, data: RetrievalSet, hits: Sequence[Hits], tag: str) -> None:
    """Write a run whose order every reader of the scores finds again."""
    for name in chain(data.query_ids, data.document_ids):
        if len(name.split()) != 1:
            raise InputError(
                f"{data.name}: the id {name!r} contains a space, which the TREC format does not allow"
            )
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (
        f"{query} Q0 {data.document_ids[document]} {rank} {score!s} {tag}\n"
        for query, one in zip(data.query_ids, hits, strict=True)
        for rank, (document, score) in enumerate(zip(one.documents, one.scores, strict=True), start=1)
    )
    write_text(path, "".join(lines))


def _score(text: str, where: str) -> float:
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise InputError(f"{where}: the score {text!r} is not a number", "use a finite number")
    return score
