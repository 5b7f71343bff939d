"""Seeds of one method as one row: mean ± standard deviation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean, stdev

from sentemb.evaluation.measures import Protocol
from sentemb.evaluation.naming import without_seed
from sentemb.evaluation.result import ResultRecord
from sentemb.evaluation.scoring import Correlations
from sentemb.evaluation.table import ABSENT, Table, set_names, sts_table


def seed_table(
    records: Sequence[ResultRecord],
    protocol: Protocol = "all",
    *,
    measure: str = "spearman",
    published: Mapping[str, str] | None = None,
) -> Table:
    """Methods by sets: the mean over a method's seeds with the sample standard deviation, x 100.

    Records whose models differ only in an ending `-seed-N` are one method, which is how the folders of a run
    over several seeds are called.
    """
    methods: dict[str, list[ResultRecord]] = {}
    for record in records:
        methods.setdefault(without_seed(record.model), []).append(record)
    columns = sts_table(records, protocol, measure=measure)
    first = 2 if any(record.seed is not None for record in records) else 1  # name, seed
    averages = columns.header[-1] == "average"
    rows = []
    for method, runs in methods.items():
        trained = any(record.seed is not None for record in runs)
        scores = [record.scores(protocol) for record in runs]
        cells = [_cell([one.get(name) for one in scores], measure) for name in set_names(records)]
        if averages:
            cells.append(_cell([record.average(protocol) for record in runs], measure))
        beside = () if published is None else (published.get(method, ABSENT),)
        rows.append((method, str(len(runs)) if trained else ABSENT, *cells, *beside))
    return Table(
        title=columns.title,
        header=("model", "seeds", *columns.header[first:], *(() if published is None else ("published",))),
        rows=tuple(rows),
        notes=(*columns.notes, "± is the standard deviation over seeds"),
    )


def _cell(found: Sequence[Correlations | None], measure: str) -> str:
    values = [getattr(one, measure) for one in found if one is not None]
    if len(values) < len(found):
        return ABSENT
    return f"{mean(values):.2f}" + (f" ± {stdev(values):.2f}" if len(values) > 1 else "")
