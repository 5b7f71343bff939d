"""A forecast of many texts from runs on a few."""

from __future__ import annotations

from itertools import islice, product

import pytest

from sentemb.errors import InputError
from sentemb.search.forecast import FEWEST, Forecast, forecast
from sentemb.search.plan import DEFAULT_MEMORY_BUDGET, format_bytes, plan_index

WORDS = "red green blue warm cold small large old new quick slow bright dark loud soft thin".split()
MODEL = {"model": "static-mini"}


def texts(count: int) -> list[str]:
    return [" ".join(words) for words in islice(product(WORDS, repeat=4), count)]


@pytest.fixture(scope="module")
def codes() -> Forecast:
    return forecast(10**6, texts(FEWEST), MODEL, kind="ivfpq")


def test_steps_and_sizes_are_those_of_the_commands(codes: Forecast) -> None:
    assert codes.sizes == (int(FEWEST * 0.2), int(FEWEST * 0.45), FEWEST)
    assert {line.name for line in codes.building} >= {
        "read",
        "terms",
        "encode",
        "train",
        "index",
        "tune",
        "save",
    }
    assert codes.plan.factory.startswith("IVF1000,")
    assert codes.seconds == codes.encoding.forecast + sum(line.forecast for line in codes.building)
    assert codes.recall is not None
    assert codes.recall > 0.5


def test_room_is_what_the_folders_take(codes: Forecast) -> None:
    vectors, documents, index = codes.disk
    half = 2 * codes.dimension
    assert half * 10**6 < vectors.forecast < (half + 200) * 10**6
    assert 30 * 10**6 < documents.forecast < 1000 * 10**6
    assert index.forecast == pytest.approx(codes.plan.bytes, rel=0.25), format_bytes(codes.plan.bytes)
    encoding, building = codes.memory
    assert encoding.forecast == encoding.measured[0]  # before there was an index
    assert building.forecast >= max(building.measured) * 0.9


def test_without_a_budget_the_memory_is_what_the_index_needs() -> None:
    found = forecast(10**9, texts(FEWEST), MODEL)
    assert (found.machines, found.count, found.plan.kind) == (1, 10**9, "ivfpq")
    assert found.plan.bytes > DEFAULT_MEMORY_BUDGET
    assert (
        f"take about {format_bytes(found.plan.bytes)}, because every index exceeds the default"
        in found.plan.reason
    )
    # What is proposed, `index build --kind ivfpq` without a budget, builds that index.
    assert found.plan.factory == plan_index(10**9, found.dimension, kind="ivfpq", rescored=True).factory


def test_a_budget_divides_the_texts_among_machines() -> None:
    found = forecast(10**9, texts(FEWEST), MODEL, memory_budget=10 * 10**9)
    assert found.machines > 1
    assert found.count == -(-(10**9) // found.machines)
    assert found.plan.bytes <= 10 * 10**9
    assert found.to_json()["machines"] == found.machines


@pytest.mark.parametrize(
    ("count", "given", "said"),
    [
        (10**6, texts(FEWEST - 1) + texts(20), "different texts"),
        (FEWEST, texts(FEWEST), "are not more than"),
    ],
    ids=["few", "enough"],
)
def test_what_says_nothing_is_refused(count: int, given: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        forecast(count, given, MODEL)


def test_progress_counts_the_runs() -> None:
    seen: list[tuple[str, int, int]] = []
    forecast(10_000, texts(FEWEST), MODEL, progress=lambda *what: seen.append(what))
    assert seen == [("measuring", number, 3) for number in range(3)]
