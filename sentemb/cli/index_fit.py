"""`sentemb index fit`: how much hybrid search should trust vectors and words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sentemb.cli.index import IndexFolder, as_integer
from sentemb.errors import InputError

if TYPE_CHECKING:
    from sentemb.search import SearchIndex


def fit(
    folder: IndexFolder,
    queries: Annotated[
        Path | None,
        typer.Option(help="Queries in BEIR layout: a .jsonl, .csv or .tsv file with _id and text."),
    ] = None,
    qrels: Annotated[
        Path | None, typer.Option(help="Qrels of the queries: .tsv as in BEIR, or .txt as in TREC.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Encoder of the index, if its folder has moved.")
    ] = None,
) -> None:
    """Fit the weight of keyword and dense search in hybrid search on your queries and qrels.

    Without --queries and --qrels, the weight is fitted on queries that are generated from the documents.
    """
    from sentemb.data.retrieval import query_text, read_judgements, read_unique
    from sentemb.search import SearchIndex

    if (queries is None) != (qrels is None):
        raise InputError("--queries and --qrels need each other", "pass both or neither")
    if queries is None or qrels is None:
        weight = SearchIndex.load(folder, model).fit()
    else:
        texts = read_unique([queries], query_text)
        judged = read_judgements(qrels, texts)
        index = SearchIndex.load(folder, model)
        ids = _ids(index, {document for grades in judged.values() for document in grades})
        relevant = [{ids[key]: grade for key, grade in grades.items()} for grades in judged.values()]
        weight = index.fit([texts[query] for query in judged], relevant)
    typer.echo(
        weight.reason()
        if weight
        else "hybrid search weights keyword and dense search equally: there are too few documents to "
        "generate queries from"
    )


def _ids(index: SearchIndex, names: set[str]) -> dict[str, str | int]:
    """The ids of documents as the index has them: a file cannot tell 1 from "1"."""
    known = {name for name, found in zip(names, index.get(names), strict=True) if found is not None}
    return {name: name if name in known else next(iter(as_integer(name)), name) for name in names}
