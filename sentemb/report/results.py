"""Tables of records: a pivot of the long frame of scores for each suite, with one row per method."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import nan
from statistics import fmean
from typing import TYPE_CHECKING

from sentemb.evaluation.ranks import shown_ranks
from sentemb.evaluation.record import to_frame
from sentemb.evaluation.schema import Record
from sentemb.evaluation.suites import (
    GEOMETRY,
    MULTILINGUAL,
    RETRIEVAL,
    STS,
    TRANSFER,
    Suite,
    get_suite,
)
from sentemb.report.table import ABSENT, Label, Table, label_table, mark_best, mean_cell, pivot

if TYPE_CHECKING:
    import pandas as pd

    from sentemb.evaluation.choosing.choice import Choice

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
_RETRIEVAL = {"ndcg@10": "NDCG@10", "recall@100": "recall@100"}
_RELATEDNESS = {"pearson": "Pearson", "spearman": "Spearman", "mse": "MSE ↓"}
_GEOMETRY = {
    "alignment": "alignment ↓",
    "uniformity": "uniformity ↓",
    "anisotropy": "anisotropy",
    "effective_rank": "effective rank",
}
_CHOICES = {
    "documents": "Systems by predicted NDCG@10 x 100 on real queries over your documents",
    "judged": "Systems by NDCG@10 x 100 on your queries with qrels",
    "pairs": "Systems by Spearman x 100 on your pairs",
}


def tables_of(
    records: Sequence[Record], labels: Mapping[str, Label] | None = None, *, protocol: str | None = None
) -> Iterator[Table]:
    """Yield the tables of each suite, in the order of the records.

    With labels, rows are named by them, the seeds of a method are one row, and the best scores are marked.
    `protocol` is the aggregation of subsets of STS.
    """
    for suite in dict.fromkeys(record.suite for record in records):
        own = [record for record in records if record.suite == suite]
        presets = {record.protocol: [one for one in own if one.protocol == record.protocol] for record in own}
        made: list[Table] = []
        if suite in (STS.name, MULTILINGUAL.name):
            made = [
                sts_table(own, protocol=protocol if suite == STS.name else None, seeds_apart=labels is None)
            ]
        elif suite == TRANSFER.name:
            made = [*(transfer_table(own, preset) for preset in sorted(presets)), _relatedness_table(own)]
        elif suite == RETRIEVAL.name:
            made = [table for preset in sorted(presets) for table in _retrieval_tables(presets[preset])]
        elif suite == GEOMETRY.name:
            made = [geometry_table(presets[preset]) for preset in sorted(presets)]
        made = [table for table in made if table.rows]
        yield from made if labels is None else (mark_best(label_table(one, labels)) for one in made)


def sts_table(
    records: Sequence[Record],
    *,
    protocol: str | None = None,
    measure: str | None = None,
    seeds_apart: bool = False,
) -> Table:
    """Tabulate methods by STS sets: correlations x 100, and their average if all sets of the suite are there.

    Args:
        records: Records of one suite, `sts` or `multilingual`.
        protocol: Aggregation of subsets; the suite's by default.
        measure: `spearman` or `pearson`; the suite's by default.
        seeds_apart: Make a row for each model, with its seed, instead of one for each method.

    Returns:
        The table.

    Example:
        >>> print(sts_table(load_records("records")).title)
        STS, Spearman x 100 of cosine similarity, protocol all: subsets concatenated
    """
    suite = get_suite(records[0].suite)
    protocol, measure = protocol or suite.protocol, measure or suite.measure
    frame = _scores(records, average=suite, metric=measure, protocol=protocol)
    names = _sets_of(records)
    key = "model" if seeds_apart else "method"
    rows = frame.groupby(key)
    shown = rows["seed"].transform("first") if seeds_apart else rows["model"].transform("nunique")
    seeds = shown.astype(str).where(rows["seed"].transform("count") > 0, ABSENT)
    notes: list[str] = []
    for name in names:
        notes += _mismatch(records, name, "pairs or texts")
        own = [record for record in records if any(one.name == name for one in record.datasets)]
        if any(record.find(name, protocol=protocol) is None for record in own):
            notes.append(f"{name}: the protocol {protocol} is not defined for a copy without subset names")
    if {"sickr", "sickr-mteb"} <= {*names}:
        notes.append("average: over the seven sets of the papers, with the SICK-R of 4,927 pairs")
    counted = any(one.seed is not None for one in records) or not seeds_apart
    return pivot(
        frame.assign(seeds=seeds),
        title=f"STS, {measure.capitalize()} x 100 of cosine similarity, protocol {_RULES[protocol]}",
        rows={key: "model"} | ({"seeds": "seed" if seeds_apart else "seeds"} if counted else {}),
        column="dataset",
        order=_columns(names, frame, records),
        notes=(*notes, *(() if seeds_apart else (_OVER_SEEDS,))),
    )


def summary_tables(records: Sequence[Record], labels: Mapping[str, Label]) -> tuple[Table, ...]:
    """Tabulate the averages over the suite `sts`, methods by bases, if a model with a label has one."""
    table = label_table(sts_table(records), labels) if records else None
    if table is None or not table.groups or table.header[-1] != AVERAGE:
        return ()
    cells = {
        Label(base, *row[:2]): row[-1]
        for base, row in zip(table.groups, table.rows, strict=True)
        if base and row[-1] != ABSENT
    }
    bases = dict.fromkeys(one.base for one in labels.values() if one in cells)
    names = dict.fromkeys((one.method, one.pooling) for one in labels.values())
    rows = [(*name, *(cells.get(Label(base, *name), ABSENT) for base in bases)) for name in names]
    rows = [row for row in rows if {*row[2:]} - {ABSENT}]
    suite = get_suite(records[0].suite)
    title = f"Average of {len(suite.sets)} STS sets, {suite.measure.capitalize()} x 100"
    header = ("method", "pooling", *bases)
    return (Table(title, header, tuple(rows), notes=(_OVER_SEEDS,), names=2),) if rows else ()


def transfer_table(records: Sequence[Record], preset: str) -> Table:
    """Tabulate methods by transfer tasks: accuracy x 100 under a preset of the classifiers.

    The accuracy of an encoder is the mean over its classifiers, that of a method the mean over its encoders.

    Args:
        records: Records of the suite `transfer`.
        preset: The preset.

    Returns:
        The table. It does not have rows if no record has this preset.

    Example:
        >>> table = transfer_table(load_records("records"), "simcse")  # doctest: +SKIP
    """
    frame = _scores(records, average=TRANSFER, preset=preset, metric="accuracy", protocol="all")
    seeds = {}
    for method, runs in frame.groupby("method"):
        classifiers = runs.groupby("model")["seed"].nunique()
        trained = len(classifiers) if (runs["model"] != method).any() else ABSENT
        seeds[method] = f"{trained} x {'-'.join(map(str, sorted({*classifiers})))}"
    several = frame.groupby("method")["model"].transform("nunique") > 1
    frame = frame.assign(
        seeds=frame["method"].map(seeds), run=frame["model"].where(several, frame["seed"].astype(str))
    )
    order = _columns({*frame["dataset"]} - {AVERAGE}, frame)
    return pivot(
        frame.groupby(["method", "seeds", "run", "dataset"], sort=False, as_index=False)["value"].mean(),
        title=f"Transfer tasks, accuracy x 100, preset {preset}",
        rows={"method": "model", "seeds": "seeds"},
        column="dataset",
        order=order,
        notes=(
            "seeds: number of encoder seeds x number of classifier seeds",
            "± is the standard deviation over encoders, or over classifiers if there is a single encoder",
            *(["average: of MR, CR, SUBJ, MPQA, SST-2, TREC and MRPC"] if AVERAGE in order else []),
        ),
    )


def _relatedness_table(records: Sequence[Record]) -> Table:
    """Tabulate trained regressions on STS-B and SICK-R, the mean over their seeds."""
    frame = _scores(records, protocol="all")
    frame = frame[frame["metric"].isin(_RELATEDNESS)]
    return pivot(
        frame.assign(seeds=frame.groupby(["model", "dataset"])["seed"].transform("nunique")),
        title="Relatedness predicted by a trained regression, correlations x 100",
        rows={"model": "model", "dataset": "task", "seeds": "seeds"},
        column="metric",
        order=_RELATEDNESS,
        complete=False,
        notes=("trained on the training pairs of each set: do not compare with the cosines of STS tables",),
    )


def _retrieval_tables(records: Sequence[Record]) -> Iterator[Table]:
    """Yield a table of systems by retrieval sets for each of NDCG@10 and recall@100 x 100."""
    names, trained = _sets_of(records), any(record.seed is not None for record in records)
    notes: list[str] = []
    if records[0].protocol == "not-itself":
        notes.append("results exclude the document with the id of the query")
    for name in names:
        split = next(one.split for record in records for one in record.datasets if one.name == name)
        differ = [*_mismatch(records, name, "documents or queries")]
        notes += differ or ([f"{name}: the split {split}"] if split != "test" else [])
    if {*RETRIEVAL.sets} <= {*names}:
        notes.append(f"average: of {', '.join(_LABELS.get(name, name) for name in RETRIEVAL.sets)}")
    timed = {one.model: one.details["milliseconds"] for one in records if "milliseconds" in one.details}
    if timed:
        notes.append("ms/query: what the second stage takes for a query on the machine of the record")
    milliseconds = {name: fmean(taken.values()) for name, taken in timed.items()}
    for metric, shown in _RETRIEVAL.items():
        frame = _scores(records, average=RETRIEVAL, metric=metric, protocol="all")
        frame = frame.assign(seeds=frame.groupby("method")["model"].transform("nunique"))
        if timed:
            taken = frame["model"].map(milliseconds).groupby(frame["method"]).transform("mean")
            frame = frame.assign(milliseconds=taken.map("{:,.0f}".format, na_action="ignore").fillna(ABSENT))
        yield pivot(
            frame,
            title=f"Retrieval, {shown} x 100",
            rows={"method": "system"}
            | ({"seeds": "seeds"} if trained else {})
            | ({"milliseconds": "ms/query"} if timed else {}),
            column="dataset",
            order=_columns(names, frame),
            notes=(*notes, *([_OVER_SEEDS] if trained else [])),
        )


def geometry_table(records: Sequence[Record]) -> Table:
    """Tabulate methods by alignment, uniformity, anisotropy and effective rank on one set.

    Args:
        records: Records of the suite `geometry`, all on one set.

    Returns:
        The table, with intervals of single runs and standard deviations over seeds.

    Example:
        >>> table = geometry_table(load_records("records"))  # doctest: +SKIP
    """
    dataset, details, frame = records[0].datasets[0], records[0].details, _scores(records)
    runs = frame.groupby("method")["model"].transform("nunique")
    trained = {*frame["method"][frame["model"] != frame["method"]]}
    notes = [_OVER_SEEDS] if (runs > 1).any() else []
    if (runs == 1).any():
        notes.append(
            f"in brackets: {100 * details['confidence']:g} % intervals over pairs that do not share a "
            f"sentence, at a fixed number of sentences ({details['sentences']:,})"
        )
    notes.append("lower is better for alignment and for uniformity; interpret them together")
    if len({one.datasets[0].sha256 for one in records}) > 1:
        notes.append("the rows were measured on different pairs or texts, so do not compare them")

    def cell(part: pd.DataFrame) -> str:
        first = part.iloc[0]
        is_rank = first["metric"] == "effective_rank"
        digits = 1 if is_rank else 3
        text = mean_cell([*part["value"]], digits)
        if len(part) == 1:
            text += f" [{first['low']:.{digits}f}, {first['high']:.{digits}f}]"
        return f"{text} of {first['dimension']}" if is_rank else text

    return pivot(
        frame.assign(
            dimension=frame["model"].map({one.model: one.dimension for one in records}),
            seeds=runs.astype(str).where(frame["method"].isin(trained), ABSENT),
        ),
        title=f"Geometry on {dataset.name} {dataset.split}",
        rows={"method": "model", "seeds": "seeds"},
        column="metric",
        order=_GEOMETRY,
        cell=cell,
        complete=False,
        notes=notes,
    )


def choice_table(choice: Choice) -> Table:
    """Tabulate the systems of a choice, the best first, with a column for each of several sets."""
    predicted = choice.basis == "documents"
    sets = [*choice.best.sets] if len(choice.best.sets) > 1 or predicted else []
    notes = ["systems that share a place do not differ significantly from the first of it"]
    if predicted:
        weighted = f" weighted by {choice.logged:,} queries of your log" if choice.logged else ""
        updated = f", updated by {choice.judged:,} queries with qrels" if choice.judged else ""
        kinds = ", ".join(choice.best.sets)
        notes += [f"predicted from scores on generated queries ({kinds}){weighted}{updated}", *choice.skipped]
    else:
        notes.append(
            f"ranks: {100 * choice.confidence:g} % interval of the rank, all systems resampled together"
        )
    if choice.unmeasured:
        notes.append(
            f"{', '.join(choice.unmeasured)}: predictions have not been measured for second stages, "
            "late-interaction and sparse models; confirm them with queries with qrels (--judged)"
        )
    costs = {"texts_per_second": "texts/s", "megabytes": "MB", "dimension": "dimensions"}
    if any(one.cost.milliseconds is not None for one in choice.candidates):
        costs["milliseconds"] = "ms/query"
        notes.append("ms/query: what the second stage takes for a query on this machine")
    rows = []
    for one in choice.candidates:
        score = one.behind if predicted else (one.score, *(one.interval or (nan, nan)))
        cells = (
            (ABSENT, ABSENT) if score is None else (f"{score[0]:.1f}", f"{score[1]:.1f} to {score[2]:.1f}")
        )
        values = [getattr(one.cost, name) for name in costs]
        shown = (ABSENT if cost is None else f"{cost:,.0f}" for cost in values)
        ranks = () if one.ranks is None else (shown_ranks(one.ranks),)
        rows.append(
            (str(one.place), one.name, *cells, *ranks, *(f"{one.sets[name]:.1f}" for name in sets), *shown)
        )
    score_names = ("behind the first" if predicted else "score", f"{100 * choice.confidence:g} % interval")
    return Table(
        title=_CHOICES[choice.basis],
        header=("place", "system", *score_names, *([] if predicted else ["ranks"]), *sets, *costs.values()),
        rows=tuple(rows),
        notes=(*notes, "texts/s: documents encoded on this machine; MB: size of the weights in memory"),
        best=frozenset(
            (row, 2) for row, one in enumerate(choice.candidates) if one.place == choice.best.place
        ),
        names=2,
    )


def _scores(records: Sequence[Record], *, average: Suite | None = None, **values: str) -> pd.DataFrame:
    """Select scores by values of columns, and add the average of each run that has all sets of a suite."""
    import pandas as pd

    frame = to_frame(records)
    for column, value in values.items():
        frame = frame[frame[column] == value]
    if average is None:
        return frame
    runs = frame[frame["dataset"].isin(average.sets)].groupby(
        ["method", "model", "seed"], dropna=False, sort=False
    )
    averages = runs["value"].mean()[runs.size() == len(average.sets)].reset_index()
    return pd.concat([frame, averages.assign(dataset=AVERAGE)], ignore_index=True) if len(averages) else frame


def _sets_of(records: Sequence[Record]) -> list[str]:
    return _sorted({one.name for record in records for one in record.datasets})


def _sorted(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name))


def _columns(names: Iterable[str], frame: pd.DataFrame, records: Sequence[Record] = ()) -> dict[str, str]:
    """Return the headings of sets in their order, and of the average; versions of SICK-R differ in size."""
    order = {name: _LABELS.get(name, name) for name in _sorted(names)}
    for name in [name for name in order if name.startswith("sickr")]:
        sizes = sorted({one.items for record in records for one in record.datasets if one.name == name})
        order[name] += f" {'/'.join(f'{size:,}' for size in sizes)}" if sizes else ""
    return order | ({AVERAGE: AVERAGE} if AVERAGE in {*frame["dataset"]} else {})


def _mismatch(records: Sequence[Record], name: str, what: str) -> Iterator[str]:
    if len({one.sha256 for record in records for one in record.datasets if one.name == name}) > 1:
        yield f"{name}: the rows were evaluated on different {what}, so do not compare them"
