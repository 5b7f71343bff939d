"""Two systems are judged at the terminal."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from sentemb.search import SearchIndex
from tests.cli.conftest import Command

ANIMALS = ("cat", "dog", "bird", "horse", "fish", "goat")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("judge")
    texts = [
        f"a {one} {verb} near the {other}" for one in ANIMALS for other in ANIMALS for verb in ("sat", "ran")
    ]
    SearchIndex.build(texts, "static-mini").save(made / "index")
    (made / "queries.txt").write_text(
        "\n".join(f"which {one} was running in {n}" for one in ANIMALS for n in range(5))
    )
    return made


class Keys(io.StringIO):
    """Answers that prefer the side of a system, by the file's last line; then an interruption."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self.lines = lines

    def readline(self, size: int = -1, /) -> str:
        if not self.lines:
            raise KeyboardInterrupt
        return f"{self.lines.pop(0)}\n"


def values(path: Path) -> list[float | None]:
    return [json.loads(line)["value"] for line in path.read_text().splitlines()[1:]]


def test_judging_stops_resumes_and_ends(
    folder: Path, sentemb: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    command = ("judge", "index", "--systems", "dense", "bm25", "--queries", "queries.txt", "--k", 2)
    monkeypatch.setattr("sys.stdin", Keys(["1", "what", "=", "S"]))
    code, out, err = sentemb(*command)
    assert code == 0 and "2 judged in judgements.jsonl: not enough yet" in err
    assert "dense" not in out and "bm25" not in out  # blind
    assert "which" in out and out.count("better: 1 or 2") == 5
    path = folder / "judgements.jsonl"
    assert len(values(path)) == 3 and values(path)[1:] == [0.5, None]
    # An honest judge, who sees the documents and likes those of keyword search.
    monkeypatch.setattr("sentemb.cli.judge._show", lambda query, sides, judged: keys.show(sides))
    keys = Keys([])
    keyword = SearchIndex.load("index").search

    def show(sides: list[list[tuple[str, str]]]) -> None:
        query = shown.pop(0)
        best = [str(hit.id) for hit in keyword(query, 2, mode="keyword")]
        keys.lines.append("1" if [one[0] for one in sides[0]] == best else "2")

    shown: list[str] = []
    monkeypatch.setattr(
        "sentemb.cli.judge._show", lambda query, sides, judged: (shown.append(query), show(sides))
    )
    monkeypatch.setattr("sys.stdin", keys)
    code, out, err = sentemb(*command)
    assert code == 0 and "Enough: bm25 is better than dense: bm25 is preferred for" in out
    assert 5 < len(values(path)) < 25
    before = path.read_bytes()
    code, out, _ = sentemb(*command)  # decided: nobody is asked
    assert code == 0 and "Enough: bm25" in out and path.read_bytes() == before


def test_systems_may_be_models_and_queries_generated(
    folder: Path, sentemb: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    for systems in (("static-mini", "hybrid:static-mini"), ("dense", "index")):
        code, _, err = sentemb("judge", "index", "--systems", *systems, "-o", f"{systems[0]}.jsonl")
        assert code == 0 and "those of your users tell more" in err


@pytest.mark.parametrize(
    ("systems", "more", "message"),
    [
        (("keyword", "bm25"), (), "both systems are keyword"),
        (("dense", "run.trec"), (), "run.trec is a saved run"),
        (("dense", "hybrid"), ("--queries", "none.txt"), "none.txt"),
        (("dense", "hybrid"), ("-o", "index/manifest.json"), "something else"),
    ],
)
def test_slips_are_one_line(
    systems: tuple[str, str],
    more: tuple[str, ...],
    message: str,
    folder: Path,
    sentemb: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    manifest = (folder / "index/manifest.json").read_bytes()
    code, _, err = sentemb("judge", "index", "--systems", *systems, "-o", f"{systems[1]}-slip.jsonl", *more)
    assert code == 2 and message in err.splitlines()[-1]
    assert (folder / "index/manifest.json").read_bytes() == manifest
