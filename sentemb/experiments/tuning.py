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
from typing import Any

import numpy as np

from sentemb._files import read_json, write_json
from sentemb.errors import InputError
from sentemb.experiments.experiment import Method, joined, nested
from sentemb.experiments.labelled_sets import Splits

logger = logging.getLogger(__name__)


def tune(
    validate: Callable[[Method, Splits, int], float],
    describe: Callable[[str, Mapping[str, Any]], Mapping[str, Any]],
    method: Method,
    splits: Splits,
    grid: Mapping[str, Sequence[Any]],
    *,
    journal: Path,
    seeds: Sequence[int] = (1,),
    trials: int | None = None,
    announce: Callable[[str], None] = logger.info,
) -> list[tuple[dict[str, Any], float]]:
    """Train the points of a grid with every seed, and return them with their mean scores, the best first.

    `validate` trains a method and returns its score on the validation rows, `describe` returns all settings
    of a training and refuses wrong ones. The grid has values by option, where `loss_options.temperature` is
    an option in a table. The journal keeps the score of each finished point by its settings, rows and seeds,
    so that a search resumes. If `trials` is smaller than the number of points, points are drawn at random,
    the same at each call.
    """
    points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    total = len(points) if trials is None else min(trials, len(points))
    if total < 1 or not grid or not seeds:
        hint = "provide at least one value for each option, and at least one seed"
        raise InputError("the search grid is empty", hint)
    methods = [replace(method, options=joined(method.options, nested(one))) for one in points]
    described = [dict(describe(one.recipe, one.options)) for one in methods]
    order = range(len(points)) if total == len(points) else np.random.default_rng(0).permutation(len(points))
    rows = [splits.checksums[part] for part in ("train", "validation")]
    known: dict[str, float] = read_json(journal) if journal.exists() else {}
    tried: list[tuple[dict[str, Any], float]] = []
    for number in order[:total]:
        described[number].pop("base", None)  # its name does not count, its fingerprint does
        point = json.dumps([method.recipe, described[number], rows, list(seeds)], sort_keys=True)
        key = hashlib.sha256(point.encode()).hexdigest()
        if key not in known:
            known[key] = fmean(validate(methods[number], splits, seed) for seed in seeds)
            write_json(journal, known)
            score = f"{100 * known[key]:.1f} on validation"
            announce(f"[{len(tried) + 1}/{total}] {method.name} {points[number]}: {score}")
        tried.append((points[number], known[key]))
    return sorted(tried, key=lambda one: -one[1])
