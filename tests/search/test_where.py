from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pytest

from sentemb.encoding.encoder import normalised
from sentemb.errors import InputError
from sentemb.search import SearchIndex
from sentemb.search.where import MOST_NESTED, Where, read_where
from tests.search.bag_of_words import BagOfWords, Table, clustered

DOCUMENT = {
    "day": "2024-01-31",
    "time": "2024-01-31T10:00:00+02:00",
    "author": {"name": "A", "x.y": 1},
    "a.b": 3,
    "year": 2020,
    "part": 1.5,
    "lang": "en",
    "open": True,
    "none": None,
    "tags": ["a"],
    "ÿ": "2020",
}


@pytest.mark.parametrize(
    ("conditions", "met"),
    [
        ({"year": 2020}, True),
        ({"year": 2020.0}, True),
        ({"year": {">=": 2020, "<": 2021}}, True),
        ({"year": {">": 2020}}, False),
        ({"year": {"!=": 2020}}, False),
        ({"year": "2020"}, False),
        ({"year": {"!=": "2020"}}, False),
        ({"ÿ": "2020"}, True),
        ({"ÿ": {">=": "2019-12-31"}}, True),
        ({"ÿ": 2020}, True),
        ({"ÿ": {">=": 2020.5}}, False),
        ({"ÿ": {"in": [1, 2020]}}, True),
        ({"lang": {"!=": 1}}, False),
        ({"day": {">": 1}}, False),
        ({"part": {"in": [1, 1.5]}}, True),
        ({"lang": {"in": ["de", "fr"]}}, False),
        ({"lang": {"in": []}}, False),
        ({"open": True, "lang": "en"}, True),
        ({"open": 1}, False),
        ({"year": True}, False),
        ({"open": True, "lang": "de"}, False),
        ({"none": "x"}, False),
        ({"none": {"!=": "x"}}, False),
        ({"tags": "a"}, False),
        ({"other": {"!=": 1}}, False),
        ({"other": {"not in": [1]}}, False),
        ({"year": {"not in": [2019, "2020"]}}, True),
        ({"year": {"not in": [2020]}}, False),
        ({"$not": {"other": 1}}, True),
        ({"$not": {"year": 2020, "lang": "de"}}, True),
        ({"$not": {"year": 2020, "lang": "en"}}, False),
        ({"$or": [{"year": 1}, {"lang": "en", "open": True}]}, True),
        ({"$or": [{"year": 1}, {"lang": "en", "open": False}]}, False),
        ({"$and": [{"year": 2020}, {"$not": {"$or": [{"lang": "de"}, {"part": 1}]}}], "open": True}, True),
        ({"year": {"exists": True}, "other": {"exists": False}, "none": {"exists": False}}, True),
        ({"none": {"exists": True}}, False),
        ({"author.name": "A", "a.b": {">": 2}}, True),
        ({"author.no": {"exists": True}}, False),
        ({"author.name.no": {"exists": True}}, False),
        ({"day": date(2024, 1, 31)}, True),
        ({"day": {">": date(2024, 1, 30), "<=": datetime(2024, 1, 31)}}, True),
        ({"day": {"in": [date(2024, 1, 30)]}}, False),
        ({"time": datetime(2024, 1, 31, 8, tzinfo=UTC)}, True),
        ({"time": datetime(2024, 1, 31, 10)}, True),
        ({"time": {"<": datetime(2024, 1, 31, 9, 30, tzinfo=UTC)}}, True),
        ({"ÿ": {">": date(1990, 1, 1)}}, False),
        ({"year": {">": date(1990, 1, 1)}}, False),
    ],
)
def test_conditions_compare_values_of_one_type(conditions: dict[str, Any], met: bool) -> None:
    assert Where(conditions).matches(json.dumps(DOCUMENT)) is met
    assert Where({"$not": conditions}).matches(json.dumps(DOCUMENT)) is not met


def test_a_document_without_metadata_has_no_field() -> None:
    for conditions, met in (
        ({"year": {"!=": 1}}, False),
        ({"year": {"exists": False}}, True),
        ({"$not": {"year": 1}}, True),
    ):
        assert Where(conditions).matches(None) is met


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ({}, "where must be a dict of conditions, not {}"),
        ("year>2020", "pass conditions such as"),
        ({"year": {"~": 1}}, "where, year: unknown operator '~'"),
        ({"year": {"in": "abc"}}, "needs a list, not"),
        ({"year": None}, "cannot compare with"),
        ({"year": [1]}, "cannot compare with"),
        ({"year": {"<": True}}, "cannot compare with True"),
        ({"year": float("nan")}, "cannot compare with nan"),
        ({3: 1}, "the field 3 is not a string"),
        ({"$where": "1"}, r"unknown operator '\$where'; write \$and, \$or, \$not, or the name of a field"),
        ({"year": {}}, "the condition is empty"),
        ({"year": {"not in": 3}}, "needs a list, not"),
        ({"year": {"exists": 1}}, "exists cannot compare with 1"),
        ({"year": {"in": [None]}}, "cannot compare with"),
        ({"$or": []}, r"\$or: \[\] is not a list of conditions"),
        ({"$and": {"year": 1}}, "is not a list of conditions"),
        ({"$not": {}}, "where must be a dict of conditions, not {}"),
        ({"$or": [1]}, "where must be a dict of conditions, not 1"),
        ({"$not": {"$nor": [{"year": 1}]}}, r"unknown operator '\$nor'"),
    ],
)
def test_what_is_no_condition_is_named(conditions: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Where(conditions)


def test_conditions_are_read_from_the_command_line() -> None:
    given = [
        "year>=2020",
        "year<2024",
        "lang=en",
        'code="7"',
        "open=true",
        "part!=-1.5",
        "a b= x=y ",
        "n=NaN",
    ]
    assert read_where(given) == {
        "year": {">=": 2020, "<": 2024},
        "lang": {"=": "en"},
        "code": {"=": "7"},
        "open": {"=": True},
        "part": {"!=": -1.5},
        "a b": {"=": " x=y "},
        "n": {"=": "NaN"},
    }


def test_a_condition_that_nothing_can_meet_is_told(caplog: pytest.LogCaptureFixture) -> None:
    documents = [(n, str(n), {"n": n, "code": f"x{n}"}) for n in range(3)]
    index = SearchIndex.build(documents, Table(clustered(4, 8)))
    for where, told in (
        ({"n": 9}, None),
        ({"m": 1}, "none of the documents has the field 'm'"),
        ({"code": {">": 1}}, "code is a string in every document, but the condition needs a number"),
        ({"n": {">": date(2024, 1, 1)}}, "n is a number in every document, .* needs a string"),
        ({"$or": [{"m": 1}, {"m": 2}]}, None),
        ({"n": {"in": ["1", True]}}, "n is a number in every document, .* needs a boolean or a string"),
    ):
        caplog.clear()
        assert index.search("3", where=where) == []
        reason = index.explain_no_match(where)
        assert re.fullmatch(told, reason or "") if told else reason is None
        assert (
            [bool(re.search(told, one)) for one in caplog.messages] == [True] if told else not caplog.messages
        )


@pytest.mark.parametrize("given", [["year"], ["year>"], ["=3"], [""], ["year=1", "year=2"]])
def test_what_cannot_be_read_is_named(given: list[str]) -> None:
    with pytest.raises(InputError, match="--where"):
        read_where(given)


@pytest.mark.parametrize("kind", ["flat", "hnsw", "ivfpq"])
def test_filters_find_k_at_every_selectivity(kind: str) -> None:
    """Before a change, after, with three tenths deleted, and compacted."""
    vectors = clustered(6550, 32)
    unit = normalised(vectors)
    documents = [(number, str(number), {"n": number}) for number in range(6500)]
    index = SearchIndex.build(documents, Table(vectors), kind=kind, memory_budget=10**7)  # type: ignore[arg-type]
    queries = [str(number) for number in range(6500, 6550)]
    alive = np.arange(6500)
    for change in ("none", "add", "delete", "compact"):
        if change == "add":
            index.update([(number, str(number), {"n": number}) for number in range(0, 6500, 9)])
        elif change == "delete":
            dead = np.random.default_rng(0).choice(6500, 1950, replace=False)
            index.delete(dead.tolist())
            alive = np.setdiff1d(alive, dead)
        elif change == "compact":
            index.compact()
            assert index.manifest.kind == kind and index.info()["deleted"] == 0
        for most in (6500, 650, 65, 7):
            matching = alive[alive < most]
            found = index.search(queries, 10, where={"n": {"<": most}})
            exact = matching[np.argsort(-(unit[6500:] @ unit[matching].T), axis=1)[:, :10]]
            shares = []
            for hits, true in zip(found, exact.tolist(), strict=True):
                assert len(hits) == min(10, len(matching)) and all(hit.id < most for hit in hits)
                shares.append(len({hit.id for hit in hits} & {*true}) / len(true))
            assert np.mean(shares) >= {"flat": 1, "hnsw": 0.95, "ivfpq": 0.85}[kind], (change, most)


def test_documents_with_one_text_are_told_apart() -> None:
    index = SearchIndex.build([(n, "w1", {"even": n % 2 == 0}) for n in range(10)], BagOfWords())
    assert [hit.id for hit in index.search("w1", 3, where={"even": False})] == [1, 3, 5]
    assert len(index.search("w1", 99, where={"even": False})) == 5
    assert index.search(["w1", "w2"], where={"even": "no"}) == [[], []]


def nested(depth: int, join: str) -> dict[str, Any]:
    """Return a condition inside of `depth` junctions."""
    where: dict[str, Any] = {"year": 1}
    for _ in range(depth):
        where = {join: where if join == "$not" else [where]}
    return where


@pytest.mark.parametrize("join", ["$not", "$and", "$or"])
def test_conditions_are_nested_up_to_a_limit(join: str) -> None:
    assert Where(nested(MOST_NESTED, join)).matches('{"year": 1}')
    for depth in (MOST_NESTED + 1, 100_000):
        with pytest.raises(InputError, match=f"nested more than {MOST_NESTED} levels deep"):
            Where(nested(depth, join))


def test_a_deeply_nested_value_is_refused_in_one_line() -> None:
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    for where in ({"year": value}, {"year": {"in": [value]}}, value, {"$and": [value]}):
        with pytest.raises(InputError) as refusal:
            Where(where)
        assert "\n" not in str(refusal.value) and len(str(refusal.value)) < 500
