"""Transfer tasks: classifiers on frozen sentence vectors, as in SentEval."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentemb._lazy import lazy_exports

if TYPE_CHECKING:
    from sentemb.evaluation.transfer.presets import PRESETS
    from sentemb.evaluation.transfer.suite import TaskResult, TransferReport, evaluate_transfer
    from sentemb.evaluation.transfer.tasks import TASKS, TRANSFER_TASKS, load_tasks
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "presets": ["PRESETS"],
            "suite": ["TaskResult", "TransferReport", "evaluate_transfer"],
            "tasks": ["TASKS", "TRANSFER_TASKS", "load_tasks"],
        },
    )

__all__ = [
    "PRESETS",
    "TASKS",
    "TRANSFER_TASKS",
    "TaskResult",
    "TransferReport",
    "evaluate_transfer",
    "load_tasks",
]
