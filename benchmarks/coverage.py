r"""Measure how often the intervals of `sentemb compare` and of geometry contain the true value.

    python benchmarks/coverage.py --output benchmarks/results/coverage.json
    python benchmarks/coverage.py --records eval/results --systems bert-mini-sg-opt,simcse-bert-mini \
        --output benchmarks/results/coverage.json

Each trial draws new items, compares two systems on them, and checks whether the interval of their difference
contains the true one, and whether the tests call the difference significant. In simulations with normal gold
scores and systems that add noise, the true difference follows from a formula. With records, items are
resampled from a set, whose own difference is the true one: gold scores with ties, similarities with heavy
tails, several runs. A 95 % interval should contain the true value in 95 % of the trials. A test at 0.05
should call a difference significant in 5 % of the trials without one.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
from scipy import stats

from sentemb._files import write_json
from sentemb.data.sts import ScoredPairs
from sentemb.evaluation.comparison import compare
from sentemb.evaluation.environment import library_versions
from sentemb.evaluation.geometry import Geometry, estimate_geometry
from sentemb.evaluation.measures import measure as measure_of
from sentemb.evaluation.record import load_records
from sentemb.evaluation.sts import EncodedSets
from sentemb.evaluation.systems import SetRuns, System, system_of

Double = npt.NDArray[np.float64]
LEVEL = 0.05


@dataclass(frozen=True)
class World:
    """Where pairs of systems come from.

    Attributes:
        name: What the table calls it.
        truth: The true difference x 100, second minus first.
        draw: A trial: two systems on new items.
    """

    name: str
    truth: float
    draw: Callable[[np.random.Generator], tuple[System, System]]


def normal_world(
    items: int, noises: tuple[float, float], *, measure: str = "spearman", sets: int = 1
) -> World:
    """Normal gold scores; a system's similarities are the gold with noise of its own."""

    def score(noise: float) -> float:
        pearson = 1 / math.sqrt(1 + noise**2)
        return 100 * (pearson if measure == "pearson" else 6 / math.pi * math.asin(pearson / 2))

    def draw(generator: np.random.Generator) -> tuple[System, System]:
        golds = generator.normal(size=(sets, items))
        first, second = (
            system(
                name, [(gold, (gold + noise * generator.normal(size=items))[None]) for gold in golds], measure
            )
            for name, noise in zip(("first", "second"), noises, strict=True)
        )
        return first, second

    kind = "equal" if noises[0] == noises[1] else "different"
    several = f", average of {sets} sets" if sets > 1 else ""
    return World(
        f"normal, {kind}, {items} items, {measure}{several}", score(noises[1]) - score(noises[0]), draw
    )


def record_world(first: System, second: System, name: str, items: int) -> World:
    """Items resampled from those of a set."""
    whole = first.sets[name], second.sets[name]

    def draw(generator: np.random.Generator) -> tuple[System, System]:
        chosen = generator.integers(0, len(whole[0].gold), size=items)
        drawn = [
            System(
                one.name,
                one.measure,
                one.seeds,
                {name: SetRuns(side.gold[chosen], side.predictions[:, chosen], "drawn")},
            )
            for one, side in zip((first, second), whole, strict=True)
        ]
        return drawn[0], drawn[1]

    scores = [
        100 * np.mean([measure_of(first.measure, run, one.gold) for run in one.predictions]) for one in whole
    ]
    counts = " and ".join(str(len(one.predictions)) for one in whole)
    title = f"{name}: {second.name} against {first.name}, {counts} runs, {items} items"
    return World(title, float(scores[1] - scores[0]), draw)


def system(name: str, sets: list[tuple[Double, Double]], measure: str) -> System:
    return System(
        name,
        measure,
        (None,) * len(sets[0][1]),
        {f"set {place}": SetRuns(gold, side, "drawn") for place, (gold, side) in enumerate(sets)},
    )


def simulate(world: World, trials: int, draws: int) -> dict[str, Any]:
    """How often the interval holds the truth, and how often each test calls the difference real."""
    held: list[bool] = []
    real: dict[str, list[bool]] = {"items": [], "williams": [], "steiger": []}
    for trial in range(trials):
        first, second = world.draw(np.random.default_rng((crc32(world.name.encode()), trial)))
        compared = compare(first, second, draws=draws, seed=trial)
        one = compared.average or compared.sets[0]
        held.append(one.interval[0] <= world.truth <= one.interval[1])
        real["items"].append(one.p_items < LEVEL)
        if one.p_williams is not None:
            real["williams"].append(one.p_williams < LEVEL)
            real["steiger"].append(_steiger(first, second) < LEVEL)
    return {
        "truth": round(world.truth, 4),
        "trials": trials,
        "held": float(np.mean(held)),
        "called_real": {name: float(np.mean(found)) for name, found in real.items() if found},
    }


def _steiger(first: System, second: System) -> float:
    (one,), (other,) = first.sets.values(), second.sets.values()
    sides = np.stack([one.predictions[0], other.predictions[0], one.gold])
    if first.measure == "spearman":
        sides = sides.argsort(axis=1).argsort(axis=1).astype(np.float64)  # no ties in a normal world
    table = np.corrcoef(sides)
    one_r, other_r, between = float(table[0, 2]), float(table[1, 2]), float(table[0, 1])
    square = ((one_r + other_r) / 2) ** 2
    covariance = between * (1 - 2 * square) - square * (1 - 2 * square - between**2) / 2
    covariance /= (1 - square) ** 2
    z = (math.atanh(one_r) - math.atanh(other_r)) * math.sqrt((sides.shape[1] - 3) / (2 - 2 * covariance))
    return float(2 * stats.norm.sf(abs(z)))


def geometry(pairs: int, width: int, trials: int) -> dict[str, float]:
    """How often each figure's interval holds what as many sentences give on average."""
    found = [
        estimate_geometry(_cloud(np.random.default_rng((2, trial)), pairs, width)) for trial in range(trials)
    ]
    expected = np.mean([one.geometry for one in found], axis=0)
    held = np.mean(
        [(np.array(one.low) <= expected) & (expected <= np.array(one.high)) for one in found], axis=0
    )
    return dict(zip(Geometry._fields, held.tolist(), strict=True))


def _cloud(generator: np.random.Generator, pairs: int, width: int) -> EncodedSets:
    """Pairs of alike vectors, half of them positive, in a cone around the first axis."""
    shared, own = (generator.normal(size=(pairs, count, width)) for count in (1, 2))
    vectors = (0.8 * shared + 0.6 * own) * np.arange(1, width + 1.0) ** -0.3
    vectors[..., 0] += 1
    first, second = np.arange(2 * pairs).reshape(pairs, 2).T
    gold = np.where(np.arange(pairs) % 2 == 0, 5.0, 0.0)
    texts = [str(place) for place in range(2 * pairs)]
    drawn = ScoredPairs("drawn", "test", texts[::2], texts[1::2], gold)
    return EncodedSets((drawn,), vectors.reshape(-1, width).astype(np.float32), ((first, second),))


def worlds(arguments: argparse.Namespace) -> Iterator[World]:
    for items in (50, 250, 1000):
        yield normal_world(items, (1.0, 1.0))
        yield normal_world(items, (1.0, 1.3))
    yield normal_world(250, (1.0, 1.3), measure="pearson")
    yield normal_world(250, (1.0, 1.3), sets=3)
    yield normal_world(250, (1.0, 1.0), sets=3)
    if arguments.records is not None:
        records = load_records(arguments.records, suite="sts")
        first, second = (system_of(records, name) for name in arguments.systems.split(","))
        for items in (250, 1000):
            yield record_world(first, second, arguments.set, items)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--draws", type=int, default=500, help="resamples of each trial")
    parser.add_argument("--records", type=Path, help="folder of result records")
    parser.add_argument("--systems", default="bert-mini-sg-opt,simcse-bert-mini", help="two of the records")
    parser.add_argument("--set", default="stsb", help="whose items are drawn")
    parser.add_argument("--output", type=Path, help="JSON file")
    arguments = parser.parse_args()
    result: dict[str, Any] = {
        "versions": library_versions(),
        "draws": arguments.draws,
        "worlds": {},
        "geometry": {},
    }
    for world in worlds(arguments):
        found = result["worlds"][world.name] = simulate(world, arguments.trials, arguments.draws)
        tests = ", ".join(f"{name} {100 * share:.1f} %" for name, share in found["called_real"].items())
        print(f"{world.name}: held {100 * found['held']:.1f} %; called real: {tests}", flush=True)
    for pairs, width in ((150, 10), (200, 100)):
        name = f"{pairs} pairs, {width} dimensions"
        found = result["geometry"][name] = geometry(pairs, width, arguments.trials)
        print(
            f"geometry, {name}: " + ", ".join(f"{key} {100 * value:.1f} %" for key, value in found.items()),
            flush=True,
        )
    if arguments.output is not None:
        write_json(arguments.output, result)


if __name__ == "__main__":
    main()
