"""`sentemb eval retrieval`: encoders, BM25, hybrids and runs side by side, with records to compare."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from sentence_transformers import SentenceTransformer

from sentemb.data.retrieval import load_retrieval
from sentemb.data.stored_texts import StoredTexts
from sentemb.evaluation import load_records
from sentemb.evaluation.retrieval import evaluate_retrieval
from tests.cli.conftest import Command
from tests.evaluation.retrieval.conftest import make_set


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A set of 60 documents and 30 queries on disk."""
    data = make_set("own", 60, 30)
    path = tmp_path / "own"
    (path / "qrels").mkdir(parents=True)
    for name, ids, texts in (
        ("corpus", data.document_ids, data.documents),
        ("queries", data.query_ids, data.queries),
    ):
        rows = (json.dumps({"_id": one, "text": text}) for one, text in zip(ids, texts, strict=True))
        (path / f"{name}.jsonl").write_text("\n".join(rows) + "\n")
    lines = [
        f"{data.query_ids[query]} 0 {data.document_ids[document]} {grade}\n"
        for query, document, grade in data.judged.tolist()
    ]
    (path / "qrels" / "test.txt").write_text("".join(lines))
    return path


@pytest.fixture
def model(tiny_encoder: SentenceTransformer, tmp_path: Path) -> Path:
    """The tiny encoder in a folder."""
    tiny_encoder.save(str(tmp_path / "tiny"))
    return tmp_path / "tiny"


def test_systems_side_by_side_leave_records_and_runs(
    sentemb: Command, folder: Path, model: Path, tmp_path: Path
) -> None:
    names = ["bm25", model, f"hybrid:{model}"]
    given = ("--sets", folder, "--output", tmp_path / "out", "--runs", tmp_path / "runs")
    code, out, err = sentemb("eval", "retrieval", *names, *given)
    assert code == 0, err
    assert "Retrieval, NDCG@10 x 100" in out and "recall@100 x 100" in out
    records = {record.model: record for record in load_records(tmp_path / "out")}
    assert {*records} == {"bm25", "tiny", "hybrid:tiny"}
    for name, system in (("bm25", "bm25"), ("tiny", model), ("hybrid:tiny", f"hybrid:{model}")):
        assert records[name].scores == evaluate_retrieval(system, [folder]).scores
    code, out, err = sentemb("eval", "retrieval", tmp_path / "runs" / "hybrid-tiny", "--sets", folder)
    assert code == 0 and f"{records['hybrid:tiny'].score('own'):.2f}" in out
    assert not list((tmp_path / "out").glob(".vectors-*"))
    code, out, err = sentemb("compare", "bm25", "tiny", "hybrid:tiny", "-r", tmp_path / "out")
    assert code == 0 and "p, items" in out
    code, out, err = sentemb("report", tmp_path / "out", "--baseline", "bm25", "-o", tmp_path / "page.html")
    assert code == 0, err
    assert "Retrieval" in (tmp_path / "page.html").read_text()


def test_vectors_of_the_documents_are_taken_from_a_folder(
    sentemb: Command, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors, given = tmp_path / "vectors", ("static-mini", "hybrid:static-mini", "--sets", folder)
    assert sentemb("encode", folder, "-o", vectors, "--shard-size", 7)[0] == 0
    assert sentemb("eval", "retrieval", "bm25", *given, "-o", tmp_path / "out")[0] == 0
    expected = {record.model: record.scores for record in load_records(tmp_path / "out")}
    assert len(expected) == 3
    # Many documents lie in files, and are compared some at a time.
    monkeypatch.setattr("sentemb.data.stored_texts._IN_MEMORY", 100)
    monkeypatch.setattr("sentemb.evaluation.retrieval.searchers._DOCUMENTS", 5)
    assert isinstance(load_retrieval(folder).documents, StoredTexts)
    assert sentemb("eval", "retrieval", "bm25", *given, "-o", tmp_path / "streamed")[0] == 0
    assert sentemb("eval", "retrieval", *given, "--vectors", vectors, "-o", tmp_path / "read")[0] == 0
    for output in ("streamed", "read"):
        records = {record.model: record for record in load_records(tmp_path / output)}
        assert len(records) >= 2
        assert {name: record.scores for name, record in records.items()}.items() <= expected.items()
    assert records["static-mini"].encoder["stored"] == "float32"
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    lines = (folder / "corpus.jsonl").read_text().splitlines()
    (other / "corpus.jsonl").write_text("\n".join([*lines[:9], lines[9].replace('"text": "', '"text": "x')]))
    more = tmp_path / "more"
    shutil.copytree(folder, more)
    (more / "corpus.jsonl").write_text("\n".join([*lines, '{"_id": "new", "text": "new"}']))
    for arguments, message in (
        (("--sets", other), "row 10: the text differs from that of other"),
        (("--sets", more), "contains 60 vectors, but more has 61 documents"),
        (("--sets", f"{folder},{other}"), "--vectors works with a single data set"),
        (("--sets", folder, "--vectors", folder), "does not contain finished vectors"),
    ):
        place = () if "--vectors" in arguments else ("--vectors", vectors)
        code, _, err = sentemb("eval", "retrieval", "static-mini", *arguments, *place)
        assert code == 2 and message in err.splitlines()[-1]
    code, _, err = sentemb("eval", "retrieval", "bert-mini", "--sets", folder, "--vectors", vectors)
    assert code == 2 and "was encoded with static-mini" in err.splitlines()[-1]
    next(vectors.glob("*.arrow")).write_bytes(b"damaged")
    code, _, err = sentemb("eval", "retrieval", "static-mini", "--sets", folder, "--vectors", vectors)
    assert code == 2 and "is damaged" in err.splitlines()[-1]


def test_what_is_recorded_is_not_evaluated_again(sentemb: Command, folder: Path, tmp_path: Path) -> None:
    other = shutil.copytree(folder, tmp_path / "other")
    given = ("--output", tmp_path / "out")
    assert sentemb("eval", "retrieval", "bm25", "--sets", folder, *given)[0] == 0
    code, _, err = sentemb("eval", "retrieval", "bm25", "--sets", f"{folder},{other}", *given)
    assert code == 0 and "retrieval: own" not in err and "retrieval: other" in err
    (record,) = load_records(tmp_path / "out")
    assert [one.name for one in record.datasets] == ["own", "other"]
