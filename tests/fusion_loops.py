"""Fusion of two rankings as plain loops."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from statistics import NormalDist, mean
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Pairs = Sequence[tuple[Key, float]]


def fused_by_loops(
    dense: Pairs[Key], keyword: Pairs[Key], total: int, weight: float = 0.5
) -> dict[Key, float]:
    """The score of every document of two rankings of pairs, the best first."""
    scores: dict[Key, float] = {}
    spread = 1.0
    if len(dense) > 1:
        similarities = [score for _, score in dense]
        spread = max(spread_of(similarities, total), 1e-4 * max(map(abs, similarities)))
    for key, score in dense:
        above = 1.0 if len(dense) == 1 else score - dense[-1][1]
        scores[key] = weight * above / spread if spread > 0 else 0.0
    unit = (sum(score**2 for _, score in keyword[:100]) / 100) ** 0.5
    for key, score in keyword:
        scores[key] = scores.get(key, 0.0) + (1 - weight) * 8 * score / unit
    return scores


def spread_of(scores: Sequence[float], total: int) -> float:
    """The slope of a normal Q-Q line through twenty of the scores, from the first tenth to the last."""
    total = max(total, len(scores))
    first, last = len(scores) // 10, (len(scores) - 1) * 9 // 10
    last = max(last, first + 1)
    ranks = sorted({int(first + step * (last - first) / 19) for step in range(20)})
    normal = [NormalDist().inv_cdf(1 - (rank + 0.5) / total) for rank in ranks]
    x, y = mean(normal), mean(scores[rank] for rank in ranks)
    slope = sum((a - x) * (scores[rank] - y) for a, rank in zip(normal, ranks, strict=True))
    return slope / sum((a - x) ** 2 for a in normal)
