"""Tables of records: methods by data sets, the seeds of a method in one row as mean ± standard deviation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from sentemb.evaluation.frame import to_frame
from sentemb.evaluation.naming import without_seed
from sentemb.evaluation.schema import Record
from sentemb.evaluation.suites import MULTILINGUAL, RETRIEVAL, STS, TRANSFER, Suite, get_suite
from sentemb.report.labels import Label
from sentemb.report.table import ABSENT, Table

if TYPE_CHECKING:
    import pandas as pd

AVERAGE = "average"
_LABELS = {
    **{f"sts{year}": f"STS{year}" for year in range(12, 17)},
    "stsb": "STS-B",
    "sickr": "SICK-R",
    "sickr-mteb": "SICK-R (MTEB)",
    **{name: name.upper() for name in ("mr", "cr", "subj", "mpqa", "trec", "mrpc")},
    "sst2": "SST-2",
    "sst5": "SST-5",
    "scifact": "SciFact",
    "cisi": "CISI",
    "cacm": "CACM",
    "qnli-dev": "QNLI",
}
_ORDER = (*STS.sets, "sickr-mteb", *MULTILINGUAL.sets, *TRANSFER.sets, *RETRIEVAL.sets)
_RULES = {
    "all": "all: subsets concatenated",
    "mean": "mean: unweighted mean over subsets",
    "wmean": "wmean: mean over subsets weighted by their number of pairs",
}
_OVER_SEEDS = "± is the standard deviation over seeds"
_SEARCH = {"ndcg@10": "NDCG@10", "recall@100": "recall@100"}
_GEOMETRY = {"alignment": 3, "uniformity": 3, "anisotropy": 3, "effective_rank": 1}


def mean_cell(values: Sequence[float], digits: int = 2, *, scale: float = 1.0) -> str:
    """Mean ± sample standard deviation; the value alone where there is one, a dash where there is none.

    Example:
        >>> mean_cell([59.0, 60.0, 61.0])
        '60.00 ± 1.00'
    """
    if not values:
        return ABSENT
    mean = f"{scale * fmean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {scale * stdev(values):.{digits}f}"


def tables_of(records: Sequence[Record]) -> Iterator[Table]:
    """A table for each suite and protocol, in the order of the records."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record.suite, record.protocol), []).append(record)
    for (suite, protocol), some in groups.items():
        if suite in (STS.name, MULTILINGUAL.name):
            yield sts_table(some, seeds_apart=True)
        elif suite == "geometry":
            yield geometry_table(some)
        elif suite == TRANSFER.name:
            table, related = transfer_table(some, protocol), relatedness_table(some)
            yield from (one for one in (table, related) if one is not None and one.rows)
        elif suite == RETRIEVAL.name:
            yield from retrieval_tables(some)


def sts_table(
    records: Sequence[Record],
    *,
    protocol: str | None = None,
    measure: str | None = None,
    seeds_apart: bool = False,
) -> Table:
    """Methods by STS sets, correlations x 100, and the average where all sets of the suite are there.

    Args:
        records: Records of one suite, `sts` or `multilingual`.
        protocol: How subsets are treated; the suite's by default.
        measure: `spearman` or `pearson`; the suite's by default.
        seeds_apart: A row for each model, with its seed.

    Returns:
        The table.

    Example:
        >>> print(sts_table(load_records("records")).title)
        STS, Spearman x 100 of cosine similarity, protocol all: subsets concatenated
    """
    suite = get_suite(records[0].suite)
    protocol, measure = protocol or suite.protocol, measure or suite.measure
    frame = _of(_frame(records), metric=measure, protocol=protocol)
    frame = _with_average(frame, suite)
    names = _sorted(name for record in records for name in (one.name for one in record.datasets))
    columns = [*names, *([AVERAGE] if AVERAGE in set(frame["dataset"]) else [])]
    key = "model" if seeds_apart else "system"
    trained = any(record.seed is not None for record in records)
    rows = []
    for name, runs in frame.groupby(key, sort=False):
        seeds = runs["seed"].dropna()
        shown = str(seeds.iloc[0]) if seeds_apart and len(seeds) else str(runs["model"].nunique())
        count = [shown if len(seeds) else ABSENT] if trained or not seeds_apart else []
        rows.append((str(name), *count, *_cells(runs, columns)))
    counted = ["seed" if seeds_apart else "seeds"] if trained or not seeds_apart else []
    return Table(
        title=f"STS, {measure.capitalize()} x 100 of cosine similarity, protocol {_RULES[protocol]}",
        header=("model", *counted, *(_label(name, records) for name in columns)),
        rows=tuple(rows),
        notes=(*_sts_notes(names, records, protocol), *(() if seeds_apart else (_OVER_SEEDS,))),
    )


def summary_table(records: Sequence[Record], labels: Mapping[str, Label]) -> Table | None:
    """Methods by base models: the average over the suite, mean ± standard deviation over seeds.

    Args:
        records: Records of the suite `sts`.
        labels: What the models are called; those without a label are left out.

    Returns:
        The table, None where no labelled model has an average.
    """
    suite = get_suite(records[0].suite)
    frame = _with_average(_of(_frame(records), metric=suite.measure, protocol=suite.protocol), suite)
    frame = frame[(frame["dataset"] == AVERAGE) & frame["system"].isin(labels)]
    cells = {labels[str(system)]: mean_cell([*runs]) for system, runs in frame.groupby("system")["value"]}
    bases = dict.fromkeys(one.base for one in labels.values() if one in cells)
    rows = dict.fromkeys((one.method, one.pooling) for one in labels.values())
    shown = [(*row, *(cells.get(Label(base, *row), ABSENT) for base in bases)) for row in rows]
    shown = [row for row in shown if {*row[2:]} - {ABSENT}]
    if not shown:
        return None
    return Table(
        title=f"Average of {len(suite.sets)} STS sets, {suite.measure.capitalize()} x 100",
        header=("method", "pooling", *bases),
        rows=tuple(shown),
        notes=(_OVER_SEEDS,),
        names=2,
    )


def transfer_table(records: Sequence[Record], preset: str) -> Table:
    """Methods by transfer tasks, accuracy x 100 under a preset of the classifiers.

    An encoder's accuracy is the mean over its classifiers; a method's the mean over its encoders.

    Args:
        records: Records of the suite `transfer`.
        preset: The preset.

    Returns:
        The table; it has no rows where no record is of this preset.

    Example:
        >>> table = transfer_table(load_records("records"), "simcse")  # doctest: +SKIP
    """
    frame = _of(_frame(records), preset=preset, metric="accuracy", protocol="all")
    frame = _with_average(frame, TRANSFER)
    averaged = [AVERAGE] if AVERAGE in set(frame["dataset"]) else []
    columns = [*_sorted(set(frame["dataset"]) - {AVERAGE}), *averaged]
    rows = []
    for method, runs in frame.groupby("system", sort=False):
        classifiers = [part["seed"].nunique() for _, part in runs.groupby("model")]
        trained = str(len(classifiers)) if (runs["model"] != method).any() else ABSENT
        seeds = f"{trained} x {'-'.join(map(str, sorted(set(classifiers))))}"
        cells = (
            _cells(runs, columns) if len(classifiers) == 1 else _cells(_mean_of_classifiers(runs), columns)
        )
        rows.append((str(method), seeds, *cells))
    return Table(
        title=f"Transfer tasks, accuracy x 100, preset {preset}",
        header=("model", "seeds", *(_LABELS.get(name, name) for name in columns)),
        rows=tuple(rows),
        notes=(
            "seeds: number of encoder seeds x number of classifier seeds",
            ("± is the standard deviation over encoders, or over classifiers if there is a single encoder"),
            *(("average: of MR, CR, SUBJ, MPQA, SST-2, TREC and MRPC",) if averaged else ()),
        ),
    )


def relatedness_table(records: Sequence[Record]) -> Table | None:
    """Trained regressions on STS-B and SICK-R; None where no record has one.

    Args:
        records: Records of the suite `transfer`.

    Returns:
        The table: means over the seeds of the regressions.

    Example:
        >>> relatedness_table([]) is None
        True
    """
    measures = ("pearson", "spearman", "mse")
    frame = to_frame(records)
    frame = frame[frame["metric"].isin(measures) & (frame["protocol"] == "all")]
    if frame.empty:
        return None
    rows = [
        (
            str(model),
            str(task),
            str(runs["seed"].nunique()),
            # An error is no share of anything.
            *(mean_cell([*_of(runs, metric=one)["value"]]) for one in measures),
        )
        for (model, task), runs in frame.groupby(["model", "dataset"], sort=False)
    ]
    return Table(
        title="Relatedness predicted by a trained regression, correlations x 100",
        header=("model", "task", "seeds", "Pearson", "Spearman", "MSE"),
        rows=tuple(rows),
        notes=(
            (
                "trained on the training pairs of each set: do not compare with the cosine similarities of "
                "STS tables"
            ),
        ),
    )


def retrieval_tables(records: Sequence[Record]) -> Iterator[Table]:
    """Systems by sets of judged queries, NDCG@10 and recall@100 x 100.

    Args:
        records: Records of the suite `retrieval`, of one protocol.

    Yields:
        A table of each metric.
    """
    columns = _sorted(one.name for record in records for one in record.datasets)
    trained = any(record.seed is not None for record in records)
    for metric, name in _SEARCH.items():
        frame = _with_average(_of(_frame(records), metric=metric, protocol="all"), RETRIEVAL)
        names = [*columns, *([AVERAGE] if AVERAGE in set(frame["dataset"]) else [])]
        rows = [
            (str(system), *([str(runs["model"].nunique())] if trained else []), *_cells(runs, names))
            for system, runs in frame.groupby("system", sort=False)
        ]
        yield Table(
            title=f"Retrieval, {name} x 100",
            header=("system", *(["seeds"] if trained else []), *(_LABELS.get(one, one) for one in names)),
            rows=tuple(rows),
            notes=(*_search_notes(records, columns), *([_OVER_SEEDS] if trained else [])),
        )


def _search_notes(records: Sequence[Record], names: Sequence[str]) -> Iterator[str]:
    if records[0].protocol == "not-itself":
        yield "results exclude the document with the id of the query"
    for name in names:
        own = [record.dataset(name) for record in records if any(one.name == name for one in record.datasets)]
        if len({one.sha256 for one in own}) > 1:
            yield (
                f"{name}: the rows were evaluated on different documents or queries, so do not compare them"
            )
        elif own[0].split != "test":
            yield f"{name}: the split {own[0].split}"
    if {*RETRIEVAL.sets} <= {*names}:
        yield f"average: of {', '.join(_LABELS.get(name, name) for name in RETRIEVAL.sets)}"


def geometry_table(records: Sequence[Record]) -> Table:
    """Methods by alignment, uniformity, anisotropy and effective rank on one set.

    Args:
        records: Records of the suite `geometry`, all on one set.

    Returns:
        The table: intervals of single runs, deviations over seeds of others.

    Example:
        >>> table = geometry_table(load_records("records"))  # doctest: +SKIP
    """
    frame, dataset = _frame(records), records[0].datasets[0]
    rows = []
    for method, runs in frame.groupby("system", sort=False):
        count = runs["model"].nunique()
        trained = str(count) if (runs["model"] != method).any() else ABSENT
        cells = [_geometry_cell(_of(runs, metric=one), digits) for one, digits in _GEOMETRY.items()]
        dimension = next(one.dimension for one in records if one.model == runs["model"].iloc[0])
        rows.append((str(method), trained, *cells[:-1], f"{cells[-1]} of {dimension}"))
    notes = ["lower is better for alignment and for uniformity; interpret them together"]
    if len({one.datasets[0].sha256 for one in records}) > 1:
        notes.append("the rows were measured on different pairs or texts, so do not compare them")
    joined = frame.groupby("system")["model"].nunique()
    if (joined == 1).any():
        details = records[0].details
        notes.insert(
            0,
            f"in brackets: {100 * details['confidence']:g} % intervals over pairs that do not share a "
            f"sentence, at a fixed number of sentences ({details['sentences']:,})",
        )
    if (joined > 1).any():
        notes.insert(0, _OVER_SEEDS)
    return Table(
        title=f"Geometry on {dataset.name} {dataset.split}",
        header=("model", "seeds", "alignment ↓", "uniformity ↓", "anisotropy", "effective rank"),
        rows=tuple(rows),
        notes=tuple(notes),
    )


def _frame(records: Sequence[Record]) -> pd.DataFrame:
    """The long table, with the system that each model is a run of."""
    frame = to_frame(records)
    return frame.assign(system=[without_seed(model) for model in frame["model"]])


def _of(frame: pd.DataFrame, **columns: str) -> pd.DataFrame:
    """The rows of a long table that have some values."""
    for column, value in columns.items():
        frame = frame[frame[column] == value]
    return frame


def _with_average(frame: pd.DataFrame, suite: Suite) -> pd.DataFrame:
    """Rows `average` beside those of the suite's sets, of every run that has all of them."""
    import pandas as pd

    runs = frame[frame["dataset"].isin(suite.sets)].groupby(
        ["system", "model", "seed"], dropna=False, sort=False
    )
    averages = runs["value"].mean()[runs.size() == len(suite.sets)].reset_index()
    if averages.empty:
        return frame
    return pd.concat([frame, averages.assign(dataset=AVERAGE)], ignore_index=True)


def _mean_of_classifiers(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.groupby(["model", "dataset"], sort=False, as_index=False)["value"].mean()


def _cells(runs: pd.DataFrame, columns: Sequence[str]) -> list[str]:
    """The cell of each data set; a dash where not every run of the method has it."""
    values = {str(name): [*part] for name, part in runs.groupby("dataset")["value"]}
    most = max(map(len, values.values()))
    return [mean_cell(values[name]) if len(values.get(name, ())) == most else ABSENT for name in columns]


def _geometry_cell(runs: pd.DataFrame, digits: int) -> str:
    if len(runs) > 1:
        return mean_cell([*runs["value"]], digits)
    value, low, high = (float(runs[column].iloc[0]) for column in ("value", "low", "high"))
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def _sorted(names: Iterable[str]) -> list[str]:
    return sorted(set(names), key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name))


def _label(name: str, records: Sequence[Record]) -> str:
    label = _LABELS.get(name, name)
    # Two populations go by the name SICK-R; the number of pairs tells which one this is.
    if not name.startswith("sickr"):
        return label
    sizes = sorted({one.items for record in records for one in record.datasets if one.name == name})
    return f"{label} {'/'.join(f'{size:,}' for size in sizes)}"


def _sts_notes(names: Sequence[str], records: Sequence[Record], protocol: str) -> list[str]:
    notes = []
    for name in names:
        of_set = [record for record in records if any(one.name == name for one in record.datasets)]
        if len({record.dataset(name).sha256 for record in of_set}) > 1:
            notes.append(
                f"{name}: the rows were evaluated on different pairs or texts, so do not compare them"
            )
        if any(record.find(name, protocol=protocol) is None for record in of_set):
            notes.append(f"{name}: the protocol {protocol} is not defined for a copy without subset names")
    if "sickr" in names and "sickr-mteb" in names:
        notes.append("average: over the seven sets of the papers, with the SICK-R of 4,927 pairs")
    return notes
