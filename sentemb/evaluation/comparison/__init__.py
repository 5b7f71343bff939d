"""Is one encoder better than another, or was it these items and these seeds?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentemb._lazy import lazy_exports

if TYPE_CHECKING:
    from sentemb.evaluation.comparison.dependent import steiger, williams
    from sentemb.evaluation.comparison.differences import Comparison, Difference, compare
    from sentemb.evaluation.comparison.runs import Runs, sts_runs, transfer_runs
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "differences": ["Comparison", "Difference", "compare"],
            "dependent": ["steiger", "williams"],
            "runs": ["Runs", "sts_runs", "transfer_runs"],
        },
    )

__all__ = ["Comparison", "Difference", "Runs", "compare", "steiger", "sts_runs", "transfer_runs", "williams"]
