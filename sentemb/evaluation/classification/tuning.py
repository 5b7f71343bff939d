"""The search for settings by validation, with optuna: it can be interrupted and never sees test rows."""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from sentemb.errors import InputError
from sentemb.evaluation.classification.cell import FitPredict, Method, Splits
from sentemb.evaluation.classification.methods import nested, with_options
from sentemb.evaluation.classification.metrics import Metric

if TYPE_CHECKING:
    import optuna

logger = logging.getLogger(__name__)

Value = str | int | float | bool | None
Grid = Mapping[str, Sequence[Value]]
"""Values to try by option; `loss_options.temperature` is an option in a table."""


@dataclass(frozen=True)
class Trial:
    """A point of the grid.

    Attributes:
        settings: The value of each option.
        score: Mean over the seeds on the validation rows, as a fraction.
    """

    settings: Mapping[str, Value]
    score: float


@dataclass(frozen=True)
class Tuned:
    """What a search found.

    Attributes:
        method: The method with the best settings.
        trials: All points that were tried, the best first.
    """

    method: Method
    trials: tuple[Trial, ...]


def tune(
    fit_predict: FitPredict,
    method: Method,
    splits: Splits,
    grid: Grid,
    *,
    journal: Path,
    metric: Metric,
    seeds: Sequence[int] = (1,),
    trials: int | None = None,
    say: Callable[[str], None] = logger.info,
) -> Tuned:
    """Try the points of a grid, each with every seed, and take the best mean on the validation rows.

    What was tried is kept in a journal, from which the same search goes on; a search of other settings, or on
    other rows, is another one in the same journal. One process at a time may search.

    Args:
        fit_predict: Trains and predicts; it is given the validation rows to predict, and no test rows.
        method: The method and its other settings.
        splits: The data.
        grid: The values; LaCon tries temperatures of 0.05 to 0.5 and weights of 0.1 to 1.
        journal: The file of the journal.
        metric: What is maximized.
        seeds: One training each at every point.
        trials: How many points are tried, chosen by optuna's TPE sampler; the whole grid by default.
        say: Takes a line on each point.

    Returns:
        The best settings and everything that was tried.

    Raises:
        InputError: The grid is empty, or the number of trials or seeds is.
        ModuleNotFoundError: optuna is not installed; it comes with the extra `tune`.
    """
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    size = len(list(itertools.product(*grid.values()))) if grid else 0
    wanted = size if trials is None else min(trials, size)
    if wanted < 1 or not seeds:
        raise InputError("nothing to search", "give each option at least one value, and at least one seed")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    journal.parent.mkdir(parents=True, exist_ok=True)
    study = optuna.create_study(
        storage=JournalStorage(JournalFileBackend(str(journal))),
        study_name=_name(method, splits, grid, metric, seeds),
        sampler=optuna.samplers.TPESampler(seed=0),
        direction="maximize",
        load_if_exists=True,
    )
    _settle(study, grid if wanted == size else None)

    def score(trial: optuna.Trial) -> float:
        settings = {name: trial.suggest_categorical(name, list(values)) for name, values in grid.items()}
        known = {_key(one.settings): one.score for one in _finished(study)}
        if _key(settings) in known:
            return known[_key(settings)]
        tried = _with_settings(method, settings)
        options = {"metric": metric, **tried.options}
        arguments = (splits.train, splits.validation, splits.validation)
        found = fmean(fit_predict(tried.recipe, *arguments, seed, options).validation_score for seed in seeds)
        say(f"[{len(known) + 1}/{wanted}] {method.name} {settings}: {metric} {100 * found:.1f} on validation")
        return found

    while len(_finished(study)) < wanted:
        study.optimize(score, n_trials=1)
    ranked = sorted(_finished(study), key=lambda trial: -trial.score)
    return Tuned(_with_settings(method, ranked[0].settings), tuple(ranked))


def _settle(study: optuna.Study, grid: Grid | None) -> None:
    """Give up what a killed search left open, and queue the points of the grid that are not yet tried."""
    from optuna.trial import TrialState

    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        study.tell(trial.number, state=TrialState.FAIL)
    if grid is None:
        return
    waiting = study.get_trials(deepcopy=False, states=(TrialState.WAITING,))
    queued = {_key(trial.system_attrs["fixed_params"]) for trial in waiting}
    queued |= {_key(trial.settings) for trial in _finished(study)}
    for values in itertools.product(*grid.values()):
        settings = dict(zip(grid, values, strict=True))
        if _key(settings) not in queued:
            study.enqueue_trial(settings)


def _finished(study: optuna.Study) -> list[Trial]:
    """The points that were tried, each once."""
    from optuna.trial import TrialState

    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    return list({_key(one.params): Trial(one.params, one.value or 0.0) for one in complete}.values())


def _with_settings(method: Method, settings: Mapping[str, Value]) -> Method:
    below = Method(method.name, method.recipe, nested(settings))
    return with_options([below], method.options)[0]


def _key(settings: Mapping[str, Any]) -> str:
    return json.dumps(dict(settings), sort_keys=True)


def _name(method: Method, splits: Splits, grid: Grid, metric: Metric, seeds: Sequence[int]) -> str:
    rows = [splits.checksums[part] for part in ("train", "validation")]
    values = {name: list(of_name) for name, of_name in grid.items()}
    written = json.dumps([method.recipe, method.options, rows, values, metric, list(seeds)], sort_keys=True)
    return f"{method.name}-{hashlib.sha256(written.encode()).hexdigest()[:16]}"
