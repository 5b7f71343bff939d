"""A forecast of many texts from runs on a few."""

from __future__ import annotations

from itertools import islice, product
from typing import Any

import pytest

from sentemb.cli import forecast as forecasts
from sentemb.cli.forecast import Forecast, forecast
from sentemb.errors import InputError
from sentemb.search.plan import DEFAULT_MEMORY_BUDGET, estimate_bytes, format_bytes, plan_index

WORDS = "red green blue warm cold small large old new quick slow bright dark loud soft thin".split()
MODEL = {"model": "static-mini"}


def texts(count: int) -> list[str]:
    return [" ".join(words) for words in islice(product(WORDS, repeat=4), count)]


@pytest.fixture(scope="module")
def codes() -> Forecast:
    return forecast(10**6, texts(3_000), MODEL, kind="ivfpq", most=3_000)


def test_both_runs_are_those_of_the_commands(codes: Forecast) -> None:
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
    written = codes.to_json()
    assert written["seconds"] == sum(line.forecast for line in times)


def test_room_is_what_the_folders_take(codes: Forecast) -> None:
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

    def measure(some: list[str], *_: Any, **options: Any) -> dict[str, Any]:
        size = len(some)
        linear = dict.fromkeys(("encode", "index build", "vectors", "documents of the index"), 2.0 + size)
        return linear | {"train": 1.0, "tune": 1.0, "recall": 0.9, "memory": 10, "build memory": 20}

    monkeypatch.setattr(forecasts, "_measure", measure)


@pytest.mark.usefixtures("unmeasured")
def test_without_a_budget_the_memory_is_what_the_index_needs() -> None:
    found = forecast(10**9, texts(100), MODEL)
    assert (found.machines, found.count, found.plan.kind) == (1, 10**9, "ivfpq")
    assert found.plan.bytes > DEFAULT_MEMORY_BUDGET
    assert f"take about {format_bytes(found.plan.bytes)}, because every index exceeds" in found.plan.reason
    # What is proposed, `index build --kind ivfpq` without a budget, builds that index.
    assert found.plan.factory == plan_index(10**9, found.dimension, kind="ivfpq", rescored=True).factory
    assert found.machines_by_default is not None and found.machines_by_default > 1
    assert found.recall is None  # the texts were repeated


@pytest.mark.usefixtures("unmeasured")
@pytest.mark.parametrize("budget", [10 * 10**9, 10**8])
def test_a_budget_divides_the_texts_among_the_fewest_machines(budget: int) -> None:
    found = forecast(10**9, texts(100), MODEL, memory_budget=budget)
    assert found.machines > 1 and found.machines_by_default is None
    assert found.count == -(-(10**9) // found.machines)
    assert found.plan.bytes <= budget
    with pytest.raises(InputError):
        plan_index(-(-(10**9) // (found.machines - 1)), found.dimension, memory_budget=budget, rescored=True)


@pytest.mark.usefixtures("unmeasured")
@pytest.mark.parametrize("count", [1, 500, 10_000, 10**6, 10**12])
def test_every_size_is_answered(count: int) -> None:
    found = forecast(count, texts(100), MODEL)
    assert found.count == count
    assert found.lines[0].forecast == pytest.approx(2 + count)  # what the runs took to start is not followed
    assert found.lines[0].formula == "2 + 1·n"


@pytest.mark.usefixtures("unmeasured")
def test_what_fits_no_number_of_machines_is_refused() -> None:
    with pytest.raises(InputError, match="do not fit a memory budget"):
        forecast(10**6, texts(100), MODEL, memory_budget=100)
    with pytest.raises(InputError, match="does not contain a text"):
        forecast(10**6, [" "], MODEL)


@pytest.mark.usefixtures("unmeasured")
def test_a_graph_grows_faster_than_its_texts() -> None:
    found = forecast(10**6, texts(100), MODEL, kind="hnsw")
    assert found.lines[1].formula.endswith("·n·log n")
    assert found.lines[1].forecast > 10**6
