"""One encoder that serves several tasks: sentiment, paraphrase and similarity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentemb._lazy import lazy_exports

if TYPE_CHECKING:
    from sentemb.multitask.config import MultiTaskConfig
    from sentemb.multitask.data import load_task_sets, read_nli_columns
    from sentemb.multitask.ensemble import TaskEnsemble
    from sentemb.multitask.evaluation import evaluate_tasks
    from sentemb.multitask.fit import MultiTaskRun, fit_multitask
    from sentemb.multitask.heads import TaskHeads
    from sentemb.multitask.model import MultiTaskModel
    from sentemb.multitask.pcgrad import GradientSurgery, project_conflicts
    from sentemb.multitask.recipes import ROWS, resolve_multitask
    from sentemb.multitask.tasks import TASKS, TaskSets
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "config": ["MultiTaskConfig"],
            "data": ["load_task_sets", "read_nli_columns"],
            "ensemble": ["TaskEnsemble"],
            "evaluation": ["evaluate_tasks"],
            "fit": ["MultiTaskRun", "fit_multitask"],
            "heads": ["TaskHeads"],
            "model": ["MultiTaskModel"],
            "pcgrad": ["GradientSurgery", "project_conflicts"],
            "recipes": ["ROWS", "resolve_multitask"],
            "tasks": ["TASKS", "TaskSets"],
        },
    )

__all__ = [
    "ROWS",
    "TASKS",
    "GradientSurgery",
    "MultiTaskConfig",
    "MultiTaskModel",
    "MultiTaskRun",
    "TaskEnsemble",
    "TaskHeads",
    "TaskSets",
    "evaluate_tasks",
    "fit_multitask",
    "load_task_sets",
    "project_conflicts",
    "read_nli_columns",
    "resolve_multitask",
]
