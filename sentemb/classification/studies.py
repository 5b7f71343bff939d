"""The papers' experiments with the classifiers of this package."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from sentemb.classification.cells import describe, fit_predict
from sentemb.evaluation.classification.cell import Method
from sentemb.evaluation.classification.protocols import Protocol, write_tables
from sentemb.evaluation.classification.records import read_cells
from sentemb.evaluation.classification.sets import ProtocolData
from sentemb.evaluation.classification.study import Study


def run_protocol(
    protocol: Protocol,
    methods: Sequence[Method],
    sets: Sequence[str],
    *,
    data: ProtocolData,
    folder: Path,
    baseline: str = "ce",
    jobs: int = 1,
    say: Callable[[str], None],
) -> Path:
    """Run what an experiment still lacks, and make its tables of all its records in the folder."""
    study = Study(folder, fit_predict, describe, data, jobs=jobs, say=say)
    study.run(protocol.cells(methods, sets))
    return write_tables(protocol, read_cells([folder]), folder, baseline=baseline)
