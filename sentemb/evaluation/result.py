"""A result: one model on one suite, with everything that decided the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sentemb.evaluation.environment import hardware, library_versions
from sentemb.evaluation.measures import Protocol
from sentemb.evaluation.record_files import slug
from sentemb.evaluation.scoring import Correlations, SetScore
from sentemb.evaluation.sts import StsReport, average
from sentemb.evaluation.suites import STS, Suite, get_suite


@dataclass(frozen=True, eq=False, kw_only=True)
class ResultRecord:
    """One model on one suite, with everything that decided the numbers.

    Attributes:
        model: The model's name.
        fingerprint: The model's fingerprint.
        dimension: Length of its vectors.
        suite: `sts` or `multilingual`.
        protocol: The protocol that tables show first; the scores hold all that exist.
        seed: The seed the model was trained with, None where it is unknown or there is none.
        sets: Scores and predictions.
        sentences: Sentences in all pairs, repeats counted.
        unique: Sentences encoded.
        encoder: How vectors were made: backend, precision, ….
        versions: Versions of Python and the libraries.
        hardware: The machine.
        date: When, ISO 8601 in UTC.
        seconds: Wall time of `encode` and of `score`.
        command: The command line, None from Python.
    """

    model: str
    fingerprint: str
    dimension: int
    suite: str
    protocol: Protocol
    seed: int | None
    sets: tuple[SetScore, ...]
    sentences: int
    unique: int
    encoder: Mapping[str, Any]
    versions: Mapping[str, str]
    hardware: Mapping[str, Any]
    date: str
    seconds: Mapping[str, float]
    command: tuple[str, ...] | None

    def scores(self, protocol: Protocol) -> dict[str, Correlations]:
        """Correlations x 100 by set; a set that this protocol is not defined on is left out."""
        return {one.name: one.scores[protocol] for one in self.sets if protocol in one.scores}

    def average(self, protocol: Protocol) -> Correlations | None:
        """The mean over the suite's sets: the papers' seven, or the tracks of SemEval-2017."""
        return average(self.scores(protocol), get_suite(self.suite).sets)

    @property
    def file_name(self) -> str:
        """Name of the JSON file."""
        return file_name_of(self.model, suite=self.suite, protocol=self.protocol, seed=self.seed)


def record_of(
    report: StsReport,
    *,
    suite: Suite = STS,
    protocol: Protocol | None = None,
    seed: int | None = None,
    command: Sequence[str] | None = None,
) -> ResultRecord:
    """Make a record of a report, with this machine and this moment."""
    return ResultRecord(
        model=report.model,
        fingerprint=report.fingerprint,
        dimension=report.dimension,
        suite=suite.name,
        protocol=protocol or suite.protocol,
        seed=seed,
        sets=report.sets,
        sentences=report.sentences,
        unique=report.unique,
        encoder=report.encoder,
        versions=library_versions(),
        hardware=hardware(),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=report.seconds,
        command=None if command is None else tuple(command),
    )


def file_name_of(model: str, *, suite: str = STS.name, protocol: Protocol, seed: int | None) -> str:
    """Name of a record's JSON file: model, suite, protocol and seed."""
    numbered = "" if seed is None else f".seed-{seed}"
    return f"{slug(model)}.{suite}.{protocol}{numbered}.json"
