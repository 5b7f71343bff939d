"""Documents, queries and qrels: the sets of the catalogue, and users' folders in the layout of BEIR."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sentemb._uris import is_remote, local_path, without_secrets
from sentemb.data.catalogue import SPLITS, Entry, check_row_count, get, get_split, is_entry, suggest
from sentemb.data.documents import CORPUS, ID_COLUMNS, QUERIES, id_column_of
from sentemb.data.files import AnyPath, Row, format_of, parse_tsv, read_file, read_lines
from sentemb.data.locate import DataDir, Place, download, locate, resolve_data_dir
from sentemb.data.stored_texts import first_places, places_of, spill_pairs_to_disk
from sentemb.data.words import UNKNOWN, language_of
from sentemb.errors import InputError

logger = logging.getLogger(__name__)

LAYOUT = "a BEIR folder has corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv"
_QRELS = ("query-id", "corpus-id", "score")
_QRELS_SUFFIXES = (".tsv", ".jsonl", ".txt", ".qrels", ".trec")
RELEVANT = 1
"""The lowest grade of a relevant document."""


@dataclass(frozen=True, eq=False)
class RetrievalSet:
    """Documents and queries with qrels.

    Attributes:
        name: The set.
        split: The split of the qrels, such as `test`.
        document_ids: Ids of the documents; a list, or `StoredTexts` if they are many.
        documents: Their texts, the title and a space before the rest; like the ids.
        query_ids: Ids of the queries with qrels.
        queries: Their texts.
        judged: The number of the query, that of the document (-1 if the set does not contain it) and the
            grade of each line of the qrels, sorted by query, shape (qrels, 3).
        language: Code of the documents' language, which determines the tokenizer of keyword search.
        source: Where the set was read, for records.

    Example:
        >>> data = retrieval_set({"d1": "a cat sat"}, {"q1": "kitten"}, {"q1": {"d1": 1}}, name="pets")
        >>> data.document_ids, data.query_ids
        (['d1'], ['q1'])
    """

    name: str
    split: str
    document_ids: Sequence[str]
    documents: Sequence[str]
    query_ids: list[str]
    queries: list[str]
    judged: npt.NDArray[np.int64]
    language: str = "en"
    source: str = ""

    @property
    def gold(self) -> npt.NDArray[np.int64]:
        """The number of the query and the grade of each line of the qrels, shape (qrels, 2)."""
        return self.judged[:, [0, 2]]

    def __len__(self) -> int:
        return len(self.queries)


def retrieval_set(
    documents: Mapping[str, str],
    queries: Mapping[str, str],
    judgements: Mapping[str, Mapping[str, int]],
    *,
    name: str,
    split: str = "test",
    language: str = "en",
    source: str = "",
) -> RetrievalSet:
    """Make a set of documents, queries and qrels by their ids.

    Args:
        documents: The texts by id.
        queries: The texts by id; those without qrels are skipped.
        judgements: Grades by query and document; from 1 on a document is relevant. One that `documents` does
            not contain counts as not retrieved, as in BEIR, with a warning.
        name: What results call the set.
        split: What results call its queries.
        language: Code of the documents' language.
        source: Where it comes from.

    Raises:
        InputError: There are no documents, qrels or relevant documents, or a query of the qrels is missing.

    Example:
        >>> documents = {"d1": "a cat sat", "d2": "birds fly"}
        >>> data = retrieval_set(documents, {"q1": "kitten"}, {"q1": {"d1": 1}}, name="pets")
        >>> data.queries
        ['kitten']
    """
    judged = {query: grades for query, grades in judgements.items() if grades}
    called = {"name": name, "split": split, "language": language, "source": source}
    return _assemble([*documents], [*documents.values()], queries, judged, **called)


def _assemble(
    ids: Sequence[str],
    documents: Sequence[str],
    queries: Mapping[str, str],
    judged: Mapping[str, Mapping[str, int]],
    **called: str,
) -> RetrievalSet:
    """Assemble a set, and warn of qrels and queries that nothing can answer."""
    name = f"{called['name']} {called['split']}"
    where = f"{called['source'] or called['name']}, split {called['split']}"
    if not documents or not judged:
        raise InputError(f"{name} does not contain {'queries with qrels' if documents else 'documents'}")
    if unknown := next((query for query in judged if query not in queries), None):
        raise InputError(f"{name}: the query {unknown!r} of the qrels does not exist")
    numbers = places_of({document for grades in judged.values() for document in grades}, ids)
    chosen = [query for query in queries if query in judged]
    rows = [
        (number, numbers.get(document, -1), grade)
        for number, query in enumerate(chosen)
        for document, grade in judged[query].items()
    ]
    table = np.array(rows, dtype=np.int64)
    if absent := int((table[:, 1] < 0).sum()):
        message = "%s: %d of %d documents of the qrels are not in the corpus and count as not retrieved"
        logger.warning(message, name, absent, len(table))
    answered = np.unique(table[(table[:, 1] >= 0) & (table[:, 2] >= RELEVANT), 0])
    if not len(answered):
        hint = f"check the ids and the grades of the qrels; a document is relevant from grade {RELEVANT} on"
        raise InputError(f"{where}: none of the queries has a relevant document in the corpus", hint)
    if without := len(chosen) - len(answered):
        message = "%s: %d of %d queries do not have a relevant document in the corpus and score 0"
        logger.warning(message, where, without, len(chosen))
    texts = [queries[query] for query in chosen]
    return RetrievalSet(
        document_ids=ids, documents=documents, query_ids=chosen, queries=texts, judged=table, **called
    )


def load_retrieval(
    name: AnyPath, *, split: str | None = None, data_dir: DataDir = None, check_rows: bool = True
) -> RetrievalSet:
    """Load a set of the catalogue, or a folder in the layout of BEIR, with the queries that have qrels.

    Args:
        name: A name, such as `scifact` or `xquad-r/en`; or a folder with `corpus.jsonl`, `queries.jsonl` and
            qrels in `qrels/SPLIT.tsv`, or in TREC's format in `qrels/SPLIT.txt`.
        split: The split of the qrels; by default `test`, or else `dev`, `train` or the first one.
        data_dir: The data folder; `SENTEMB_DATA` by default, or else the hub.
        check_rows: Raise InputError if the number of documents or qrels differs from the catalogue's.

    Raises:
        InputError: The set, the split or a file does not exist or is broken; with the file and the line.

    Example:
        >>> data = load_retrieval("my-set")
        >>> len(data.queries)
        20
    """
    if is_remote(name):
        message = f"{without_secrets(str(name))} is not a folder on this machine"
        raise InputError(message, "copy the data set to this machine")
    if not is_entry(str(name)):
        return _read_folder(local_path(name), split)
    chosen = split or _default_split(get(str(name)).splits)
    entry = get_split(str(name), "retrieval", chosen)
    if resolve_data_dir(data_dir) is None and entry.hub_id is not None:
        for file in (*entry.corpus, *entry.queries):
            download(entry.hub_id, file, revision=entry.revision, needed_for=entry.name)
    found = read_place(entry, chosen, locate(entry, chosen, data_dir))
    check_counts(entry, found, strict=check_rows)
    return found


def _default_split(splits: Iterable[str]) -> str:
    return next(split for split in (*reversed(SPLITS), *splits) if split in splits)


def _read_folder(folder: Path, split: str | None) -> RetrievalSet:
    if not folder.is_dir():
        raise InputError(f"no such data set or folder: {str(folder)!r}", suggest(str(folder)))
    inside = sorted(path for path in folder.glob("qrels/*") if path.suffix in _QRELS_SUFFIXES)
    alone = [path for suffix in _QRELS_SUFFIXES if (path := folder / f"qrels{suffix}").is_file()]
    files = {"test" if path in alone else path.stem: path for path in (*alone, *inside)}
    if not files:
        raise InputError(f"{folder} does not contain qrels", LAYOUT)
    chosen = split or _default_split(files)
    if chosen not in files:
        raise InputError(f"{folder} does not have a split {chosen!r}", f"choose one of {', '.join(files)}")
    called = {"name": folder.resolve().name, "split": chosen, "language": "", "source": str(folder)}
    return _read([folder / CORPUS], [folder / QUERIES], files[chosen], called)


def read_place(entry: Entry, split: str, place: Place) -> RetrievalSet:
    """Read a set of the catalogue from where it was found, whatever its row count."""
    folder = place.path if place.path.is_dir() else place.path.parents[1]  # of the qrels
    published = entry.published.files if entry.published else {}
    qrels = [folder / files[split] for files in (published, entry.files) if split in files]
    called = {"name": entry.name, "split": split, "language": entry.language, "source": str(folder)}
    corpus, queries = ([folder / file for file in files] for files in (entry.corpus, entry.queries))
    return _read(corpus, queries, next((file for file in qrels if file.is_file()), qrels[0]), called)


def check_counts(entry: Entry, found: RetrievalSet, *, strict: bool = True) -> None:
    """Raise InputError, or warn, if the catalogue has another count of documents or qrels."""
    where = f"{entry.name} {found.split} ({found.source})"
    check_row_count(f"{where}, documents", len(found.documents), entry.documents, strict=strict)
    check_row_count(f"{where}, qrels", len(found.judged), entry.rows.get(found.split), strict=strict)


def _read(
    corpus: Sequence[Path], queries: Sequence[Path], qrels: Path, called: dict[str, str]
) -> RetrievalSet:
    """Read the files of a set, which is called by its name, split, language (if known) and source."""
    texts = read_queries(queries)

    def whole(row: Row) -> str:
        title = row.text("title") if row.values.get("title") is not None else ""
        return f"{title} {row.text('text')}".strip()

    ids, documents = spill_pairs_to_disk((_id_of(row), whole(row)) for row in _rows(corpus))
    repeated = np.flatnonzero(first_places(ids) != np.arange(len(ids)))
    if len(repeated):
        raise _repeated(next(islice(_rows(corpus), int(repeated[0]), None)), ids[repeated[0]])
    if not called["language"]:
        language = language_of(documents[:1000])
        called["language"] = "en" if language == UNKNOWN else language
    return _assemble(ids, documents, texts, read_judgements(qrels, texts), **called)


def read_queries(paths: Iterable[Path]) -> dict[str, str]:
    """Return the texts of queries in one or several files by their ids, which must be unique."""
    texts: dict[str, str] = {}
    for row in _rows(paths):
        name = _id_of(row)
        if name in texts:
            raise _repeated(row, name)
        texts[name] = row.filled("text")
    return texts


def _rows(paths: Iterable[Path]) -> Iterator[Row]:
    for path in paths:
        if not path.is_file():
            raise InputError(f"no such file: {path}", LAYOUT)
        yield from read_file(path)


def _id_of(row: Row) -> str:
    return row.filled(id_column_of(row.values) or ID_COLUMNS[0])


def _repeated(row: Row, name: str) -> InputError:
    return InputError(f"{row.location}: the id {name!r} occurs twice", "use unique ids")


def read_judgements(path: Path, queries: Container[str]) -> dict[str, dict[str, int]]:
    """Return the grades of documents by query, from qrels in the format of BEIR or TREC."""
    found: dict[str, dict[str, int]] = {}
    for row in _qrels_rows(path):
        query, document, grade = row.filled("query-id"), row.filled("corpus-id"), row.number("score")
        if not grade.is_integer():
            raise InputError(f"{row.location}: the grade {grade:g} is not a whole number", "use 0, 1, 2, ...")
        if query not in queries:
            hint = "add it to queries.jsonl, or remove the line"
            raise InputError(f"{row.location}: the query {query!r} does not exist", hint)
        if document in found.setdefault(query, {}):
            message = f"{row.location}: query {query!r} and document {document!r} occur twice"
            raise InputError(message, "remove one of the lines")
        found[query][document] = int(grade)
    if not found:
        raise InputError(f"{path} does not contain qrels")
    return found


def _qrels_rows(path: Path) -> Iterator[Row]:
    if format_of(path) == ".jsonl":
        yield from read_file(path, columns=_QRELS)
        return
    first = next(iter(read_lines(path)), (0, ""))[1].split()
    if first[:1] == ["query-id"]:
        for number, values in parse_tsv(str(path), read_lines(path), _QRELS):
            yield Row(f"{path}:{number}", values)
        return
    for number, line in read_lines(path):
        fields = line.split()
        if len(fields) not in (0, 4) or (number == 1 and not fields):
            message = f"{path}:{number}: expected four fields, but found {len(fields)}"
            hint = (
                "write QUERY 0 DOCUMENT GRADE as in TREC, or the header query-id, corpus-id, score as in BEIR"
            )
            raise InputError(message, hint)
        if fields:
            yield Row(f"{path}:{number}", dict(zip(_QRELS, (fields[0], *fields[2:]), strict=True)))
