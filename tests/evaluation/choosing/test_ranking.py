from __future__ import annotations

import numpy as np
import pytest

from sentemb.data.retrieval import RetrievalSet
from sentemb.evaluation.choosing.ranking import Ranking, rank
from sentemb.evaluation.systems import SetRuns, System, with_clusters

NONE = np.empty((0, 3), dtype=np.int64)


def system(name: str, **sets: np.ndarray) -> System:
    runs = {
        one: SetRuns(gold=np.zeros(len(scores)), predictions=scores[None], content=one)
        for one, scores in sets.items()
    }
    return System(name, "ndcg@10", (None,), runs)


def scores(mean: float, seed: int, count: int = 200) -> np.ndarray:
    return np.clip(np.random.default_rng(seed).normal(mean, 0.2, count), 0, 1)


def test_places_scores_and_intervals() -> None:
    first = scores(0.7, 0)
    near = first + np.random.default_rng(1).normal(0, 0.05, 200)
    low = scores(0.3, 2)
    found = rank(
        [system("low", a=low, b=low), system("near", a=near, b=near), system("first", a=first, b=first)]
    )
    assert {*found.names[:2]} == {"first", "near"} and found.names[2] == "low"
    assert [found.places[name] for name in found.names] == [1, 1, 3]
    assert found.scores["low"] == pytest.approx(100 * low.mean())
    bottom, top = found.intervals["low"]
    assert bottom < found.scores["low"] < top
    # Four hundred queries: as wide as the normal approximation says.
    assert top - bottom == pytest.approx(2 * 1.96 * 100 * low.std() / 400**0.5, rel=0.15)
    assert not found.pair("first", "near").real and found.pair("low", "near").real
    assert [pair.worse for pair in found.pairs if pair.better == found.names[0]] == [*found.names[1:]]


def test_kinds_that_ask_for_the_same_documents_tell_no_more_than_one() -> None:
    some, more = scores(0.5, 0), scores(0.5, 1)
    worse = some - np.random.default_rng(2).normal(0.02, 0.15, 200)
    names = [str(number) for number in range(200)]
    tasks = [RetrievalSet(one, "cut", names, names, names, names, NONE) for one in "ab"]
    alone = rank([system("some", a=some), system("worse", a=worse)])
    apart = rank([system("some", a=some, b=some), system("worse", a=worse, b=worse)])
    pairs = [system("some", a=some, b=some), system("worse", a=worse, b=worse)]
    shared = rank([with_clusters(one, tasks) for one in pairs])
    assert width(shared) == pytest.approx(width(alone)) and width(apart) < 0.8 * width(alone)
    own, both, kept = (one.pair("some", "worse").difference for one in (alone, apart, shared))
    assert kept.p == pytest.approx(own.p) and both.p < kept.p
    assert kept.interval == pytest.approx(own.interval)
    # What two kinds say of a document apart from each other is worth two kinds.
    mixed = rank([with_clusters(system("some", a=some, b=more), tasks)])
    assert width(mixed) == pytest.approx(width(rank([system("some", a=some, b=more)])), rel=0.15)


def test_kinds_may_ask_for_some_of_the_documents_alone() -> None:
    values = scores(0.5, 0)
    names = [str(number) for number in range(200)]
    tasks = [
        RetrievalSet("a", "cut", names, names, names, names, NONE),
        RetrievalSet("b", "cut", names, names, names[:50], names[:50], NONE),
    ]
    found = rank([with_clusters(system("one", a=values, b=values[:50]), tasks)])
    generator = np.random.default_rng(5)
    means = []
    for _ in range(4000):
        drawn = generator.integers(0, 200, 200)
        means.append(50 * (values[drawn].mean() + values[drawn[drawn < 50]].mean()))
    assert width(found) == pytest.approx(np.ptp(np.quantile(means, [0.025, 0.975])), rel=0.05)


def width(found: Ranking) -> float:
    low, high = found.intervals["some" if "some" in found.intervals else found.names[0]]
    return high - low


def test_each_kind_counts_the_same_whatever_its_number_of_queries() -> None:
    found = rank([system("one", a=np.full(300, 0.2), b=np.full(20, 0.8))])
    assert found.scores["one"] == pytest.approx(50)


def test_kinds_that_disagree_tell_nothing_apart() -> None:
    high, low = scores(0.8, 0), scores(0.2, 1)
    middle = scores(0.5, 2)
    found = rank([system("words", a=high, b=middle - 0.1), system("meaning", a=low, b=middle)])
    (pair,) = found.pairs
    assert pair.better == "words" and pair.difference.p < 0.01
    assert not pair.agree and not pair.real
    assert found.places == {"words": 1, "meaning": 1}


@pytest.mark.parametrize(("queries", "told"), [(200, False), (60, True)])
def test_a_kind_of_many_queries_must_say_so_by_itself(queries: int, told: bool) -> None:
    low, high, noise = scores(0.3, 0), scores(0.6, 1), np.random.default_rng(2).normal(0.01, 0.3, 200)
    few = slice(queries)
    found = rank([system("one", a=high, b=(low + noise)[few]), system("other", a=low, b=low[few])])
    (pair,) = found.pairs
    assert pair.better == "one" and pair.difference.p < 0.01
    assert found.sets["one"]["b"] > found.sets["other"]["b"]
    assert pair.agree is told and found.places == {"one": 1, "other": 2 if told else 1}


def test_p_values_are_corrected_over_all_pairs() -> None:
    base = scores(0.5, 0)
    shifted = base + np.random.default_rng(3).normal(0.012, 0.08, 200)
    two = rank([system("base", a=base), system("shifted", a=shifted)])
    others = [system(f"other{number}", a=scores(0.5, 10 + number)) for number in range(6)]
    many = rank([system("base", a=base), system("shifted", a=shifted), *others])
    alone, among = (found.pair("base", "shifted").difference.p for found in (two, many))
    assert alone < 0.05 < among


def test_many_systems_can_still_be_told_apart() -> None:
    # Holm's correction of 190 pairs takes at least 3,800 draws.
    found = rank([system(f"s{step}", a=scores(step / 20, step)) for step in range(20)], draws=100)
    assert found.pair("s0", "s19").real and found.pair("s5", "s15").real
