"""The suites that the runner knows, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sentemb.data.labelled import LabelledTexts
from sentemb.data.sts import ScoredPairs, load_scored_pairs
from sentemb.encoding import TextEncoder
from sentemb.errors import InputError
from sentemb.evaluation.geometry_intervals import evaluate_geometry
from sentemb.evaluation.naming import seed_of
from sentemb.evaluation.record import Record
from sentemb.evaluation.runner.suite import Loaded, Options, RunnableSuite, read_available
from sentemb.evaluation.scoring import checksum_of
from sentemb.evaluation.sts import evaluate_pairs
from sentemb.evaluation.suites import MULTILINGUAL, STS, Suite, get_suite
from sentemb.evaluation.transfer.evaluate import checksum_of_task, evaluate_tasks, texts_of
from sentemb.evaluation.transfer.presets import get_preset
from sentemb.evaluation.transfer.tasks import TRANSFER_TASKS, check_tasks, load_tasks


@dataclass(frozen=True, kw_only=True)
class PairSuite(RunnableSuite):
    """Correlations of cosines with the scores of pairs."""

    pairs: Mapping[str, ScoredPairs]

    def seed(self, model: str) -> int | None:
        """See `RunnableSuite`: the one that the model was trained with."""
        return seed_of(model)

    @property
    def checksums(self) -> Mapping[str, str]:
        """See `RunnableSuite`."""
        return {name: checksum_of(one) for name, one in self.pairs.items()}

    def texts(self, names: Sequence[str]) -> Iterable[str]:
        """See `RunnableSuite`."""
        return _texts_of_pairs(self.pairs[name] for name in names)

    def evaluate(self, encoder: TextEncoder, names: Sequence[str]) -> Iterator[tuple[Record, str]]:
        """See `RunnableSuite`."""
        record = evaluate_pairs(encoder, [self.pairs[name] for name in names], suite=get_suite(self.name))
        mean = record.average(protocol=self.protocol)
        yield record, f"{len(names)} sets" + ("" if mean is None else f", average {mean:.2f}")


@dataclass(frozen=True, kw_only=True)
class GeometrySuite(RunnableSuite):
    """How the vectors of one set of pairs lie."""

    pairs: ScoredPairs

    @property
    def checksums(self) -> Mapping[str, str]:
        """See `RunnableSuite`."""
        return {self.pairs.name: checksum_of(self.pairs)}

    def texts(self, names: Sequence[str]) -> Iterable[str]:
        """See `RunnableSuite`."""
        return _texts_of_pairs([self.pairs] * len(names))

    def evaluate(self, encoder: TextEncoder, names: Sequence[str]) -> Iterator[tuple[Record, str]]:
        """See `RunnableSuite`."""
        record = evaluate_geometry(encoder, self.pairs)
        figures = (f"{metric} {record.score(names[0], metric):.3f}" for metric in ("alignment", "uniformity"))
        yield record, ", ".join(figures)


@dataclass(frozen=True, kw_only=True)
class TransferSuite(RunnableSuite):
    """Accuracies of classifiers on frozen vectors, one task after the other."""

    tasks: Mapping[str, Mapping[str, LabelledTexts]]
    classifier_seed: int
    alone: bool = True

    @property
    def label(self) -> str:
        """See `RunnableSuite`; of several seeds each has its own."""
        return self.name if self.alone else f"{self.name} seed {self.classifier_seed}"

    def seed(self, model: str) -> int | None:
        """See `RunnableSuite`: that of the classifiers."""
        return self.classifier_seed

    @property
    def checksums(self) -> Mapping[str, str]:
        """See `RunnableSuite`."""
        return {name: checksum_of_task(name, parts) for name, parts in self.tasks.items()}

    def texts(self, names: Sequence[str]) -> Iterable[str]:
        """See `RunnableSuite`."""
        return (text for name in names for text in texts_of(self.tasks[name]))

    def evaluate(self, encoder: TextEncoder, names: Sequence[str]) -> Iterator[tuple[Record, str]]:
        """See `RunnableSuite`."""
        for name in names:
            (record,) = evaluate_tasks(
                encoder, {name: self.tasks[name]}, preset=self.protocol, seeds=[self.classifier_seed]
            )
            score = record.scores[0]
            yield record, f"{name} {score.metric} {score.value:.2f}, {record.environment.seconds[name]:.0f} s"


def _texts_of_pairs(pairs: Iterable[ScoredPairs]) -> Iterator[str]:
    for one in pairs:
        yield from one.first
        yield from one.second


def _load_pairs(suite: Suite, options: Options, beside: Sequence[str] = ()) -> Loaded:
    pairs, missing = read_available(
        (*suite.sets, *beside),
        lambda name: load_scored_pairs(
            name, split="test", data_dir=options.data_dir, check_rows=options.check_rows
        ),
    )
    loaded = PairSuite(name=suite.name, protocol=suite.protocol, pairs=pairs)
    return Loaded((loaded,) if pairs else (), missing)


def _load_geometry(options: Options) -> Loaded:
    found, missing = read_available(
        [options.pairs],
        lambda name: load_scored_pairs(
            name, split=options.split, data_dir=options.data_dir, check_rows=options.check_rows
        ),
    )
    suites = (
        GeometrySuite(name="geometry", protocol=f"{one.name}-{one.split}", pairs=one)
        for one in found.values()
    )
    return Loaded(tuple(suites), missing)


def _load_transfer(options: Options) -> Loaded:
    get_preset(options.preset)
    names = TRANSFER_TASKS if options.tasks is None else options.tasks
    check_tasks(names)
    tasks, missing = read_available(
        names,
        lambda name: load_tasks([name], data_dir=options.data_dir, check_rows=options.check_rows)[name],
    )
    alone = len(options.seeds) == 1
    suites = (
        TransferSuite(
            name="transfer", protocol=options.preset, tasks=tasks, classifier_seed=seed, alone=alone
        )
        for seed in options.seeds
    )
    return Loaded(tuple(suites) if tasks else (), missing)


LOADERS: Mapping[str, Callable[[Options], Loaded]] = {
    # MTEB's SICK-R has pairs of its own, all but a few sentences of which are encoded anyway.
    "sts": lambda options: _load_pairs(STS, options, ["sickr-mteb"]),
    "multilingual": lambda options: _load_pairs(MULTILINGUAL, options),
    "geometry": _load_geometry,
    "transfer": _load_transfer,
}
"""What reads the data of each suite, in the order of evaluation: the quick ones first."""


def load_suites(names: Sequence[str], options: Options, *, allow_missing: bool = False) -> Loaded:
    """Read the data of suites.

    Args:
        names: Names of `LOADERS`.
        options: What they are read and evaluated with.
        allow_missing: Skip data sets that are missing.

    Returns:
        The suites that there are data for, and why the other data sets are missing.

    Raises:
        InputError: A name is unknown or named twice, a set is damaged, none is there, or some are missing and
            `allow_missing` is not set; names all of them.
    """
    if isinstance(names, str) or not names:
        raise InputError("no list of suites was given", f"choose among {', '.join(LOADERS)}")
    for name in names:
        if name not in LOADERS:
            raise InputError(f"no suite is called {name!r}", f"choose among {', '.join(LOADERS)}")
        if list(names).count(name) > 1:
            raise InputError(f"suite {name} is named twice", "name each suite once")
    loaded = [load(options) for name, load in LOADERS.items() if name in names]
    missing = tuple(error for one in loaded for error in one.missing)
    suites = tuple(suite for one in loaded for suite in one.suites)
    if missing and not (suites and allow_missing):
        others = list(dict.fromkeys(error.name for error in missing if error.name != missing[0].name))
        message = f"{missing[0].message}{', nor ' if others else ''}{', '.join(others)}"
        if not suites:
            raise InputError(message, "name the folder of the data, or other --suites")
        raise InputError(message, "add --allow-missing (allow_missing=True) to skip them")
    return Loaded(suites, missing)
