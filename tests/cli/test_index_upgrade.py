"""`sentemb index upgrade`, and percentiles on the command line."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.conftest import WORDS


@pytest.fixture
def index(tmp_path: Path, tiny_bert: Path, sentemb: Command) -> Path:
    rng = random.Random(0)
    words = [word for word in WORDS if not word.startswith("#")]
    texts = {" ".join(rng.sample(words, 6)) for _ in range(640)}
    (tmp_path / "corpus.txt").write_text("\n".join(sorted(texts)) + "\n")
    code, _, _ = sentemb(
        "index",
        "build",
        tmp_path / "corpus.txt",
        "-m",
        tiny_bert,
        "--pooling",
        "mean",
        "-o",
        tmp_path / "index",
    )
    assert code == 0
    return tmp_path / "index"


def test_hits_show_percentiles_and_are_filtered_by_them(sentemb: Command, index: Path) -> None:
    code, out, _ = sentemb("index", "search", index, "a cat sat on the mat", "-k", 300, "--json")
    hits = json.loads(out)["hits"]
    assert code == 0 and [hit["percentile"] for hit in hits] == sorted(
        (hit["percentile"] for hit in hits), reverse=True
    )
    middle = hits[100]["percentile"]
    _, out, _ = sentemb(
        "index", "search", index, "a cat sat on the mat", "-k", 300, "--json", "--min-score", f"{middle}%"
    )
    assert json.loads(out)["hits"] == [hit for hit in hits if hit["percentile"] >= middle]
    _, out, _ = sentemb("index", "search", index, "a cat sat on the mat", "-k", 1)
    assert "| score | percentile | id | text |" in out
    code, _, error = sentemb("index", "search", index, "a cat", "--min-score", "100%")
    assert code == 2 and "random pairs; choose" in error
    _, out, _ = sentemb("index", "info", index)
    assert "random pairs of texts, 50% score below" in out
