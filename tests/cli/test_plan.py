"""`sentemb plan`: its estimates, its table, its verdict and what refuses it."""

from __future__ import annotations

import json
from itertools import islice, product
from pathlib import Path
from typing import Any

import pytest

from sentemb.cli import plan as module
from sentemb.cli.plan import Estimate, estimate
from sentemb.errors import InputError
from sentemb.search.plan import DEFAULT_MEMORY_BUDGET, estimate_bytes, plan_index
from tests.cli.conftest import Command

WORDS = "red green blue warm cold small large old new quick slow bright dark loud soft thin".split()


def texts(count: int) -> list[str]:
    return [" ".join(words) for words in islice(product(WORDS, repeat=4), count)]


def of(count: int, some: list[str], budget: int | None = None, **options: Any) -> Estimate:
    return estimate(count, some, module._Options.model_construct(**options), budget)


@pytest.fixture(scope="module")
def codes() -> Estimate:
    return of(10**6, texts(3_000), kind="ivfpq", sample=3_000)


def test_both_runs_are_those_of_the_commands(codes: Estimate) -> None:
    assert codes.sizes == (750, 3_000)
    times = [line for line in codes.lines if line.kind == "time"]
    assert [line.name for line in times] == [
        *("encode", "index build", "index build, recall", "index build, lists", "index build, codes")
    ]
    assert codes.plan.factory.startswith("IVF1000,")
    assert codes.recall is not None and codes.recall > 0.5
    # A text takes microseconds, not the seconds in which a command starts.
    encoding = times[0]
    assert encoding.forecast < 10**6 * 1e-3 and " + " in encoding.formula and encoding.formula.endswith("·n")
    assert codes.to_json()["seconds"] == sum(line.forecast for line in times)


def test_room_is_what_the_folders_take(codes: Estimate) -> None:
    vectors, documents, index = codes.all_of("disk")
    half = 2 * codes.dimension
    assert half * 10**6 < vectors < (half + 200) * 10**6
    assert 30 * 10**6 < documents < 2_000 * 10**6
    assert index == codes.plan.bytes == estimate_bytes(codes.plan.factory, 10**6, codes.dimension)
    _, building, searching = codes.all_of("memory")
    assert building > searching > codes.plan.bytes


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that take no time: only what is planned counts."""

    def measure(some: list[str], *_: Any) -> dict[str, Any]:
        size = len(some)
        linear = dict.fromkeys(("encode", "index build", "vectors", "documents of the index"), 2.0 + size)
        return linear | {"train": 1.0, "tune": 1.0, "recall": 0.9, "memory": 10, "build memory": 20}

    monkeypatch.setattr(module, "_measure", measure)


@pytest.mark.usefixtures("unmeasured")
def test_without_a_budget_the_memory_is_what_the_index_needs() -> None:
    found = of(10**9, texts(100))
    assert (found.machines, found.count, found.plan.kind) == (1, 10**9, "ivfpq")
    assert found.plan.bytes > DEFAULT_MEMORY_BUDGET
    # What is proposed, `index build --kind ivfpq` without a budget, builds that index.
    assert found.plan.factory == plan_index(10**9, found.dimension, kind="ivfpq", rescored=True).factory
    assert found.recall is None  # the texts were repeated


@pytest.mark.usefixtures("unmeasured")
@pytest.mark.parametrize("budget", [10 * 10**9, 10**8])
def test_a_budget_divides_the_texts_among_the_fewest_machines(budget: int) -> None:
    found = of(10**9, texts(100), budget)
    assert found.machines > 1
    assert found.count == -(-(10**9) // found.machines)
    assert found.plan.bytes <= budget
    with pytest.raises(InputError):
        plan_index(-(-(10**9) // (found.machines - 1)), found.dimension, memory_budget=budget, rescored=True)


@pytest.mark.usefixtures("unmeasured")
@pytest.mark.parametrize("count", [1, 500, 10_000, 10**6, 10**12])
def test_every_size_is_answered(count: int) -> None:
    found = of(count, texts(100))
    assert found.count == count
    assert found.lines[0].forecast == pytest.approx(2 + count)  # what the runs took to start is not followed
    assert found.lines[0].formula == "2 + 1·n"


@pytest.mark.usefixtures("unmeasured")
def test_a_graph_grows_faster_than_its_texts_and_what_fits_no_machine_is_refused() -> None:
    line = of(10**6, texts(100), kind="hnsw").lines[1]
    assert line.formula.endswith("·n·log n") and line.forecast > 10**6
    with pytest.raises(InputError, match="do not fit a memory budget"):
        of(10**6, texts(100), 100)
    with pytest.raises(InputError, match="does not contain a text"):
        of(10**6, [])


def test_prints_formulas_verdict_and_commands(tmp_path: Path, sentemb: Command) -> None:
    file, output = tmp_path / "texts.txt", tmp_path / "plan.json"
    file.write_text("\n".join(texts(500)))
    words = ("plan", "1e7", "--texts", file, "--kind", "flat", "--sample", 400, "-o", output)
    code, out, err = sentemb(*words)
    assert code == 0
    written = json.loads(output.read_text())
    assert (written["count"], written["plan"]["kind"]) == (10**7, "flat")
    for line in written["lines"]:
        assert line["formula"].replace("|", "\\|") in out
    assert "Verdict: " in out
    assert f"next: sentemb encode {file} -o vectors --model static-mini --workers 1 --dtype float16" in err
    assert "next: sentemb index build vectors -o index --kind flat" in err
    code, _, err = sentemb(*words)
    assert (code, "--overwrite" in err) == (2, True)


def test_a_recall_below_what_is_required_is_said(codes: Estimate, capsys: pytest.CaptureFixture[str]) -> None:
    module._print(codes, module._Options.model_construct(recall=1.0))
    out = capsys.readouterr().out
    assert "This is below --recall 1: raise --memory-budget" in out and "with 3,000 texts" in out
