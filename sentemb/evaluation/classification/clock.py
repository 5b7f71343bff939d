"""What is left of a study, by what its finished cells took."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean

from sentemb.evaluation.classification.cell import Cell


class Clock:
    """Expects of a cell what others of its method, set and point took, else what others of its set took.

    Args:
        seconds: Wall time of the cells that are finished.
        jobs: How many processes run cells.
    """

    def __init__(self, seconds: Mapping[Cell, float], jobs: int) -> None:
        self._jobs = jobs
        self._seconds: dict[object, list[float]] = defaultdict(list)
        for cell, one in seconds.items():
            self.note(cell, one)

    def note(self, cell: Cell, seconds: float) -> None:
        """Take a finished cell into account."""
        for kind in _kinds(cell):
            self._seconds[kind].append(seconds)

    def remaining(self, cells: Sequence[Cell]) -> str:
        """How long cells will take."""
        if not cells or not self._seconds:
            return ""
        expected = sum(
            fmean(next(self._seconds[kind] for kind in _kinds(cell) if kind in self._seconds))
            for cell in cells
        )
        return f", about {duration(expected / self._jobs)} left"


def duration(seconds: float) -> str:
    """A wall time in words."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def _kinds(cell: Cell) -> tuple[object, ...]:
    return (cell.method.name, cell.data, cell.point), (cell.data, cell.point), cell.data, None
