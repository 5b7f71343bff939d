"""Search of options by validation score: a grid that resumes and never sees test rows."""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from sentemb._files import read_json, write_json
from sentemb.errors import InputError
from sentemb.experiments.experiment import Method, joined, nested
from sentemb.experiments.labelled_sets import Splits

logger = logging.getLogger(__name__)

Value = str | int | float | bool | None
Grid = Mapping[str, Sequence[Value]]
"""Values by option. `loss_options.temperature` is an option in a table."""
Describe = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
"""`describe(recipe, options)` returns all settings of a training, and refuses wrong ones."""
Validate = Callable[[Method, Splits, int], float]
"""`validate(method, splits, seed)` trains and returns the score on the validation rows."""


class Tried(NamedTuple):
    """A point of the grid and its mean score."""

    settings: Mapping[str, Value]
    score: float


class Tuned(NamedTuple):
    """Result of a search: the method with the best settings, and all points, the best first."""

    method: Method
    tried: tuple[Tried, ...]


def tune(
    validate: Validate,
    describe: Describe,
    method: Method,
    splits: Splits,
    grid: Grid,
    *,
    journal: Path,
    seeds: Sequence[int] = (1,),
    trials: int | None = None,
    announce: Callable[[str], None] = logger.info,
) -> Tuned:
    """Train the points of a grid with every seed, and select the best mean on the validation rows.

    The journal keeps the score of each finished point by its settings, rows and seeds, so that a search
    resumes. If `trials` is smaller than the number of points, points are drawn at random, the same at
    each call.
    """
    points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    total = len(points) if trials is None else min(trials, len(points))
    if total < 1 or not grid or not seeds:
        hint = "provide at least one value for each option, and at least one seed"
        raise InputError("the search grid is empty", hint)
    described = [dict(describe(method.recipe, _with_settings(method, one).options)) for one in points]
    order = range(len(points)) if total == len(points) else np.random.default_rng(0).permutation(len(points))
    rows = [splits.checksums[part] for part in ("train", "validation")]
    known: dict[str, float] = read_json(journal) if journal.exists() else {}
    tried: list[Tried] = []
    for number in order[:total]:
        settings, chosen = points[number], _with_settings(method, points[number])
        described[number].pop("base", None)  # its name does not count, its fingerprint does
        point = json.dumps([method.recipe, described[number], rows, list(seeds)], sort_keys=True)
        key = hashlib.sha256(point.encode()).hexdigest()
        if key not in known:
            known[key] = fmean(validate(chosen, splits, seed) for seed in seeds)
            write_json(journal, known)
            score = f"{100 * known[key]:.1f} on validation"
            announce(f"[{len(tried) + 1}/{total}] {method.name} {settings}: {score}")
        tried.append(Tried(settings, known[key]))
    ranked = sorted(tried, key=lambda one: -one.score)
    return Tuned(_with_settings(method, ranked[0].settings), tuple(ranked))


def _with_settings(method: Method, settings: Mapping[str, Value]) -> Method:
    return replace(method, options=joined(method.options, nested(settings)))
