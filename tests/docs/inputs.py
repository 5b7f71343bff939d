"""Small files, folders and models under the names that the guides use for them."""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

from sentemb.cli.main import run
from sentemb.data.bundled_text import (
    Question,
    bundled_pairs,
    bundled_questions,
    bundled_sentences,
    bundled_uses,
)
from sentemb.evaluation import load_records, system_of
from sentemb.modules.cards import bundled_folder
from sentemb.search import SearchIndex, read_documents
from tests.conftest import build_tiny_bert
from tests.printed import steps_of

ROOT = Path(__file__).parents[2]
SHARED_DATA = Path(os.environ.get("SENTEMB_TEST_DATA", ROOT.parent / "shared" / "data")).resolve()
Write = Callable[[Path], None]

_DOCUMENTS = [
    ("py-1", "Pass key=dict.get to sorted() to sort a dictionary by value.", "en", 2021),
    ("py-2", "Open files in a with statement, which closes them.", "en", 2019),
    ("py-3", "Use json.dumps() to write a dictionary as JSON text.", "en", 2023),
    ("py-4", "Mit sort() wird eine Liste an Ort und Stelle sortiert.", "de", 2020),
    ("py-5", "Error 0x80070057 means that a parameter is incorrect.", "en", 2018),
    ("id-1", "a cat asleep on the mat", "en", 2001),
    ("id-7", "birds in the air", "en", 2002),
    ("id-9", "a bird sings", "en", 2003),
    ("id-10", "She kept running fast.", "en", 2004),
]
_LABELS = {
    "abbreviation": "What does it stand for",
    "description": "Why is there",
    "entity": "Which animal is",
    "location": "Where lies",
    "number": "How many are",
    "person": "Who wrote",
}


def _json_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def _table(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])


def _documents(path: Path) -> None:
    """The documents that the guides name, and others."""
    rows = [dict(zip(("id", "text", "lang", "year"), row, strict=True)) for row in _DOCUMENTS]
    others = [{"id": f"text-{n}", "text": text} for n, text in enumerate(bundled_sentences()[:56])]
    _json_lines(path, [*rows, *others])


def _more_documents(path: Path) -> None:
    _json_lines(path, [{"id": path.stem, "text": "A tuple cannot be changed.", "lang": "en", "year": 2024}])


def _library(path: Path) -> None:
    """Entries of Python's documentation: their uses by their names."""
    _json_lines(path, ({"id": name, "text": text} for name, text in _uses().items()))


def _small_library(path: Path) -> None:
    """As few entries as `adapt` and `distill` take."""
    _json_lines(path, ({"id": name, "text": text} for name, text in _uses(110).items()))


def _uses(others: int = 750) -> dict[str, str]:
    """Those that answer the questions, and others."""
    uses = bundled_uses()
    answers = {name: uses[name] for one in _questions() for name in one.answers}
    return answers | dict(islice(uses.items(), others))


def _questions() -> list[Question]:
    known = bundled_uses().keys()
    return [one for one in bundled_questions() if known >= {*one.answers}][:20]


def _pairs(path: Path) -> None:
    """Questions with the passages that answer them."""
    parts = (text.partition(". ") for text in islice(bundled_uses().values(), 120))
    _json_lines(path, ({"question": first, "answer": rest} for first, _, rest in parts))


def _graded_pairs(path: Path) -> None:
    pairs = bundled_pairs()
    _table(
        path,
        ("sentence1", "sentence2", "score"),
        islice(zip(pairs.first, pairs.second, pairs.gold, strict=True), 30),
    )


def _labelled(path: Path) -> None:
    rows = [(f"{words} item {number} ?", label) for label, words in _LABELS.items() for number in range(4)]
    _table(path, ("text", "label"), rows)


def _inference_pairs(path: Path) -> None:
    rows = [
        ("A cat sat on the mat.", "A cat was sitting.", "entailment"),
        ("A cat sat on the mat.", "The cat ran away.", "contradiction"),
        ("A cat sat on the mat.", "The cat was tired.", "neutral"),
    ]
    _table(path, ("premise", "hypothesis", "label"), rows)


def _labelled_pairs(path: Path) -> None:
    pairs = bundled_pairs()
    rows_of = zip(pairs.first, pairs.second, pairs.gold >= 4, strict=True)
    _table(path, ("sentence1", "sentence2", "label"), ((*texts, int(label)) for *texts, label in rows_of))


def _back_translations(path: Path) -> None:
    rows = [("A cat sat.", "A cat was sitting."), ("Birds fly.", "Birds are flying.")]
    _table(path, ("text", "back_translation"), rows)


def _sentences(path: Path) -> None:
    path.write_text("\n".join(bundled_sentences()[:32]), encoding="utf-8")


def _queries(path: Path) -> None:
    """Questions on Python's documentation, with the qrels next to them."""
    _judged(path, ((one.text, one.answers) for one in _questions()))


def _queries_of_the_documents(path: Path) -> None:
    _judged(path, [("order a dict", ("py-1",)), ("0x80070057", ("py-5",)), ("save as JSON", ("py-3",))])


def _judged(path: Path, queries: Iterable[tuple[str, Sequence[str]]]) -> None:
    named = {f"q{number}": query for number, query in enumerate(queries, 1)}
    _json_lines(path, ({"_id": name, "text": text} for name, (text, _) in named.items()))
    lines = [f"{name}\t{document}\t1\n" for name, (_, found) in named.items() for document in found]
    path.with_name("qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines))


def _collection(folder: Path) -> None:
    """A folder in BEIR's layout."""
    _queries(folder / "queries.jsonl")
    (folder / "qrels").mkdir()
    (folder / "qrels.tsv").rename(folder / "qrels" / "test.tsv")
    rows = ({"_id": name, "text": text} for name, text in _uses(150).items())
    _json_lines(folder / "corpus.jsonl", rows)


def _bundled(name: str) -> Write:
    def write(folder: Path) -> None:
        source = bundled_folder(name)
        assert source is not None
        shutil.copytree(source, folder)

    return write


def _tiny_encoder(folder: Path, prompts: dict[str, str] | None = None) -> None:
    """A sentence encoder that trains and encodes in no time."""
    transformer = Transformer(str(build_tiny_bert(folder.with_name(f".{folder.name}"), layers=4)))
    pooling = Pooling(transformer.get_embedding_dimension(), "mean")
    encoder = SentenceTransformer(modules=[transformer, pooling], device="cpu", prompts=prompts)
    encoder.save(str(folder))


def _encoder_with_prompts(folder: Path) -> None:
    _tiny_encoder(folder, {"query": "query: ", "document": "passage: "})


def _loss(path: Path) -> None:
    """The one that the guide to training prints."""
    steps = steps_of((ROOT / "docs/guides/train.md").read_text("utf-8"))
    path.write_text(next(step.text for step in steps if "class MyLoss" in step.text))


def _unclear(path: Path) -> None:
    _table(
        path,
        ("title", "body"),
        [("Lists", "A list can be sorted in place."), ("Sets", "A set is unordered.")],
    )


def _command(*words: str | Path) -> None:
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()), suppress(SystemExit):
        run([*map(str, words)])


def _vectors(folder: Path) -> None:
    source = folder.with_name(f".{folder.name}.jsonl")
    _library(source)
    _command("encode", source, "--model", "static-mini", "--output", folder)


def _records(folder: Path) -> None:
    """Write the record of an encoder that lies next to them, on graded pairs."""
    pairs = folder.with_name("pairs.csv")
    _graded_pairs(pairs)
    _command("eval", "sts", "all-MiniLM-L6-v2", "static-mini", "--sets", pairs, "--output", folder)


def _query_scores(path: Path) -> None:
    """NDCG@10 of the queries of scifact, for every system that has a record."""
    records = load_records([ROOT / "eval" / "results"], suite="retrieval")
    rows = []
    for record in (one for one in records if "scifact" in {data.name for data in one.datasets}):
        scores = system_of([record], record.model, measure="ndcg@10").sets["scifact"].predictions[0]
        rows += [(record.model, number, round(float(score), 4)) for number, score in enumerate(scores)]
    _table(path, ("model", "query", "score"), rows)


def _index(write_documents: Write) -> Write:
    def write(folder: Path) -> None:
        source = folder.with_name(f".{folder.name}.jsonl")
        write_documents(source)
        SearchIndex.build(read_documents(source), "static-mini").save(folder)

    return write


INPUTS: dict[str, Write] = {
    "a loss": _loss,
    "a table with two columns": _unclear,
    "a collection": _collection,
    "a sentence encoder": _tiny_encoder,
    "a sentence encoder with prompts": _encoder_with_prompts,
    "an index of documents": _index(_documents),
    "an index of Python's documentation": _index(_library),
    "data sets": lambda folder: folder.symlink_to(SHARED_DATA),
    "back-translations": _back_translations,
    "documents": _documents,
    "graded pairs": _graded_pairs,
    "inference pairs": _inference_pairs,
    "labelled pairs": _labelled_pairs,
    "labelled texts": _labelled,
    "more documents": _more_documents,
    "pairs": _pairs,
    "Python's documentation": _library,
    "a little of Python's documentation": _small_library,
    "queries": _queries,
    "queries of the documents": _queries_of_the_documents,
    "records": _records,
    "scores of queries": _query_scores,
    "sentences": _sentences,
    "sg-bert-mini": _bundled("sg-bert-mini"),
    "bert-mini": _bundled("bert-mini"),
    "static-mini": _bundled("static-mini"),
    "the folder eval": lambda folder: folder.symlink_to(ROOT / "eval"),
    "vectors": _vectors,
}
"""What a page may get, each with the function that writes it to a path."""
