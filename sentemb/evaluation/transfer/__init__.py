"""Transfer tasks: classifiers on frozen sentence vectors, as in SentEval."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentemb._lazy import lazy_exports

if TYPE_CHECKING:
    from sentemb.evaluation.transfer.adapter import senteval_adapter
    from sentemb.evaluation.transfer.presets import PRESETS
    from sentemb.evaluation.transfer.relatedness import RelatednessResult
    from sentemb.evaluation.transfer.suite import TaskResult, TransferReport, evaluate_transfer
    from sentemb.evaluation.transfer.tasks import (
        PROBING_TASKS,
        RELATEDNESS_TASKS,
        TASKS,
        TRANSFER_TASKS,
        load_relatedness,
        load_tasks,
    )
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "adapter": ["senteval_adapter"],
            "presets": ["PRESETS"],
            "relatedness": ["RelatednessResult"],
            "suite": ["TaskResult", "TransferReport", "evaluate_transfer"],
            "tasks": [
                "PROBING_TASKS",
                "RELATEDNESS_TASKS",
                "TASKS",
                "TRANSFER_TASKS",
                "load_relatedness",
                "load_tasks",
            ],
        },
    )

__all__ = [
    "PRESETS",
    "PROBING_TASKS",
    "RELATEDNESS_TASKS",
    "TASKS",
    "TRANSFER_TASKS",
    "RelatednessResult",
    "TaskResult",
    "TransferReport",
    "evaluate_transfer",
    "load_relatedness",
    "load_tasks",
    "senteval_adapter",
]
