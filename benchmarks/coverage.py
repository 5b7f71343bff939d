r"""Measure how often the intervals of `sentemb compare` contain the true value.

    python benchmarks/coverage.py --output benchmarks/results/coverage.json

Each trial draws new items with normal gold scores, compares two systems that add noise to them, and checks
whether the interval of their difference contains the true one, which follows from a formula, and whether the
tests call the difference significant. A 95 % interval should contain the true value in 95 % of the trials. A
test at 0.05 should call a difference significant in 5 % of the trials without one.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import harness
import numpy as np

from sentemb.evaluation.comparison import compare
from sentemb.evaluation.statistics import LEVEL
from sentemb.evaluation.systems import SetRuns, System


class World(NamedTuple):
    """Where pairs of systems come from: items of a set, sets, and the noise of each system."""

    items: int
    noises: tuple[float, float]
    measure: str = "spearman"
    sets: int = 1

    def __str__(self) -> str:
        kind = "equal" if self.noises[0] == self.noises[1] else "different"
        several = f", average of {self.sets} sets" if self.sets > 1 else ""
        return f"normal, {kind}, {self.items} items, {self.measure}{several}"

    @property
    def truth(self) -> float:
        """The true difference x 100, second minus first."""
        pearson = [1 / math.sqrt(1 + noise**2) for noise in self.noises]
        spearman = [6 / math.pi * math.asin(one / 2) for one in pearson]
        first, second = pearson if self.measure == "pearson" else spearman
        return 100 * (second - first)

    def draw(self, generator: np.random.Generator) -> list[System]:
        """Draw two systems on new items."""
        golds = generator.normal(size=(self.sets, self.items))
        systems = []
        for name, noise in zip(("first", "second"), self.noises, strict=True):
            runs = {}
            for place, gold in enumerate(golds):
                noisy = gold + noise * generator.normal(size=self.items)
                runs[f"set {place}"] = SetRuns(gold, noisy[None], "drawn")
            systems.append(System(name, self.measure, (None,), runs))
        return systems


WORLDS = (
    *(World(items, (1.0, noise)) for items in (50, 250, 1000) for noise in (1.0, 1.3)),
    World(250, (1.0, 1.3), measure="pearson"),
    *(World(250, (1.0, noise), sets=3) for noise in (1.3, 1.0)),
)


def simulate(world: World, trials: int, draws: int) -> dict[str, Any]:
    """Return how often the interval holds the truth, and how often each test calls the difference real."""
    held: list[bool] = []
    real: dict[str, list[bool]] = {"items": [], "williams": []}
    for trial in range(trials):
        first, second = world.draw(np.random.default_rng((crc32(str(world).encode()), trial)))
        compared = compare(first, second, draws=draws, seed=trial)
        one = compared.average or compared.sets[0]
        held.append(one.interval[0] <= world.truth <= one.interval[1])
        real["items"].append(one.p_items < LEVEL)
        if one.p_williams is not None:
            real["williams"].append(one.p_williams < LEVEL)
    return {
        "truth": round(world.truth, 4),
        "trials": trials,
        "held": float(np.mean(held)),
        "called_real": {name: float(np.mean(found)) for name, found in real.items() if found},
    }


def main() -> None:
    given = harness.options(__doc__, trials=1000, draws=500, output=(Path, None))
    found = {}
    for world in WORLDS:
        one = found[str(world)] = simulate(world, given.trials, given.draws)
        tests = ", ".join(f"{name} {100 * share:.1f} %" for name, share in one["called_real"].items())
        print(f"{world}: held {100 * one['held']:.1f} %; called real: {tests}", flush=True)
    harness.save(given.output, draws=given.draws, worlds=found)


if __name__ == "__main__":
    main()
