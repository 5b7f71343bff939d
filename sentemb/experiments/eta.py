"""How long an experiment will take, from what its finished trials took."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from statistics import fmean

from sentemb.experiments.experiment import PlannedTrial


class Eta:
    """Expects of a trial what others of its method, data and setting took, else others of its data."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._seconds: dict[object, list[float]] = defaultdict(list)

    def note(self, trial: PlannedTrial, seconds: float) -> None:
        """Take a finished trial into account."""
        for group in _groups(trial):
            self._seconds[group].append(seconds)

    def remaining(self, trials: Iterable[PlannedTrial]) -> str:
        """How long trials will take, as the end of a line; empty where nothing is known."""
        known = [
            next((fmean(self._seconds[group]) for group in _groups(trial) if group in self._seconds), None)
            for trial in trials
        ]
        expected = [seconds for seconds in known if seconds is not None]
        return f", about {duration(sum(expected) / self._jobs)} left" if expected else ""


def duration(seconds: float) -> str:
    """A wall time in words."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def _groups(trial: PlannedTrial) -> tuple[object, ...]:
    place = (trial.datasets, trial.setting)
    return (trial.method.name, *place), place, trial.datasets, None
