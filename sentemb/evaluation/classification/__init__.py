"""Judging classifiers: protocols of the papers, cells that are run once, tables with significance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentemb._lazy import lazy_exports

if TYPE_CHECKING:
    from sentemb.evaluation.classification.cell import (
        Cell,
        Describe,
        FitPredict,
        Method,
        Outcome,
        Point,
        Splits,
    )
    from sentemb.evaluation.classification.draws import ImpossibleDraw
    from sentemb.evaluation.classification.metrics import TASKS, Task, best_runs, task_of
    from sentemb.evaluation.classification.records import CellRecord, read_cell, read_cells
    from sentemb.evaluation.classification.sets import ProtocolData
    from sentemb.evaluation.classification.significance import Comparison, compare
    from sentemb.evaluation.classification.study import Study
    from sentemb.evaluation.classification.summary import Summary, curves, summarize
    from sentemb.evaluation.classification.tables import class_table, comparison_table, study_table
    from sentemb.evaluation.classification.verdicts import judge
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "cell": ["Cell", "Describe", "FitPredict", "Method", "Outcome", "Point", "Splits"],
            "draws": ["ImpossibleDraw"],
            "metrics": ["TASKS", "Task", "best_runs", "task_of"],
            "records": ["CellRecord", "read_cell", "read_cells"],
            "sets": ["ProtocolData"],
            "significance": ["Comparison", "compare"],
            "study": ["Study"],
            "summary": ["Summary", "curves", "summarize"],
            "tables": ["class_table", "comparison_table", "study_table"],
            "verdicts": ["judge"],
        },
    )

__all__ = [
    "TASKS",
    "Cell",
    "CellRecord",
    "Comparison",
    "Describe",
    "FitPredict",
    "ImpossibleDraw",
    "Method",
    "Outcome",
    "Point",
    "ProtocolData",
    "Splits",
    "Study",
    "Summary",
    "Task",
    "best_runs",
    "class_table",
    "compare",
    "comparison_table",
    "curves",
    "judge",
    "read_cell",
    "read_cells",
    "study_table",
    "summarize",
    "task_of",
]
