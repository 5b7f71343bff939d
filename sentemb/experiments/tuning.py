"""The search for options by validation score, with optuna: it resumes and never sees test rows."""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from sentemb.errors import InputError
from sentemb.experiments.experiment import Method, joined, nested
from sentemb.experiments.samplers import Splits

logger = logging.getLogger(__name__)

Value = str | int | float | bool | None
Grid = Mapping[str, Sequence[Value]]
"""Values to try by option; `loss_options.temperature` is an option in a table."""


@dataclass(frozen=True)
class Tried:
    """A point of the grid."""

    settings: Mapping[str, Value]
    score: float


@dataclass(frozen=True)
class Tuned:
    """What a search found."""

    method: Method
    tried: tuple[Tried, ...]


Describe = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
"""`describe(recipe, options)`: all settings of a training; refuses what cannot be trained."""
Validate = Callable[[Method, Splits, int], float]
"""`validate(method, splits, seed)`: trains, and gives the score on the validation rows."""


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
    """Try the points of a grid, each with every seed, and take the best mean on the validation rows.

    What was tried is kept in a journal, from which the same search resumes; a search of other settings, or on
    other rows, is another one in the same journal. Fewer `trials` than points are drawn at random, always the
    same ones. One process at a time may search.
    """
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    wanted = len(points) if trials is None else min(trials, len(points))
    if wanted < 1 or not grid or not seeds:
        raise InputError(
            "the search grid is empty", "provide at least one value for each option, and at least one seed"
        )
    for settings in points:
        described = dict(describe(method.recipe, _with_settings(method, settings).options))
    if wanted < len(points):
        points = [points[number] for number in np.random.default_rng(0).permutation(len(points))]
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    journal.parent.mkdir(parents=True, exist_ok=True)
    study = optuna.create_study(
        storage=JournalStorage(JournalFileBackend(str(journal))),
        study_name=_name(method, _fixed(described, grid), splits, grid, seeds),
        direction="maximize",
        load_if_exists=True,
    )
    choices: Any = {
        name: optuna.distributions.CategoricalDistribution(values) for name, values in grid.items()
    }
    tried = {_key(one.params): Tried(one.params, one.value or 0.0) for one in study.trials if one.values}
    for settings in points:
        if len(tried) >= wanted or _key(settings) in tried:
            continue
        found = fmean(validate(_with_settings(method, settings), splits, seed) for seed in seeds)
        announce(f"[{len(tried) + 1}/{wanted}] {method.name} {settings}: {100 * found:.1f} on validation")
        study.add_trial(optuna.create_trial(params=settings, distributions=choices, value=found))
        tried[_key(settings)] = Tried(settings, found)
    ranked = sorted(tried.values(), key=lambda one: -one.score)
    return Tuned(_with_settings(method, ranked[0].settings), tuple(ranked))


def _with_settings(method: Method, settings: Mapping[str, Value]) -> Method:
    return replace(method, options=joined(method.options, nested(settings)))


def _key(settings: Mapping[str, Any]) -> str:
    return json.dumps(dict(settings), sort_keys=True)


def _fixed(described: Mapping[str, Any], grid: Grid) -> dict[str, Any]:
    """The settings that all points share; what the base is called does not count."""
    fixed = {name: value for name, value in described.items() if name != "base"}
    for name in grid:
        table, _, option = name.partition(".")
        if not option:
            fixed.pop(name, None)
        elif table in fixed:
            fixed[table] = {key: value for key, value in fixed[table].items() if key != option}
    return fixed


def _name(method: Method, fixed: Mapping[str, Any], splits: Splits, grid: Grid, seeds: Sequence[int]) -> str:
    rows = [splits.checksums[part] for part in ("train", "validation")]
    values = {name: list(of_name) for name, of_name in grid.items()}
    written = json.dumps([method.recipe, fixed, rows, values, list(seeds)], sort_keys=True)
    return f"{method.name}-{hashlib.sha256(written.encode()).hexdigest()[:16]}"
