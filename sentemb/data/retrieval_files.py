"""The files of judged queries: documents and queries in JSON lines, judgements as BEIR or TREC write them."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sentemb.data.files import Row, format_of, read_file
from sentemb.data.lines import read_lines
from sentemb.data.remote import Source
from sentemb.data.stored_texts import first_places, kept_pairs
from sentemb.data.tables import ID_COLUMNS, id_column_of, parse_tsv, titled
from sentemb.errors import InputError

JUDGEMENT_COLUMNS = ("query-id", "corpus-id", "score")
SUFFIXES = (".tsv", ".jsonl", ".txt", ".qrels", ".trec")
"""What a file of judgements may be called."""
LAYOUT = "a BEIR folder has corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv"
_TREC_FIELDS = 4


class Judgement(NamedTuple):
    """How relevant a document is to a query."""

    location: str
    query: str
    document: str
    grade: int


def corpus_of(folder: Source) -> Source | None:
    """The documents of a folder in BEIR's layout; None where it has another."""
    corpus = folder / "corpus.jsonl"
    found = folder.is_dir() and corpus.is_file() and (folder / "queries.jsonl").is_file()
    return corpus if found else None


def document_text(row: Row) -> str:
    """Title and text of a document, joined by a space as BEIR joins them."""
    title = row.text("title") if row.values.get("title") is not None else ""
    return titled(title, row.text("text"))


def query_text(row: Row) -> str:
    """The text of a query."""
    return row.filled("text")


def read_unique(paths: list[Path], text_of: Callable[[Row], str]) -> dict[str, str]:
    """The texts of one or several files by their ids, no id twice."""
    texts: dict[str, str] = {}
    for path in paths:
        if not path.is_file():
            raise InputError(f"no such file: {path}", LAYOUT)
        for row in read_file(path):
            name = _id_of(row)
            if name in texts:
                raise InputError(f"{row.location}: the id {name!r} occurs twice", "use unique ids")
            texts[name] = text_of(row)
    return texts


def read_corpus(paths: list[Path]) -> tuple[Sequence[str], Sequence[str]]:
    """The ids and the texts of documents in one or several files, in any number; no id twice."""

    def rows() -> Iterator[Row]:
        for path in paths:
            if not path.is_file():
                raise InputError(f"no such file: {path}", LAYOUT)
            yield from read_file(path)

    def names() -> Iterator[tuple[str, str]]:
        for row in rows():
            yield _id_of(row), document_text(row)

    ids, documents = kept_pairs(names())
    again = np.flatnonzero(first_places(ids) != np.arange(len(ids)))
    if len(again):
        row = next(islice(rows(), int(again[0]), None))
        raise InputError(f"{row.location}: the id {ids[again[0]]!r} occurs twice", "use unique ids")
    return ids, documents


def _id_of(row: Row) -> str:
    """The id of a document or a query, which judgements spell."""
    return row.filled(id_column_of(row.values, None) or ID_COLUMNS[0])


def read_judgements(path: Path, queries: Container[str]) -> dict[str, dict[str, int]]:
    """The grades of documents by query, each judged once."""
    found: dict[str, dict[str, int]] = {}
    for one in _judgements(path):
        if one.query not in queries:
            raise InputError(
                f"{one.location}: the query {one.query!r} does not exist",
                "add it to queries.jsonl, or remove the line",
            )
        grades = found.setdefault(one.query, {})
        if one.document in grades:
            raise InputError(
                f"{one.location}: query {one.query!r} and document {one.document!r} occur twice",
                "remove one of the lines",
            )
        grades[one.document] = one.grade
    if not found:
        raise InputError(f"{path} does not contain qrels")
    return found


def find_judgements(folder: Path) -> Mapping[str, Path]:
    """The files of judgements of a user's own set, by split."""
    inside = sorted(path for path in folder.glob("qrels/*") if path.suffix in SUFFIXES)
    alone = [path for suffix in SUFFIXES if (path := folder / f"qrels{suffix}").is_file()]
    return {"test" if path in alone else path.stem: path for path in (*alone, *inside)}


def _judgements(path: Path) -> Iterator[Judgement]:
    if format_of(path) == ".jsonl":
        yield from map(_of_row, read_file(path, columns=JUDGEMENT_COLUMNS))
        return
    first = next(iter(read_lines(path)), (0, ""))[1].split()
    if first[:1] == ["query-id"]:
        rows = parse_tsv(str(path), read_lines(path), JUDGEMENT_COLUMNS)
        yield from (_of_row(Row(f"{path}:{number}", values)) for number, values in rows)
    elif len(first) == _TREC_FIELDS:
        yield from _of_trec(path)
    else:
        raise InputError(
            f"{path}, line 1: expected the header query-id, corpus-id, score, or four fields as in TREC",
            "write qrels as in BEIR (with tabs), or as in TREC: QUERY 0 DOCUMENT GRADE",
        )


def _of_row(row: Row) -> Judgement:
    grade = row.number("score")
    if not grade.is_integer():
        raise InputError(f"{row.location}: the grade {grade:g} is not a whole number", "use 0, 1, 2, ...")
    return Judgement(row.location, row.filled("query-id"), row.filled("corpus-id"), int(grade))


def _of_trec(path: Path) -> Iterator[Judgement]:
    for number, line in read_lines(path):
        fields = line.split()
        if not fields:
            continue
        if len(fields) != _TREC_FIELDS:
            raise InputError(
                f"{path}:{number}: expected four fields, but found {len(fields)}",
                "write QUERY 0 DOCUMENT GRADE",
            )
        values = dict(zip(JUDGEMENT_COLUMNS, (fields[0], fields[2], fields[3]), strict=True))
        yield _of_row(Row(f"{path}:{number}", values))
