from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist

import numpy as np
import pytest

from sentemb.errors import InputError
from sentemb.evaluation.comparison import compare
from sentemb.evaluation.statistics import Power, power, simulate_power
from sentemb.evaluation.systems import Seed, SetRuns, System

DISTRIBUTIONS: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "normal": lambda generator: generator.normal(0.2, 1, 100),
    "few": lambda generator: generator.normal(0.2, 1, 12),
    "skewed": lambda generator: generator.lognormal(size=100),
    "skewed the other way": lambda generator: np.sort(generator.lognormal(size=100)) - 4,
    "tied": lambda generator: generator.choice([0, 1, -1, 0.5], p=[0.7, 0.15, 0.1, 0.05], size=100),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_a_difference_shown_with_80_percent_power_is(name: str) -> None:
    gains = DISTRIBUTIONS[name](np.random.default_rng(0))
    effect = power(gains).detectable()
    # Experiments of their own: other draws of items and of exchanges, one test at a time.
    generator = np.random.default_rng(1)
    sign, significant = np.sign(gains.mean()), 0
    for _ in range(1000):
        drawn = sign * (generator.choice(gains, len(gains)) - gains.mean()) + effect
        exchanged = np.abs((2 * generator.integers(0, 2, (400, len(gains))) - 1) @ drawn)
        significant += (1 + (exchanged >= abs(drawn.sum())).sum()) / 401 < 0.05
    assert significant / 1000 == pytest.approx(0.8, abs=0.03)
    assert simulate_power(gains, effect, seed=2) == pytest.approx(0.8, abs=0.03)


def test_the_formula_is_the_usual_one_for_many_items() -> None:
    found = Power(2000, 0.5, 1999)
    quantile = NormalDist().inv_cdf
    assert found.detectable() == pytest.approx((quantile(0.975) + quantile(0.8)) * 0.5, rel=0.002)
    assert found.of(0.0) == pytest.approx(0.05)
    assert found.of(1.0) == pytest.approx(0.516, abs=0.002)


def test_the_needed_count_is_the_first_that_suffices() -> None:
    for count, effect in ((5, 0.7), (200, 0.1)):  # seeds have few degrees of freedom
        found = Power(count, 0.5, count - 1)
        needed = found.needed(effect)
        assert needed is not None and found.of(effect, count=needed) >= 0.8 > found.of(
            effect, count=needed - 1
        )
    assert Power(200, 0.5, 199).needed(0.0) is None
    assert Power(3, 0.0, 2).detectable() == 0.0 and Power(3, 0.0, 2).of(0.1) == 1.0


def test_differences_that_no_test_could_show_are_refused() -> None:
    with pytest.raises(InputError, match="5 differences that are not 0 are too few"):
        power([0.0] * 50 + [1.0] * 5)
    with pytest.raises(InputError, match="not a finite number"):
        power([1.0, float("nan")] * 5)


def system(name: str, seeds: tuple[Seed, ...], **sets: np.ndarray) -> System:
    runs = {one: SetRuns(np.zeros(scores.shape[1]), scores, one) for one, scores in sets.items()}
    return System(name, "ndcg@10", seeds, runs)


def test_a_comparison_says_what_it_could_have_shown() -> None:
    generator = np.random.default_rng(0)
    base = generator.uniform(0, 1, (4, 300))
    near = base + generator.normal(0.002, 0.2, 300) + generator.normal(0, 0.005, (4, 1))
    found = compare(system("base", (1, 2, 3, 4), a=base), system("near", (1, 2, 3, 4), a=near))
    items, seeds = found.headline.power_items, found.headline.power_seeds
    assert items is not None and seeds is not None and seeds.count == 4
    assert items.detectable() == pytest.approx(2.8 * 20 / 300**0.5, rel=0.1)
    sentence = found.power_sentence()
    assert sentence.startswith(
        f"With 80 % power, 300 queries could have shown a difference of {items.detectable():.2f}"
    )
    assert "4 seeds one of" in sentence and "more queries" in sentence and sentence.endswith("would decide")
    more, _ = found.headline.missing()
    assert more is not None and items.of(found.headline.size, count=300 + more) >= 0.8
    far = compare(system("base", (1,), a=base[:1]), system("far", (1,), a=near[:1] + 0.5))
    assert far.headline.missing() == (None, None) and "would decide" not in far.power_sentence()
    same = compare(system("base", (1,), a=base[:1]), system("same", (1,), a=base[:1]))
    assert same.headline.detectable() is None and "cannot show any difference" in same.power_sentence()


def test_the_power_of_an_average_counts_each_set_alike() -> None:
    generator = np.random.default_rng(0)
    one, other = (generator.normal(0.5, 0.2, (1, count)) for count in (50, 400))
    shift = [generator.normal(0.3, 0.2, (1, count)) for count in (50, 400)]
    found = compare(
        system("base", (1,), a=one, b=other), system("far", (1,), a=one + shift[0], b=other - shift[1])
    )
    assert found.average is not None and found.average.power_items is not None
    error = 100 * (shift[0].var() / 50 + shift[1].var() / 400) ** 0.5 / 2
    assert found.average.power_items.error == pytest.approx(error, rel=0.06)
