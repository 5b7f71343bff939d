"""Systems for comparisons: the predictions of every run on every data set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sentemb.data.retrieval import RetrievalSet
from sentemb.errors import InputError
from sentemb.evaluation.record import load_predictions, load_records
from sentemb.evaluation.resampling import Clusters
from sentemb.evaluation.retrieval.metrics import METRICS as RETRIEVAL_METRICS
from sentemb.evaluation.retrieval.metrics import query_scores
from sentemb.evaluation.schema import Record, check_once, seed_of, slug, without_seed
from sentemb.evaluation.suites import SUITES, TRANSFER, get_suite

Seed = int | str | None
"""What tells a run from the others of its system; None of an encoder that was not trained with a seed."""


@dataclass(frozen=True, eq=False)
class SetRuns:
    """The runs of a system on one data set."""

    gold: npt.NDArray[np.float64]  # gold scores, or classes, shape (n,)
    predictions: npt.NDArray[np.float64]  # similarities, classes, or scores of queries, shape (runs, n)
    content: str  # checksum of the items, which must agree for two systems to be comparable
    classes: int = 0  # number of classes, where it is known
    clusters: Clusters | None = None  # of queries that share documents with those of other sets


@dataclass(frozen=True, eq=False)
class System:
    """One encoder, or the encoders or classifiers that differ in their seed alone."""

    name: str  # in tables
    measure: str  # the metric
    # Of each run. Runs of equal seeds, the classifiers of one encoder, count as one in tests over seeds.
    seeds: tuple[Seed, ...]
    sets: Mapping[str, SetRuns]  # predictions by data set


def system_of(records: Sequence[Record], name: str, *, measure: str | None = None) -> System:
    """Return the runs of a system on the data sets for which all of them have the metric.

    Args:
        records: Records of one suite, and of one preset where they are of transfer tasks.
        name: The system: a model's name, without the `-seed-N` at the end of those of several seeds, or a
            path or the beginning of a fingerprint.
        measure: The metric; that of the suite by default.

    Raises:
        InputError: The system does not exist, has a run twice, its encoders have different numbers of
            classifiers, or its runs do not share a data set.

    Example:
        >>> system_of(load_records("records"), "static-mini").name
        'static-mini'
    """
    system = resolve_system(name, records)
    chosen = [record for record in records if without_seed(record.model) == system]
    suite = get_suite(chosen[0].suite)
    metric = measure or suite.measure
    under = f", preset {chosen[0].protocol}" if suite is TRANSFER else ""
    check_once([(record.model, under, record.seed) for record in chosen])
    if suite is TRANSFER and len({*Counter(record.model for record in chosen).values()}) > 1:
        raise InputError(
            f"the encoders of {system} have different numbers of classifiers{under}",
            "evaluate all of them with the same classifier seeds",
        )
    sets = {
        dataset.name: _runs(chosen, dataset.name, metric)
        for dataset in chosen[0].datasets
        if all(record.find(dataset.name, metric) for record in chosen)
    }
    if not sets:
        raise InputError(
            f"the records of {system} do not share a data set with {metric}",
            "evaluate all its seeds on the same data sets",
        )
    seeds: list[Seed] = [record.seed for record in chosen]
    if suite is TRANSFER:
        trained = map(seed_of, (record.model for record in chosen))
        seeds = [
            f"classifiers {seed}" if own is None else own for seed, own in zip(seeds, trained, strict=True)
        ]
    return System(system, metric, tuple(seeds), sets)


def with_clusters(system: System, sets: Sequence[RetrievalSet]) -> System:
    """Return a system whose sets have queries about the same documents: queries of one id in several sets.

    Then these documents are drawn, not the queries of each set as if they were unrelated, which would make
    the average look surer than it is.
    """
    names = dict.fromkeys(name for data in sets for name in data.query_ids)
    numbers = {name: number for number, name in enumerate(names)}
    clusters = {
        data.name: Clusters(np.array([numbers[one] for one in data.query_ids]), len(numbers)) for data in sets
    }
    runs = {name: replace(one, clusters=clusters.get(name)) for name, one in system.sets.items()}
    return replace(system, sets=runs)


def select_records(
    paths: Sequence[Path], names: Sequence[str], *, suite: str | None = None, preset: str | None = None
) -> list[Record]:
    """Return records that compare systems: of one suite, and of one preset of transfer tasks.

    For retrieval, the preset is the protocol.
    """
    records = load_records(paths, suite=None if suite is None else get_suite(suite).name)
    chosen = [resolve_system(name, records) for name in names]
    for kind in SUITES.values():
        of_suite = [record for record in records if record.suite == kind.name and record.predictions]
        if not {*chosen} <= {without_seed(record.model) for record in of_suite}:
            continue
        if not kind.presets:
            return of_suite
        presets = list(dict.fromkeys(record.protocol for record in of_suite))
        if preset is None and len(presets) > 1:
            raise InputError(
                f"the records have several presets: {', '.join(presets)}", "choose one with --preset"
            )
        found = [record for record in of_suite if preset in (None, record.protocol)]
        if not found:
            raise InputError(f"no record of the preset {preset} found", f"choose among {', '.join(presets)}")
        return found
    for one in records:
        if one.predictions is None and without_seed(one.model) in chosen:
            raise InputError(
                f"the {one.suite} record of {one.model} does not contain predictions to compare",
                "evaluate the model again",
            )
    raise InputError(
        f"{', '.join(chosen)} do not share a suite with predictions", "evaluate all of them on the same suite"
    )


def resolve_system(name: str | Path, records: Sequence[Record]) -> str:
    """Return the name of the system that a name, a path or a fingerprint means among some records.

    That is a system's or model's name, the path or hub id that it was evaluated under, or the beginning of
    its fingerprint, eight characters or more.
    """
    text = str(name).rstrip("/")
    last = Path(text).name
    known = {record.model: without_seed(record.model) for record in records}
    for matches in (
        [method for method in known.values() if method == text],
        [method for model, method in known.items() if model == text],
        [method for model, method in known.items() if slug(model) in (slug(text), slug(last))],
        [method for model, method in known.items() if last in (method, model.rpartition("/")[2])],
        [without_seed(one.model) for one in records if len(text) >= 8 and one.fingerprint.startswith(text)],
    ):
        found = list(dict.fromkeys(matches))
        if len(found) == 1:
            return found[0]
        if found:
            raise InputError(f"{text} is ambiguous: it matches {', '.join(found)}", "use a full name")
    present = ", ".join(dict.fromkeys(known.values()))
    raise InputError(
        f"no record of {text} found", f"choose among {present}" if present else "evaluate it first"
    )


def _runs(records: Sequence[Record], name: str, metric: str) -> SetRuns:
    content = {record.dataset(name).sha256 for record in records}
    if len(content) > 1:
        raise InputError(f"the seeds of {records[0].model} were evaluated on different items of {name}")
    predictions = [load_predictions(record) for record in records]
    gold, values = predictions[0].gold[name], [one.values[name] for one in predictions]
    if metric in RETRIEVAL_METRICS:
        values = [query_scores(metric, ranks, gold) for ranks in values]
        gold = np.zeros(len(values[0]))  # a query's score says everything
    classes = len(records[0].dataset(name).classes)
    return SetRuns(gold.astype(np.float64), np.stack(values).astype(np.float64), content.pop(), classes)
