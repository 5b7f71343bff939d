"""Suites of scored pairs: STS, other languages, and the geometry of their vectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sentemb._tables import Table
from sentemb.data.sts import ScoredPairs, load_scored_pairs
from sentemb.encoding import TextEncoder
from sentemb.evaluation.everything.suite import Loaded, Options, Reading, check_same_encoder, taken
from sentemb.evaluation.geometry_records import (
    GeometryRecord,
    geometry_path,
    judge_geometry,
    read_geometry,
    write_geometry,
)
from sentemb.evaluation.geometry_table import geometry_table
from sentemb.evaluation.judge import judge_sts
from sentemb.evaluation.naming import seed_of
from sentemb.evaluation.records import read_record, write_record
from sentemb.evaluation.result import ResultRecord, file_name_of
from sentemb.evaluation.scoring import checksum_of
from sentemb.evaluation.suites import Suite
from sentemb.evaluation.table import sts_table


@dataclass(frozen=True)
class PairsSuite:
    """Correlations with the scores of pairs, one record of all sets.

    Attributes:
        suite: Which average, protocol and measure.
        pairs: The sets that are there.
        options: The options.
    """

    suite: Suite
    pairs: tuple[ScoredPairs, ...]
    options: Options

    @classmethod
    def load(cls, suite: Suite, options: Options, *, beside: Sequence[str] = ()) -> Loaded:
        """Read the sets."""
        reading = Reading()
        pairs = reading.read((*suite.sets, *beside), lambda name: _load(name, "test", options))
        suites = (cls(suite, tuple(pairs.values()), options),) if pairs else ()
        return Loaded(suites, tuple(reading.missing))

    @property
    def name(self) -> str:
        """The suite's name."""
        return self.suite.name

    def find(self, folder: Path, encoder: TextEncoder, *, overwrite: bool) -> ResultRecord | None:
        """See `Suite.find`; a record of fewer sets is replaced by one of all."""
        path = folder / file_name_of(
            encoder.name, suite=self.suite.name, protocol=self.suite.protocol, seed=seed_of(encoder.name)
        )
        if not path.exists():
            return None
        record = read_record(path)
        if not check_same_encoder(path, encoder, record.fingerprint, record.encoder, overwrite=overwrite):
            return None
        wanted = {(one.name, checksum_of(one)) for one in self.pairs}
        there = {(one.name, one.checksum) for one in record.sets}
        if wanted <= there:
            return record
        if there < wanted:
            return None
        raise taken(path)

    def texts(self, found: ResultRecord | None) -> Iterable[str]:
        """See `Suite.texts`."""
        if found is None:
            for one in self.pairs:
                yield from one.first
                yield from one.second

    def judge(self, encoder: TextEncoder, found: ResultRecord | None) -> Iterator[tuple[ResultRecord, str]]:
        """See `Suite.judge`."""
        record = judge_sts(encoder, self.pairs, suite=self.suite, command=self.options.command)
        mean = record.average(self.suite.protocol)
        average = "" if mean is None else f", average {getattr(mean, self.suite.measure):.2f}"
        yield record, f"{len(self.pairs)} sets{average}"

    def write(self, record: ResultRecord, folder: Path) -> Path:
        """See `Suite.write`."""
        return write_record(record, folder, overwrite=True)

    def tables(self, records: Sequence[ResultRecord]) -> list[Table]:
        """See `Suite.tables`."""
        return [sts_table(records, self.suite.protocol, measure=self.suite.measure)]


@dataclass(frozen=True)
class GeometrySuite:
    """How the vectors of one set of pairs lie.

    Attributes:
        pairs: The set.
        options: The options.
    """

    pairs: ScoredPairs
    options: Options
    name: str = "geometry"

    @classmethod
    def load(cls, options: Options) -> Loaded:
        """Read the dev split of STS-B, on which every run traces its geometry."""
        reading = Reading()
        pairs = reading.read(["stsb"], lambda name: _load(name, "dev", options))
        return Loaded(tuple(cls(one, options) for one in pairs.values()), tuple(reading.missing))

    def find(self, folder: Path, encoder: TextEncoder, *, overwrite: bool) -> GeometryRecord | None:
        """See `Suite.find`."""
        path = geometry_path(folder, encoder.name, data=self.pairs.name, split=self.pairs.split)
        if not path.exists():
            return None
        record = read_geometry(path)
        if not check_same_encoder(path, encoder, record.fingerprint, record.encoder, overwrite=overwrite):
            return None
        if record.checksum != checksum_of(self.pairs):
            raise taken(path)
        return record

    def texts(self, found: GeometryRecord | None) -> Iterable[str]:
        """See `Suite.texts`."""
        if found is None:
            yield from self.pairs.first
            yield from self.pairs.second

    def judge(
        self, encoder: TextEncoder, found: GeometryRecord | None
    ) -> Iterator[tuple[GeometryRecord, str]]:
        """See `Suite.judge`."""
        record = judge_geometry(encoder, self.pairs, command=self.options.command)
        figures = record.estimate.geometry
        yield record, f"alignment {figures.alignment:.3f}, uniformity {figures.uniformity:.3f}"

    def write(self, record: GeometryRecord, folder: Path) -> Path:
        """See `Suite.write`."""
        return write_geometry(record, folder)

    def tables(self, records: Sequence[GeometryRecord]) -> list[Table]:
        """See `Suite.tables`."""
        return [geometry_table(records)]


def _load(name: str, split: str, options: Options) -> ScoredPairs:
    return load_scored_pairs(name, split=split, data_dir=options.data_dir, check_rows=options.check_rows)
