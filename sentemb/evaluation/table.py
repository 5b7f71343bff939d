"""STS records as a table: models by sets."""

from __future__ import annotations

from collections.abc import Sequence

from sentemb._tables import ABSENT, Table
from sentemb.data.sts import STS_SETS
from sentemb.evaluation.measures import Protocol
from sentemb.evaluation.result import ResultRecord
from sentemb.evaluation.scoring import SetScore
from sentemb.evaluation.suites import MULTILINGUAL

__all__ = ["ABSENT", "Table", "set_names", "sts_table"]

_LABELS = {
    "sts12": "STS12",
    "sts13": "STS13",
    "sts14": "STS14",
    "sts15": "STS15",
    "sts16": "STS16",
    "stsb": "STS-B",
    "sickr": "SICK-R",
    "sickr-mteb": "SICK-R (MTEB)",
}
_RULES: dict[Protocol, str] = {
    "all": "all: subsets concatenated",
    "mean": "mean: unweighted mean over subsets",
    "wmean": "wmean: mean over subsets weighted by their pairs",
}


def sts_table(
    records: Sequence[ResultRecord],
    protocol: Protocol = "all",
    *,
    measure: str = "spearman",
) -> Table:
    """Models by sets, correlations x 100, and the average where all sets of the suite are there."""
    names = set_names(records)
    seeds = any(record.seed is not None for record in records)
    averages = any(record.average(protocol) is not None for record in records)
    rows = []
    for record in records:
        scores = record.scores(protocol)
        cells = [record.model]
        if seeds:
            cells.append(ABSENT if record.seed is None else str(record.seed))
        cells += [f"{getattr(scores[name], measure):.2f}" if name in scores else ABSENT for name in names]
        if averages:
            mean = record.average(protocol)
            cells.append(ABSENT if mean is None else f"{getattr(mean, measure):.2f}")
        rows.append(tuple(cells))
    return Table(
        title=f"STS, {measure.capitalize()} x 100 of cosine similarity, protocol {_RULES[protocol]}",
        header=(
            "model",
            *(["seed"] if seeds else []),
            *(_label(name, records) for name in names),
            *(["average"] if averages else []),
        ),
        rows=tuple(rows),
        notes=tuple(_notes(names, records, protocol)),
    )


def set_names(records: Sequence[ResultRecord]) -> list[str]:
    """The sets of records in the order of their columns."""
    order = [*STS_SETS, "sickr-mteb", *MULTILINGUAL.sets]
    names = {one.name for record in records for one in record.sets}
    return sorted(names, key=lambda name: (order.index(name) if name in order else len(order), name))


def _scores_of(name: str, records: Sequence[ResultRecord]) -> list[SetScore]:
    return [one for record in records for one in record.sets if one.name == name]


def _label(name: str, records: Sequence[ResultRecord]) -> str:
    label = _LABELS.get(name, name)
    # Two populations go by the name SICK-R; the number of pairs tells which one this is.
    if not name.startswith("sickr"):
        return label
    sizes = sorted({one.pairs for one in _scores_of(name, records)})
    return f"{label} {'/'.join(f'{size:,}' for size in sizes)}"


def _notes(names: Sequence[str], records: Sequence[ResultRecord], protocol: Protocol) -> list[str]:
    notes = []
    for name in names:
        scores = _scores_of(name, records)
        if len({one.checksum for one in scores}) > 1:
            notes.append(f"{name}: the rows were scored on different pairs or text, so do not compare them")
        if any(protocol not in one.scores for one in scores):
            notes.append(f"{name}: {protocol} is not defined on a copy that does not name its subsets")
    if "sickr" in names and "sickr-mteb" in names:
        notes.append("average: over the papers' seven sets, SICK-R being the one of 4,927 pairs")
    return notes
