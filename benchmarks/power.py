"""Simulate what `sentemb compare` says about power, and what `sentemb judge` says about enough judgements.

    python benchmarks/power.py --output benchmarks/results/power.json --picture docs/guides/power.png

Power: samples of normal, skewed and tied differences, and those of queries in eval/results, are shifted by
the smallest difference that `power` says is shown with 80 % power. They are resampled, and each resample is
tested by exchanging items at random. Judgements: judges prefer the second system with some probability, and
one looks after each judgement. It is an error if the interval ever excludes the true share.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from statistics import NormalDist
from typing import Any

import harness
import numpy as np

from sentemb.evaluation import load_records, system_of
from sentemb.evaluation.judging import BETS, MARGIN, confidence_sequence
from sentemb.evaluation.statistics import LEVEL, Power, power
from sentemb.report.figures import COLOURS, panels, png_of

SIZES = (20, 50, 200, 1000)
RECORDS = Path("eval/results")
PAIRS = {
    "hybrid and BM25": ("bm25", "hybrid-all-MiniLM-L6-v2"),
    "hybrid and dense": ("all-MiniLM-L6-v2", "hybrid-all-MiniLM-L6-v2"),
    "dense and BM25": ("bm25", "all-MiniLM-L6-v2"),
}
SHARES = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.9)
LOOKS = 1000  # judgements


def real_differences() -> dict[str, np.ndarray]:
    """Return differences of NDCG@10 x 100 of the queries of qnli-dev."""
    records, found = load_records([RECORDS], suite="retrieval"), {}
    for name, pair in PAIRS.items():
        first, second = (system_of(records, one, measure="ndcg@10").sets["qnli-dev"] for one in pair)
        found[name] = 100 * (second.predictions[0] - first.predictions[0])
    return found


def samples() -> Iterator[tuple[str, np.ndarray]]:
    """Yield names and samples of differences."""
    generator = np.random.default_rng(0)
    worlds = {
        "normal": lambda count: generator.normal(0.1, 1, count),
        "t, 3 degrees of freedom": lambda count: generator.standard_t(3, count),
        "log-normal": lambda count: generator.lognormal(size=count),
        "log-normal, negative": lambda count: 3 - generator.lognormal(size=count),
        "tied, 80 %": lambda count: generator.choice(
            [0, 1, -1, 0.5, -0.5], count, p=[0.8, 0.07, 0.05, 0.05, 0.03]
        ),
        "tied and skewed, 90 %": lambda count: generator.choice([0, 1, -0.3], count, p=[0.9, 0.08, 0.02]),
        **{
            name: lambda count, own=own: generator.choice(own, count)
            for name, own in real_differences().items()
        },
    }
    for name, draw in worlds.items():
        for count in SIZES:
            while np.count_nonzero(drawn := draw(count)) < 8 or drawn.mean() < 0:
                pass
            yield f"{name}, {count}", drawn


def share_significant(gains: np.ndarray, effect: float, trials: int) -> float:
    """Return the share of resamples with this mean that a test of 1,000 exchanges calls significant."""
    generator, significant = np.random.default_rng(1), 0
    for _ in range(trials // 100):
        drawn = generator.choice(gains - gains.mean(), (100, len(gains))) + effect
        signs = 2.0 * generator.integers(0, 2, (len(gains), 1000)) - 1
        reached = np.abs(drawn @ signs) >= np.abs(drawn.sum(axis=1, keepdims=True)) * (1 - 1e-10)
        significant += ((1 + reached.sum(axis=1)) / 1001 < LEVEL).sum()
    return float(significant / trials)


def judge(share: float, ties: float, judges: int) -> dict[str, Any]:
    """Simulate judges who prefer the second system with some probability, and look after each judgement."""
    generator = np.random.default_rng(2)
    chances = [(1 - ties) * (1 - share), ties, (1 - ties) * share]
    mean, values = chances[2] + ties / 2, np.array([0.0, 0.5, 1.0])
    answers = generator.choice(3, size=(LOOKS, judges), p=chances)
    gains = {
        target: np.stack([_bets(value, target) for value in values]) for target in {mean, 0.5}
    }  # (answers, bets)
    capitals = {target: np.zeros((judges, own.shape[1])) for target, own in gains.items()}
    wrong, stopped = np.zeros(judges, dtype=bool), np.full(judges, LOOKS + 1)
    for look in range(LOOKS):
        for target, capital in capitals.items():
            capital += gains[target][answers[look]]
            out = np.logaddexp.reduce(capital, axis=1) - math.log(capital.shape[1]) >= -math.log(LEVEL)
            if target == mean:
                wrong |= out
            if target == 0.5:
                stopped[out & (stopped > LOOKS)] = look + 1
    return {
        "errors": float(wrong.mean()),
        "stopped": float((stopped <= LOOKS).mean()),
        "median": float(np.median(stopped)) if (stopped <= LOOKS).mean() > 0.5 else None,
        "p90": float(np.quantile(stopped, 0.9)) if (stopped <= LOOKS).mean() > 0.9 else None,
    }


def _bets(value: float, target: float) -> np.ndarray:
    return np.log1p(np.concatenate([BETS / target, -BETS / (1 - target)]) * (value - target))


def draw(path: Path) -> None:
    """Draw the smallest difference over the number of queries, and a confidence sequence."""
    figure, (left, right) = panels(2, width=9)
    counts = np.geomspace(20, 5000, 60)
    for (name, gains), colour in zip(real_differences().items(), COLOURS, strict=False):
        one = power(gains)
        errors = one.error * np.sqrt(one.count / counts)
        shown = [
            Power(int(n), error, int(n) - 1).detectable() for n, error in zip(counts, errors, strict=True)
        ]
        left.loglog(counts, shown, color=colour, label=name)
    left.set(xlabel="queries", ylabel="difference shown, NDCG@10 x 100")
    left.set_xticks([20, 50, 200, 1000, 5000], ["20", "50", "200", "1,000", "5,000"])
    left.set_yticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
    left.minorticks_off()
    left.legend(frameon=False)
    answers = (np.random.default_rng(4).random(120) < 0.68).astype(float)
    ends = np.array([confidence_sequence(answers[:n]) for n in range(1, len(answers) + 1)])
    looks = np.arange(1, len(answers) + 1)
    right.fill_between(looks, *(100 * ends.T), color=COLOURS[0], alpha=0.25, linewidth=0)
    right.plot(looks, 100 * np.cumsum(answers) / looks, color=COLOURS[0])
    right.axhline(50, color="0.5", linewidth=1)
    enough = int(looks[(ends[:, 0] > 0.5) | (ends[:, 1] < 0.5)][0])
    right.axvline(enough, color=COLOURS[1], linewidth=1)
    right.annotate(f" enough: {enough}", (enough, 4), color=COLOURS[1])
    right.set(xlabel="judgements", ylabel="second system preferred, %", ylim=(0, 100))
    path.write_bytes(png_of(figure))


def main() -> None:
    given = harness.options(__doc__, trials=10_000, judges=10_000, output=(Path, None), picture=(Path, None))
    if given.picture is not None:
        draw(given.picture)
    found: dict[str, Any] = {"power": {}, "judgements": {}}
    for name, gains in samples():
        own = power(gains)
        formula = Power(len(gains), float(gains.std(ddof=1)) / math.sqrt(len(gains)), len(gains) - 1)
        shown, plain = (share_significant(gains, one.detectable(), given.trials) for one in (own, formula))
        found["power"][name] = {"printed": 0.8, "simulated": shown, "of_the_formula": plain}
        print(f"{name}: simulated {100 * shown:.1f} %, of the formula {100 * plain:.1f} %", flush=True)
    deviation, quantile = 0.5, NormalDist().inv_cdf
    fixed = math.ceil(((quantile(1 - LEVEL / 2) + quantile(0.8)) * deviation / MARGIN) ** 2)
    found["judgements"]["fixed design for 60 %"] = fixed
    print(f"a fixed design for 60 %: {fixed} judgements", flush=True)
    for ties in (0.0, 0.3):
        for share in SHARES:
            one = judge(share, ties, given.judges)
            found["judgements"][f"{100 * share:.0f} %, {100 * ties:.0f} % ties"] = one
            print(f"{100 * share:.0f} % of {100 * (1 - ties):.0f} %: {one}", flush=True)
    harness.save(given.output, **found)


if __name__ == "__main__":
    main()
