"""Laws of growth: what they find again, and what they never say."""

from __future__ import annotations

import math

import pytest

from sentemb.search.laws import COUNT, ONE, Term, fit, law_of
from sentemb.search.plan import KINDS

SIZES = (2_000, 5_000, 10_000)
SQUARE = Term("n²", lambda n: n * n)


def test_a_law_is_found_again_and_followed() -> None:
    line = fit("read", "s", SIZES, [3 + 0.002 * n for n in SIZES], (ONE, COUNT), 10**7)
    assert line.forecast == pytest.approx(3 + 0.002 * 10**7)
    assert line.formula == "3 + 0.002·n"


def test_terms_of_very_different_size_are_told_apart() -> None:
    measured = [2 + 1e-4 * n + 1e-8 * n * n for n in SIZES]
    line = fit("index", "s", SIZES, measured, (ONE, COUNT, SQUARE), 10**6)
    assert line.forecast == pytest.approx(2 + 100 + 10_000, rel=1e-6)


def test_more_texts_never_take_less() -> None:
    line = fit("open", "s", SIZES, [3.0, 2.0, 1.0], (ONE, COUNT), 10**9)
    assert 1 <= line.forecast <= 3
    assert "n" not in line.formula


def test_a_step_that_takes_no_time_is_no_error() -> None:
    assert fit("terms", "s", SIZES, [0.0, 0.0, 0.0], (ONE, COUNT), 10**6).forecast < 0.1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", ["read", "train", "lists", "index", "tune"])
def test_every_law_grows_where_it_is_measured(step: str, kind: str) -> None:
    for term in law_of(step, kind):  # type: ignore[arg-type]
        figures = [term.of(n) for n in (1_000, 10_000, 10**6)]
        assert figures == sorted(figures)
        assert math.isfinite(term.of(10**9))
