"""Judged queries over documents: the sets of the catalogue, and users' own folders in BEIR's layout."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sentemb._uris import is_remote, local_path, without_secrets
from sentemb.data.catalogue import SPLITS, Entry, check_row_count, get, get_split, is_entry, suggest
from sentemb.data.folder import resolve_data_dir
from sentemb.data.hub import download
from sentemb.data.language import UNKNOWN, language_of
from sentemb.data.locate import locate
from sentemb.data.retrieval_files import (
    LAYOUT,
    find_judgements,
    query_text,
    read_corpus,
    read_judgements,
    read_unique,
)
from sentemb.data.stored_texts import places_of
from sentemb.errors import InputError

logger = logging.getLogger(__name__)

RELEVANT = 1
"""The lowest grade of a relevant document."""
_LANGUAGE_OF = 1000  # documents tell the language of all


@dataclass(frozen=True, eq=False)
class RetrievalSet:
    """Documents, and queries with judgements of some of them.

    Attributes:
        name: The set.
        split: Whose judgements these are, such as `test`.
        document_ids: Ids of the documents; lists, or where they are many `StoredTexts`.
        documents: Their texts, the title and a space before the rest; as the ids.
        query_ids: Ids of the judged queries.
        queries: Their texts.
        judged: The number of the query, that of the document and the grade of each judgement, sorted by
            query, shape (judgements, 3); the number of a document that the set does not hold is -1.
        language: Code of the documents' language, which decides how keyword search cuts words.
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
        """The number of the query and the grade of each judgement, shape (judgements, 2)."""
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
    """Make a set of documents, queries and judgements by their ids.

    Args:
        documents: The texts by id.
        queries: The texts by id; those without a judgement are left out.
        judgements: Grades by query and document; from 1 on a document is relevant. One that `documents` does
            not hold counts as never found, as in BEIR, with a warning.
        name: What results call the set.
        split: What results call its queries.
        language: Code of the documents' language.
        source: Where it comes from.

    Returns:
        The set.

    Raises:
        InputError: There are no documents, nothing is judged, nothing judged is relevant, or a judged query
            is missing.

    Example:
        >>> documents = {"d1": "a cat sat", "d2": "birds fly"}
        >>> data = retrieval_set(documents, {"q1": "kitten"}, {"q1": {"d1": 1}}, name="pets")
        >>> data.queries
        ['kitten']
    """
    return _set_of([*documents], [*documents.values()], queries, judgements, (name, split, language, source))


def _set_of(
    ids: Sequence[str],
    documents: Sequence[str],
    queries: Mapping[str, str],
    judgements: Mapping[str, Mapping[str, int]],
    called: tuple[str, str, str, str],
) -> RetrievalSet:
    """A set of documents in any number; it is called by its name, split, language and source."""
    name, split, language, source = called
    judged = {query: grades for query, grades in judgements.items() if grades}
    if not documents or not judged:
        raise InputError(
            f"{name} {split} does not contain {'queries with qrels' if documents else 'documents'}"
        )
    if unknown := next((query for query in judged if query not in queries), None):
        raise InputError(f"{name} {split}: the query {unknown!r} of the qrels does not exist")
    numbers = places_of({document for grades in judged.values() for document in grades}, ids)
    chosen = [query for query in queries if query in judged]
    rows = [
        (number, numbers.get(document, -1), grade)
        for number, query in enumerate(chosen)
        for document, grade in judged[query].items()
    ]
    table = np.array(rows, dtype=np.int64)
    if absent := int((table[:, 1] < 0).sum()):
        logger.warning(
            "%s %s: %d of %d documents of the qrels are not in the corpus and count as not retrieved",
            name,
            split,
            absent,
            len(table),
        )
    _check_relevant(table, len(chosen), f"{source or name}, split {split}")
    texts = [queries[query] for query in chosen]
    return RetrievalSet(name, split, ids, documents, chosen, texts, table, language, source)


def _check_relevant(table: npt.NDArray[np.int64], queries: int, where: str) -> None:
    """Refuse judgements by which nothing can be found, and warn of queries that score 0 whatever is found."""
    found = np.unique(table[(table[:, 1] >= 0) & (table[:, 2] >= RELEVANT), 0])
    if not len(found):
        raise InputError(
            f"{where}: none of the queries has a relevant document in the corpus",
            f"check the ids and the grades of the qrels; a document is relevant from grade {RELEVANT} on",
        )
    if without := queries - len(found):
        message = "%s: %d of %d queries do not have a relevant document in the corpus and score 0"
        logger.warning(message, where, without, queries)


def load_retrieval(
    name: str | os.PathLike[str],
    *,
    split: str | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    check_rows: bool = True,
) -> RetrievalSet:
    """Load a set of the catalogue, or a folder of one's own.

    Args:
        name: A name, such as `scifact` or `xquad-r/en`; or a folder with `corpus.jsonl`, `queries.jsonl` and
            judgements in `qrels/SPLIT.tsv`, or in TREC's format in `qrels/SPLIT.txt`.
        split: The judgements' split; `test` by default, or what there is in its place.
        data_dir: The folder of data; `SENTEMB_DATA` by default. Where neither is given, the set comes from
            the hub.
        check_rows: Refuse a copy with another number of documents or judgements than the catalogue's.

    Returns:
        The set, with the queries that are judged.

    Raises:
        InputError: The set, the split or a file is not there or broken; with the file and the line.

    Example:
        >>> data = load_retrieval("my-set")
        >>> len(data.queries)
        20
    """
    if is_remote(name):
        raise InputError(
            f"{without_secrets(str(name))} is not a folder on this machine",
            "copy the data set to this machine",
        )
    if not is_entry(str(name)):
        return _own(local_path(name), split)
    chosen = split or _usual(get(str(name)).splits, str(name))
    entry = get_split(str(name), "retrieval", chosen)
    if resolve_data_dir(data_dir) is None and entry.hub_id is not None:
        for file in (*entry.corpus, *entry.queries):
            download(entry.hub_id, file, revision=entry.revision, needed_for=entry.name)
    place = locate(entry, chosen, data_dir).path
    found = read_folder(entry, chosen, place if place.is_dir() else place.parents[1])
    check_counts(entry, found, strict=check_rows)
    return found


def read_folder(entry: Entry, split: str, folder: Path) -> RetrievalSet:
    """Read a set of the catalogue from where it was found, however many rows there are."""
    published = entry.published.files if entry.published else {}
    files = [folder / files[split] for files in (published, entry.files) if split in files]
    queries = read_unique([folder / file for file in entry.queries], query_text)
    return _set_of(
        *read_corpus([folder / file for file in entry.corpus]),
        queries,
        read_judgements(next((file for file in files if file.is_file()), files[0]), queries),
        (entry.name, split, entry.language, str(folder)),
    )


def check_counts(entry: Entry, found: RetrievalSet, *, strict: bool = True) -> None:
    """Refuse, or warn of, fewer or more documents or judgements than the catalogue says."""
    where = f"{entry.name} {found.split} ({found.source})"
    check_row_count(f"{where}, documents", len(found.documents), entry.documents, strict=strict)
    check_row_count(f"{where}, qrels", len(found.judged), entry.rows.get(found.split), strict=strict)


def _own(folder: Path, split: str | None) -> RetrievalSet:
    if not folder.is_dir():
        raise InputError(f"no such data set or folder: {str(folder)!r}", suggest(str(folder)))
    files = find_judgements(folder)
    if not files:
        raise InputError(f"{folder} does not contain qrels", LAYOUT)
    chosen = split or _usual(tuple(files), str(folder))
    if chosen not in files:
        raise InputError(f"{folder} does not have a split {chosen!r}", f"choose one of {', '.join(files)}")
    queries = read_unique([folder / "queries.jsonl"], query_text)
    ids, documents = read_corpus([folder / "corpus.jsonl"])
    spoken = language_of(documents[:_LANGUAGE_OF])
    language = "en" if spoken == UNKNOWN else spoken
    return _set_of(
        ids,
        documents,
        queries,
        read_judgements(files[chosen], queries),
        (folder.resolve().name, chosen, language, str(folder)),
    )


def _usual(splits: tuple[str, ...], where: str) -> str:
    """The split that is evaluated where none is named."""
    usual = [split for split in (*reversed(SPLITS), *splits) if split in splits]
    if not usual:
        raise InputError(f"{where} does not have a split", LAYOUT)
    return usual[0]
