"""The layout of BEIR: a folder of documents and queries in JSON lines, with qrels of BEIR or TREC."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from sentemb.data.files import Row, read_file
from sentemb.data.lines import format_of, read_lines
from sentemb.data.remote import Source
from sentemb.data.stored_texts import first_places, kept_pairs
from sentemb.data.tables import ID_COLUMNS, id_column_of, parse_tsv, titled
from sentemb.errors import InputError

CORPUS, QUERIES = "corpus.jsonl", "queries.jsonl"
LAYOUT = "a BEIR folder has corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv"
_QRELS_COLUMNS = ("query-id", "corpus-id", "score")
_QRELS_SUFFIXES = (".tsv", ".jsonl", ".txt", ".qrels", ".trec")
_TREC_FIELDS = 4


def corpus_of(folder: Source) -> Source | None:
    """Return the documents of a folder in the layout of BEIR; None if it does not have that layout.

    Such a folder has `corpus.jsonl`, and next to it `queries.jsonl` or qrels, which are not documents.
    """
    corpus = folder / CORPUS
    if not folder.is_dir() or not corpus.is_file():
        return None
    is_judged = (folder / QUERIES).is_file() or (folder / "qrels").is_dir()
    return corpus if is_judged else None


def find_qrels(folder: Path) -> Mapping[str, Path]:
    """Return the files of qrels in a folder, by split."""
    inside = sorted(path for path in folder.glob("qrels/*") if path.suffix in _QRELS_SUFFIXES)
    alone = [path for suffix in _QRELS_SUFFIXES if (path := folder / f"qrels{suffix}").is_file()]
    return {"test" if path in alone else path.stem: path for path in (*alone, *inside)}


def document_text(row: Row) -> str:
    """Return title and text of a document, joined by a space as BEIR joins them."""
    title = row.text("title") if row.values.get("title") is not None else ""
    return titled(title, row.text("text"))


def query_text(row: Row) -> str:
    """Return the text of a query."""
    return row.filled("text")


def read_unique(paths: Iterable[Path], text_of: Callable[[Row], str]) -> dict[str, str]:
    """Return the texts of one or several files by their ids, which must be unique."""
    texts: dict[str, str] = {}
    for row in _rows(paths):
        name = _id_of(row)
        if name in texts:
            raise _repeated(row, name)
        texts[name] = text_of(row)
    return texts


def read_corpus(paths: Sequence[Path]) -> tuple[Sequence[str], Sequence[str]]:
    """Return the ids and the texts of any number of documents in one or several files."""
    ids, documents = kept_pairs((_id_of(row), document_text(row)) for row in _rows(paths))
    repeated = np.flatnonzero(first_places(ids) != np.arange(len(ids)))
    if len(repeated):
        raise _repeated(next(islice(_rows(paths), int(repeated[0]), None)), ids[repeated[0]])
    return ids, documents


def _rows(paths: Iterable[Path]) -> Iterator[Row]:
    for path in paths:
        if not path.is_file():
            raise InputError(f"no such file: {path}", LAYOUT)
        yield from read_file(path)


def _id_of(row: Row) -> str:
    return row.filled(id_column_of(row.values, None) or ID_COLUMNS[0])


def _repeated(row: Row, name: str) -> InputError:
    return InputError(f"{row.location}: the id {name!r} occurs twice", "use unique ids")


def read_judgements(path: Path, queries: Container[str]) -> dict[str, dict[str, int]]:
    """Return the grades of documents by query, from qrels in the format of BEIR or TREC."""
    found: dict[str, dict[str, int]] = {}
    for row in _qrels_rows(path):
        query, document, grade = (row.filled("query-id"), row.filled("corpus-id"), row.number("score"))
        if not grade.is_integer():
            raise InputError(f"{row.location}: the grade {grade:g} is not a whole number", "use 0, 1, 2, ...")
        if query not in queries:
            raise InputError(
                f"{row.location}: the query {query!r} does not exist",
                "add it to queries.jsonl, or remove the line",
            )
        grades = found.setdefault(query, {})
        if document in grades:
            raise InputError(
                f"{row.location}: query {query!r} and document {document!r} occur twice",
                "remove one of the lines",
            )
        grades[document] = int(grade)
    if not found:
        raise InputError(f"{path} does not contain qrels")
    return found


def _qrels_rows(path: Path) -> Iterator[Row]:
    if format_of(path) == ".jsonl":
        yield from read_file(path, columns=_QRELS_COLUMNS)
        return
    first = next(iter(read_lines(path)), (0, ""))[1].split()
    if first[:1] == ["query-id"]:
        for number, values in parse_tsv(str(path), read_lines(path), _QRELS_COLUMNS):
            yield Row(f"{path}:{number}", values)
    elif len(first) == _TREC_FIELDS:
        yield from _trec_rows(path)
    else:
        raise InputError(
            f"{path}, line 1: expected the header query-id, corpus-id, score, or four fields as in TREC",
            "write qrels as in BEIR (with tabs), or as in TREC: QUERY 0 DOCUMENT GRADE",
        )


def _trec_rows(path: Path) -> Iterator[Row]:
    for number, line in read_lines(path):
        fields = line.split()
        if not fields:
            continue
        if len(fields) != _TREC_FIELDS:
            raise InputError(
                f"{path}:{number}: expected four fields, but found {len(fields)}",
                "write QUERY 0 DOCUMENT GRADE",
            )
        query, _, document, grade = fields
        yield Row(f"{path}:{number}", dict(zip(_QRELS_COLUMNS, (query, document, grade), strict=True)))
