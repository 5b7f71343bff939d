"""`sentemb plan`: its table, its verdict and what refuses it."""

from __future__ import annotations

import json
from itertools import islice, product
from pathlib import Path

import pytest

from tests.cli.conftest import Command


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    words = "red green blue warm cold small large old new quick slow bright".split()
    path.write_text("\n".join(" ".join(some) for some in islice(product(words, repeat=4), 4_000)))
    return path


def test_prints_formulas_verdict_and_commands(texts: Path, tmp_path: Path, sentemb: Command) -> None:
    output = tmp_path / "plan.json"
    code, out, err = sentemb("plan", "1e7", "--texts", texts, "--sample", 3_000, "--recall", 1, "-o", output)
    assert code == 0
    written = json.loads(output.read_text())
    assert written["count"] == 10**7
    assert written["plan"]["kind"] == "ivfpq"
    for line in written["lines"]:
        assert line["formula"].replace("|", "\\|") in out
    assert "Verdict: " in out
    assert "This is below --recall 1: raise --memory-budget" in out
    assert f"next: sentemb encode {texts} -o vectors --model static-mini --workers 1 --dtype float16" in err
    assert "next: sentemb index build vectors -o index --kind ivfpq" in err
    code, _, err = sentemb("plan", "1e7", "--texts", texts, "-o", output)
    assert (code, "--overwrite" in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["many"], "'many' is not a number of texts"),
        (["nan"], "'nan' is not a number of texts"),
        (["1.5"], "'1.5' is not a number of texts"),
        (["1e30"], "'1e30' is not a number of texts"),
        (["1e7", "--texts", "absent.txt"], "absent.txt"),
        (["1e7", "--texts", "memory://absent.txt"], "no such file: memory://absent.txt"),
        (["1e7", "--text-column", "x"], "--texts"),
        (["1e7", "--texts", "texts.txt", "--sample", 10**9], "--sample"),
        (["1e7", "--memory-budget", "much"], "'much' is not a size"),
        (["1e7", "--model", "absent/model/x"], "absent/model/x"),
        (["1e4", "--texts", "texts.txt", "-o", "texts.txt"], "would replace the input"),
    ],
)
def test_what_cannot_be_planned(
    arguments: list[str],
    said: str,
    texts: Path,
    tmp_path: Path,
    sentemb: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = sentemb("plan", *arguments)
    assert (code, err.count("\n")) == (2, 1)
    assert said in err
    assert [path.name for path in tmp_path.iterdir()] == ["texts.txt"]
