"""Tables of records: a pivot of the long frame of scores for each suite, with one row per method."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from sentemb.evaluation.frame import to_frame
from sentemb.evaluation.schema import Record
from sentemb.evaluation.suites import MULTILINGUAL, RETRIEVAL, STS, TRANSFER, Suite, get_suite
from sentemb.report.labels import Label, label_table
from sentemb.report.table import ABSENT, Table, mean_cell, pivot

if TYPE_CHECKING:
    import pandas as pd

    from sentemb.evaluation.choosing.choice import Candidate, Choice

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
_RELATEDNESS = {"pearson": "Pearson", "spearman": "Spearman", "mse": "MSE"}
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


def tables_of(records: Sequence[Record]) -> Iterator[Table]:
    """Yield the tables of each suite and protocol, in the order of the records."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record.suite, record.protocol), []).append(record)
    for (suite, protocol), some in groups.items():
        if suite in (STS.name, MULTILINGUAL.name):
            yield sts_table(some, seeds_apart=True)
        elif suite == "geometry":
            yield geometry_table(some)
        elif suite == TRANSFER.name:
            yield from transfer_tables(some, protocol)
        elif suite == RETRIEVAL.name:
            yield from retrieval_tables(some)


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
    names = _sorted(one.name for record in records for one in record.datasets)
    key = "model" if seeds_apart else "method"
    counts = {}
    for name, runs in frame.groupby(key):
        seeds = runs["seed"].dropna()
        counts[name] = seeds.iloc[0] if seeds_apart and len(seeds) else runs["model"].nunique()
        counts[name] = str(counts[name]) if len(seeds) else ABSENT
    counted = any(one.seed is not None for one in records) or not seeds_apart
    return pivot(
        frame.assign(seeds=frame[key].map(counts)),
        title=f"STS, {measure.capitalize()} x 100 of cosine similarity, protocol {_RULES[protocol]}",
        rows={key: "model"} | ({"seeds": "seed" if seeds_apart else "seeds"} if counted else {}),
        column="dataset",
        order={name: _label(name, records) for name in _with_average(names, frame)},
        notes=(*_sts_notes(names, records, protocol), *(() if seeds_apart else (_OVER_SEEDS,))),
    )


def summary_table(records: Sequence[Record], labels: Mapping[str, Label]) -> Table | None:
    """Tabulate the averages over the suite `sts`, methods by bases; None if no model with a label has one."""
    suite = get_suite(records[0].suite)
    table = label_table(sts_table(records), labels)
    if not table.groups or table.header[-1] != AVERAGE:
        return None
    cells = {
        Label(base, *row[:2]): row[-1]
        for base, row in zip(table.groups, table.rows, strict=True)
        if base and row[-1] != ABSENT
    }
    bases = dict.fromkeys(one.base for one in labels.values() if one in cells)
    names = dict.fromkeys((one.method, one.pooling) for one in labels.values())
    rows = [(*name, *(cells.get(Label(base, *name), ABSENT) for base in bases)) for name in names]
    rows = [row for row in rows if {*row[2:]} - {ABSENT}]
    title = f"Average of {len(suite.sets)} STS sets, {suite.measure.capitalize()} x 100"
    header = ("method", "pooling", *bases)
    return Table(title, header, tuple(rows), notes=(_OVER_SEEDS,), names=2) if rows else None


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
    order = _with_average(_sorted({*frame["dataset"]} - {AVERAGE}), frame)
    seeds, encoders = {}, {}
    for method, runs in frame.groupby("method"):
        classifiers = runs.groupby("model")["seed"].nunique()
        encoders[method] = len(classifiers)
        trained = len(classifiers) if (runs["model"] != method).any() else ABSENT
        seeds[method] = f"{trained} x {'-'.join(map(str, sorted({*classifiers})))}"
    several = frame["method"].map(encoders) > 1
    frame = frame.assign(
        seeds=frame["method"].map(seeds), run=frame["model"].where(several, frame["seed"].astype(str))
    )
    runs = frame.groupby(["method", "seeds", "run", "dataset"], sort=False, as_index=False)["value"].mean()
    average = "average: of MR, CR, SUBJ, MPQA, SST-2, TREC and MRPC"
    return pivot(
        runs,
        title=f"Transfer tasks, accuracy x 100, preset {preset}",
        rows={"method": "model", "seeds": "seeds"},
        column="dataset",
        order={name: _LABELS.get(name, name) for name in order},
        notes=(
            "seeds: number of encoder seeds x number of classifier seeds",
            "± is the standard deviation over encoders, or over classifiers if there is a single encoder",
            *([average] if AVERAGE in order else []),
        ),
    )


def relatedness_table(records: Sequence[Record]) -> Table | None:
    """Tabulate trained regressions on STS-B and SICK-R, the mean over their seeds.

    Args:
        records: Records of the suite `transfer`.

    Returns:
        The table, None if no record has a regression.

    Example:
        >>> relatedness_table([]) is None
        True
    """
    frame = _scores(records, protocol="all")
    frame = frame[frame["metric"].isin(_RELATEDNESS)]
    if frame.empty:
        return None
    seeds = frame.groupby(["model", "dataset"])["seed"].transform("nunique")
    note = (
        "trained on the training pairs of each set: do not compare with the cosine similarities of STS tables"
    )
    return pivot(
        frame.assign(seeds=seeds),
        title="Relatedness predicted by a trained regression, correlations x 100",
        rows={"model": "model", "dataset": "task", "seeds": "seeds"},
        column="metric",
        order=_RELATEDNESS,
        complete=False,
        notes=(note,),
    )


def transfer_tables(records: Sequence[Record], preset: str) -> Iterator[Table]:
    """Yield the tables of transfer tasks and of regressions, if there are any."""
    for table in (transfer_table(records, preset), relatedness_table(records)):
        if table is not None and table.rows:
            yield table


def retrieval_tables(records: Sequence[Record]) -> Iterator[Table]:
    """Yield a table of systems by retrieval sets for each of NDCG@10 and recall@100 x 100."""
    names = _sorted(one.name for record in records for one in record.datasets)
    trained = any(record.seed is not None for record in records)
    for metric, shown in _RETRIEVAL.items():
        frame = _scores(records, average=RETRIEVAL, metric=metric, protocol="all")
        yield pivot(
            frame.assign(seeds=frame.groupby("method")["model"].transform("nunique")),
            title=f"Retrieval, {shown} x 100",
            rows={"method": "system"} | ({"seeds": "seeds"} if trained else {}),
            column="dataset",
            order={name: _LABELS.get(name, name) for name in _with_average(names, frame)},
            notes=(*_retrieval_notes(records, names), *([_OVER_SEEDS] if trained else [])),
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
    dataset, details = records[0].datasets[0], records[0].details
    frame = _scores(records)
    frame = frame.assign(dimension=frame["model"].map({one.model: one.dimension for one in records}))
    runs = frame.groupby("method")["model"].nunique()
    trained = {*frame["method"][frame["model"] != frame["method"]]}
    seeds = {name: str(count) if name in trained else ABSENT for name, count in runs.items()}
    notes = [_OVER_SEEDS] if (runs > 1).any() else []
    if (runs == 1).any():
        notes.append(
            f"in brackets: {100 * details['confidence']:g} % intervals over pairs that do not share a "
            f"sentence, at a fixed number of sentences ({details['sentences']:,})"
        )
    notes.append("lower is better for alignment and for uniformity; interpret them together")
    if len({one.datasets[0].sha256 for one in records}) > 1:
        notes.append("the rows were measured on different pairs or texts, so do not compare them")
    return pivot(
        frame.assign(seeds=frame["method"].map(seeds)),
        title=f"Geometry on {dataset.name} {dataset.split}",
        rows={"method": "model", "seeds": "seeds"},
        column="metric",
        order=_GEOMETRY,
        cell=_geometry_cell,
        complete=False,
        notes=notes,
    )


def _geometry_cell(runs: pd.DataFrame) -> str:
    first = runs.iloc[0]
    is_rank = first["metric"] == "effective_rank"
    digits = 1 if is_rank else 3
    text = mean_cell([*runs["value"]], digits)
    if len(runs) == 1:
        text += f" [{first['low']:.{digits}f}, {first['high']:.{digits}f}]"
    return f"{text} of {first['dimension']}" if is_rank else text


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
    score = ("behind the first" if predicted else "score", f"{100 * choice.confidence:g} % interval")
    return Table(
        title=_CHOICES[choice.basis],
        header=("place", "system", *score, *sets, "texts/s", "MB", "dimensions"),
        rows=tuple(_choice_row(one, sets, predicted=predicted) for one in choice.candidates),
        notes=(*notes, "texts/s: documents encoded on this machine; MB: size of the weights in memory"),
        best=frozenset(
            (row, 2) for row, one in enumerate(choice.candidates) if one.place == choice.best.place
        ),
        names=2,
    )


def _choice_row(one: Candidate, sets: Sequence[str], *, predicted: bool) -> tuple[str, ...]:
    score = one.behind if predicted else (one.score, *(one.interval or (float("nan"), float("nan"))))
    cells = (ABSENT, ABSENT) if score is None else (f"{score[0]:.1f}", f"{score[1]:.1f} to {score[2]:.1f}")
    costs = (one.cost.texts_per_second, one.cost.megabytes, one.cost.dimension)
    return (
        *(f"{one.place}", one.name, *cells),
        *(f"{one.sets[name]:.1f}" for name in sets),
        *(ABSENT if cost is None else f"{cost:,.0f}" for cost in costs),
    )


def _scores(records: Sequence[Record], *, average: Suite | None = None, **values: str) -> pd.DataFrame:
    """Select scores by values of columns, and add the average of each run that has all sets of a suite."""
    import pandas as pd

    frame = to_frame(records)
    for column, value in values.items():
        frame = frame[frame[column] == value]
    if average is None:
        return frame
    keys = ["method", "model", "seed"]
    runs = frame[frame["dataset"].isin(average.sets)].groupby(keys, dropna=False, sort=False)
    averages = runs["value"].mean()[runs.size() == len(average.sets)].reset_index()
    if averages.empty:
        return frame
    return pd.concat([frame, averages.assign(dataset=AVERAGE)], ignore_index=True)


def _with_average(names: list[str], frame: pd.DataFrame) -> list[str]:
    return [*names, *([AVERAGE] if AVERAGE in {*frame["dataset"]} else [])]


def _sorted(names: Iterable[str]) -> list[str]:
    return sorted({*names}, key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name))


def _label(name: str, records: Sequence[Record]) -> str:
    """Return the heading of an STS set; two versions of SICK-R differ in their number of pairs."""
    label = _LABELS.get(name, name)
    if not name.startswith("sickr"):
        return label
    sizes = sorted({one.items for record in records for one in record.datasets if one.name == name})
    return f"{label} {'/'.join(f'{size:,}' for size in sizes)}"


def _sts_notes(names: Sequence[str], records: Sequence[Record], protocol: str) -> Iterator[str]:
    for name in names:
        own = [record for record in records if any(one.name == name for one in record.datasets)]
        if len({record.dataset(name).sha256 for record in own}) > 1:
            yield f"{name}: the rows were evaluated on different pairs or texts, so do not compare them"
        if any(record.find(name, protocol=protocol) is None for record in own):
            yield f"{name}: the protocol {protocol} is not defined for a copy without subset names"
    if "sickr" in names and "sickr-mteb" in names:
        yield "average: over the seven sets of the papers, with the SICK-R of 4,927 pairs"


def _retrieval_notes(records: Sequence[Record], names: Sequence[str]) -> Iterator[str]:
    if records[0].protocol == "not-itself":
        yield "results exclude the document with the id of the query"
    for name in names:
        own = [one for record in records for one in record.datasets if one.name == name]
        if len({one.sha256 for one in own}) > 1:
            yield f"{name}: the rows were evaluated on different documents or queries, so do not compare them"
        elif own[0].split != "test":
            yield f"{name}: the split {own[0].split}"
    if {*RETRIEVAL.sets} <= {*names}:
        yield f"average: of {', '.join(_LABELS.get(name, name) for name in RETRIEVAL.sets)}"
