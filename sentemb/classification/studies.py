"""The papers' experiments with the classifiers of this package."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from sentemb.classification.cells import check_method, fit_predict
from sentemb.evaluation.classification.cell import Method
from sentemb.evaluation.classification.protocols import Protocol, write_tables
from sentemb.evaluation.classification.records import CellRecord
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
    command: Sequence[str] | None = None,
) -> list[CellRecord]:
    """Run what an experiment still lacks, and write its tables beside the records.

    Args:
        protocol: The experiment.
        methods: The methods.
        sets: Names of labelled sets.
        data: Where they are and how they are cut.
        folder: For records and tables.
        baseline: The method that the others are compared with.
        jobs: How many processes run cells.
        say: Takes a line on each cell.
        command: The command line, for the records.

    Returns:
        The records of all cells.

    Raises:
        InputError: A method, a set or an option cannot be used.
    """
    cells = protocol.cells(methods, sets)
    for method in dict.fromkeys(cell.method for cell in cells):
        check_method(method)
    study = Study(folder, fit_predict, data, jobs=jobs, say=say, command=command)
    records = study.run(cells)
    write_tables(protocol.tables(records, baseline=baseline), folder)
    return records
