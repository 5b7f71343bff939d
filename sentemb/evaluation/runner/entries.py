"""The suites that the runner knows, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from sentemb.data.catalogue import expand
from sentemb.data.labelled import LabelledTexts
from sentemb.data.retrieval import RetrievalSet, load_retrieval
from sentemb.data.sts import ScoredPairs, load_scored_pairs
from sentemb.encoding import TextEncoder
from sentemb.errors import InputError, naming
from sentemb.evaluation.geometry_intervals import evaluate_geometry
from sentemb.evaluation.naming import seed_of
from sentemb.evaluation.retrieval.evaluate import (
    ALL_DOCUMENTS,
    NOT_ITSELF,
    as_searcher,
    check_names,
    evaluate_sets,
)
from sentemb.evaluation.retrieval.evaluate import checksum_of as checksum_of_set
from sentemb.evaluation.runner.suite import Loaded, Options, RunnableSuite, read_available
from sentemb.evaluation.schema import Record
from sentemb.evaluation.scoring import checksum_of
from sentemb.evaluation.sts import evaluate_pairs
from sentemb.evaluation.suites import MULTILINGUAL, RETRIEVAL, STS, Suite
from sentemb.evaluation.transfer.evaluate import checksum_of_task, evaluate_tasks, texts_of
from sentemb.evaluation.transfer.presets import get_preset
from sentemb.evaluation.transfer.tasks import TRANSFER_TASKS, check_folds, check_tasks, load_tasks


def pair_suite(suite: Suite, pairs: Mapping[str, ScoredPairs]) -> RunnableSuite:
    """Correlations of cosines with the scores of pairs."""

    def evaluate(encoder: TextEncoder, names: Sequence[str]) -> Iterator[tuple[Record, str]]:
        record = evaluate_pairs(encoder, [pairs[name] for name in names], suite=suite)
        mean = record.average(protocol=suite.protocol)
        yield record, f"{len(names)} sets" + ("" if mean is None else f", average {mean:.2f}")

    return RunnableSuite(
        name=suite.name,
        label=suite.name,
        protocol=suite.protocol,
        checksums={name: checksum_of(one) for name, one in pairs.items()},
        texts={name: [*one.first, *one.second] for name, one in pairs.items()},
        evaluate=evaluate,
        seed=seed_of,
    )


def geometry_suite(pairs: ScoredPairs) -> RunnableSuite:
    """How the vectors of one set of pairs lie."""

    def evaluate(encoder: TextEncoder, names: Sequence[str]) -> Iterator[tuple[Record, str]]:
        with naming(pairs.source or pairs.name):
            record = evaluate_geometry(encoder, pairs)
        figures = (f"{metric} {record.score(names[0], metric):.3f}" for metric in ("alignment", "uniformity"))
        yield record, ", ".join(figures)

    return RunnableSuite(
        name="geometry",
        label="geometry",
        protocol=f"{pairs.name}-{pairs.split}",
        checksums={pairs.name: checksum_of(pairs)},
        texts={pairs.name: [*pairs.first, *pairs.second]},
        evaluate=evaluate,
    )


def transfer_suite(
    tasks: Mapping[str, Mapping[str, LabelledTexts]], preset: str, seed: int, *, alone: bool = True
) -> RunnableSuite:
    """Accuracies of classifiers on frozen vectors, one task after the other; each seed has its own label."""

    def evaluate(encoder: TextEncoder, names: Sequence[str]) -> Iterator[tuple[Record, str]]:
        for name in names:
            (record,) = evaluate_tasks(encoder, {name: tasks[name]}, preset=preset, seeds=[seed])
            score = record.scores[0]
            yield record, f"{name} {score.metric} {score.value:.2f}, {record.environment.seconds[name]:.0f} s"

    return RunnableSuite(
        name="transfer",
        label="transfer" if alone else f"transfer seed {seed}",
        protocol=preset,
        checksums={name: checksum_of_task(name, parts) for name, parts in tasks.items()},
        texts={name: [*texts_of(parts)] for name, parts in tasks.items()},
        evaluate=evaluate,
        seed=lambda model: seed,
    )


def retrieval_suite(sets: Mapping[str, RetrievalSet], options: Options) -> RunnableSuite:
    """Search for judged queries. Prompts differ between queries and documents, so it encodes by itself."""

    def evaluate(system: Any, names: Sequence[str]) -> Iterator[tuple[Record, str]]:
        chosen = [sets[name] for name in names]
        for record in evaluate_sets(
            as_searcher(system),
            chosen,
            exclude_same_ids=options.exclude_same_ids,
            runs=options.runs,
            progress=options.progress,
        ):
            name = record.datasets[0].name
            figures = (f"{metric} {record.score(name, metric):.2f}" for metric in ("ndcg@10", "recall@100"))
            yield record, f"{name} {', '.join(figures)}, {record.environment.seconds[name]:.0f} s"

    return RunnableSuite(
        name="retrieval",
        label="retrieval",
        protocol=NOT_ITSELF if options.exclude_same_ids else ALL_DOCUMENTS,
        checksums={name: checksum_of_set(one) for name, one in sets.items()},
        texts=dict.fromkeys(sets, ()),
        evaluate=evaluate,
        seed=seed_of,
    )


def _load_pairs(suite: Suite, options: Options, beside: Sequence[str] = ()) -> Loaded:
    pairs, missing = read_available((*suite.sets, *beside), partial(_read_pairs, options, split="test"))
    return Loaded((pair_suite(suite, pairs),) if pairs else (), missing)


def _load_geometry(options: Options) -> Loaded:
    found, missing = read_available([options.pairs], partial(_read_pairs, options, split=options.split))
    return Loaded(tuple(map(geometry_suite, found.values())), missing)


def _read_pairs(options: Options, name: str, *, split: str) -> ScoredPairs:
    return load_scored_pairs(name, split=split, data_dir=options.data_dir, check_rows=options.check_rows)


def _load_transfer(options: Options) -> Loaded:
    preset = get_preset(options.preset)
    names = TRANSFER_TASKS if options.tasks is None else options.tasks
    check_tasks(names)
    found, missing = read_available(
        names, lambda name: load_tasks([name], data_dir=options.data_dir, check_rows=options.check_rows)
    )
    tasks = {title: parts for loaded in found.values() for title, parts in loaded.items()}
    check_folds(tasks, preset)
    alone = len(options.seeds) == 1
    suites = [transfer_suite(tasks, options.preset, seed, alone=alone) for seed in options.seeds]
    return Loaded(tuple(suites) if tasks else (), missing)


def _load_retrieval(options: Options) -> Loaded:
    def load(name: str) -> RetrievalSet:
        return load_retrieval(
            name, split=options.judged, data_dir=options.data_dir, check_rows=options.check_rows
        )

    names = RETRIEVAL.sets if options.sets is None else expand(options.sets)
    if not names:
        raise InputError("the list of sets is empty", "list one or more, such as scifact or a folder")
    check_names(names)
    found, missing = read_available(names, load)
    check_names([one.name for one in found.values()])
    sets = {one.name: one for one in found.values()}
    return Loaded((retrieval_suite(sets, options),) if sets else (), missing, options.sets is None)


LOADERS: Mapping[str, Callable[[Options], Loaded]] = {
    # MTEB's SICK-R has pairs of its own, all but a few sentences of which are encoded anyway.
    "sts": lambda options: _load_pairs(STS, options, ["sickr-mteb"]),
    "multilingual": lambda options: _load_pairs(MULTILINGUAL, options),
    "geometry": _load_geometry,
    "transfer": _load_transfer,
    "retrieval": _load_retrieval,
}
"""What reads the data of each suite, in the order of evaluation: the quick ones first."""


def load_suites(names: Sequence[str], options: Options, *, allow_missing: bool = False) -> Loaded:
    """Read the data of suites.

    Args:
        names: Names of `LOADERS`.
        options: What they are read and evaluated with.
        allow_missing: Skip data sets that are missing. Those of retrieval that were not named are skipped
            anyway, since most of them cannot be fetched.

    Returns:
        The suites that there are data for, and why the other data sets are missing.

    Raises:
        InputError: A name is unknown or named twice, a set is damaged, none is there, or some are missing and
            `allow_missing` is not set; names all of them.
    """
    if isinstance(names, str) or not names:
        raise InputError("the list of suites is empty", f"choose among {', '.join(LOADERS)}")
    for name in names:
        if name not in LOADERS:
            raise InputError(f"unknown suite {name!r}", f"choose among {', '.join(LOADERS)}")
        if list(names).count(name) > 1:
            raise InputError(f"the suite {name} is listed twice", "list each suite once")
    loaded = [load(options) for name, load in LOADERS.items() if name in names]
    missing = tuple(error for one in loaded for error in one.missing)
    suites = tuple(suite for one in loaded for suite in one.suites)
    if not suites or not (allow_missing or all(one.optional for one in loaded if one.missing)):
        others = list(dict.fromkeys(error.name for error in missing if error.name != missing[0].name))
        message = f"{missing[0].message}{', nor ' if others else ''}{', '.join(others)}"
        if suites and len(names) > 1:
            raise InputError(message, "add --allow-missing (allow_missing=True) to skip them")
        raise InputError(message, "set the folder of the data with --data-dir, or choose other sets")
    return Loaded(suites, missing)
