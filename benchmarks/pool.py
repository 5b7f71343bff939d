"""The collections on which verdicts are tried: judged sets, and short texts made from paraphrase pairs."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from sentemb.data.documents import Document, read_unique_documents
from sentemb.data.retrieval import RetrievalSet, load_retrieval, retrieval_set

SHORT = ("quora", "captions", "headlines", "mrpc", "forums")
"""Sets of single sentences: a query should retrieve the sentences that say the same."""
NAMES = (
    *("med", "time", *SHORT, "debian", "italianfaq", "covidfaq-de", "stackfaq", "faquad-pt", "cisi", "tldr"),
    *("xquad-r/en", "qnli-dev", "cacm", "poquad-pl", "gitbugs", "cosqa", "scifact", "jaquad-ja", "cmrc-zh"),
    *("liveqa-med", "xquad-r/de", "xquad-r/ru", "xquad-r/zh", "xquad-r/es", "xquad-r/ar"),
)
_PARTS: dict[str, tuple[str, ...]] = {
    "captions": ("MSRvid", "images"),
    "headlines": ("headlines",),
    "forums": (
        "answers-forums",
        "question-question",
        "answer-answer",
        "answers-students",
        "deft-forum",
        "belief",
    ),
}
_ALIKE = 4.0  # grade of STS from which two sentences say the same
_PAIRS = 800


def load(name: str, folder: Path, most: int, judged: int) -> tuple[RetrievalSet, list[Document]]:
    """Return a collection with at most so many documents and judged queries, and its documents.

    Documents that are relevant to a query are kept; the others are drawn.
    """
    if name in SHORT:
        data = _short(name, folder)
        data = reduced(data, most, judged)
        unique = dict.fromkeys(data.documents)
        return data, [Document(text, str(place)) for place, text in enumerate(unique)]
    place = folder / "retrieval" / name
    data = load_retrieval(str(place), split="dev" if name == "tldr" else None)
    data = replace(reduced(data, most, judged), name=name)
    kept = {*data.documents}
    return data, [document for document in read_unique_documents(str(place)) if document.whole in kept]


def reduced(data: RetrievalSet, most: int, judged: int) -> RetrievalSet:
    """Return a draw of the queries, their relevant documents, and a draw of the other documents."""
    generator = np.random.default_rng(0)
    queries = np.sort(generator.permutation(len(data))[:judged])
    rows = data.judged[np.isin(data.judged[:, 0], queries)].copy()
    rows[:, 0] = np.searchsorted(queries, rows[:, 0])
    needed = {int(row) for row in rows[:, 1] if row >= 0}
    others = [row for row in generator.permutation(len(data.documents)).tolist() if row not in needed]
    documents = sorted([*needed, *others[: max(0, most - len(needed))]])
    places = {row: place for place, row in enumerate(documents)}
    rows[:, 1] = [places.get(row, -1) for row in rows[:, 1].tolist()]
    return replace(
        data,
        document_ids=[data.document_ids[row] for row in documents],
        documents=[data.documents[row] for row in documents],
        query_ids=[f"query-{data.query_ids[row]}" for row in queries],
        queries=[data.queries[row] for row in queries],
        judged=rows,
    )


def _short(name: str, folder: Path) -> RetrievalSet:
    """Make a set of sentences: of each group that says the same one is the query."""
    alike: list[tuple[str, str]] = []
    others: list[str] = []
    for first, second, same in _pairs(name, folder):
        if same and first != second:
            alike.append((first, second))
        else:
            others += [first, second]
    generator = np.random.default_rng(0)
    groups = _groups([alike[place] for place in generator.permutation(len(alike))[:_PAIRS]])
    documents: dict[str, str] = {}
    queries: dict[str, str] = {}
    judged: dict[str, dict[str, int]] = {}
    for group in groups:
        asked = int(generator.integers(len(group)))
        query = f"query-{len(queries)}"
        queries[query] = group[asked]
        judged[query] = {}
        for text in group[:asked] + group[asked + 1 :]:
            judged[query][f"document-{len(documents)}"] = 1
            documents[f"document-{len(documents)}"] = text
    known = {text for group in groups for text in group}
    for text in dict.fromkeys(others):
        if text not in known:
            documents[f"document-{len(documents)}"] = text
    return retrieval_set(documents, queries, judged, name=name)


def _groups(pairs: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Return the texts that pairs connect."""
    parents: dict[str, str] = {}

    def root(text: str) -> str:
        parents.setdefault(text, text)
        while parents[text] != text:
            text = parents[text]
        return text

    for first, second in pairs:
        parents[root(first)] = root(second)
    found: dict[str, list[str]] = defaultdict(list)
    for text in list(parents):
        found[root(text)].append(text)
    return [sorted(group) for group in found.values()]


def _pairs(name: str, folder: Path) -> Iterator[tuple[str, str, bool]]:
    """Yield pairs of sentences, and whether they say the same."""
    if name == "quora":
        with (folder / "cs224n" / "quora-dev.csv").open(newline="", encoding="utf-8") as file:
            for row in csv.reader(file, delimiter="\t"):
                if row[-1] in ("0.0", "1.0"):
                    yield row[2].strip('" '), row[3].strip('" '), row[-1] == "1.0"
    elif name == "mrpc":
        for path in sorted((folder / "senteval" / "downstream" / "MRPC").glob("msr_para*")):
            for line in path.read_text(encoding="utf-8-sig").splitlines()[1:]:
                cells = line.split("\t")
                if len(cells) == 5:
                    yield cells[3], cells[4], cells[0] == "1"
    else:
        yield from _graded(folder, lambda file: any(part in file for part in _PARTS[name]))


def _graded(folder: Path, chosen: Callable[[str], bool]) -> Iterator[tuple[str, str, bool]]:
    """Yield pairs of STS 2012 to 2016 from the files that are chosen."""
    for path in sorted((folder / "senteval" / "downstream" / "STS").glob("STS1*-en-test/STS.input.*.txt")):
        if not chosen(path.name):
            continue
        grades = path.with_name(path.name.replace("input", "gs")).read_text(encoding="utf-8").splitlines()
        for line, grade in zip(path.read_text(encoding="utf-8").splitlines(), grades, strict=False):
            cells = line.split("\t")
            if grade.strip() and len(cells) > 1:
                yield cells[0].strip(), cells[1].strip(), float(grade) >= _ALIKE
