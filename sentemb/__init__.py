"""Train, judge and serve sentence embeddings on top of sentence-transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentemb._lazy import lazy_exports

__version__ = "0.1.0"

if TYPE_CHECKING:
    from sentemb.encoding import load_encoder
    from sentemb.errors import InputError
    from sentemb.evaluation import STSEvaluator, evaluate_sts
    from sentemb.losses import SelfGuidedLoss, SimCSELoss
    from sentemb.modules import build_encoder, load
    from sentemb.search import SearchIndex
    from sentemb.training import SentembTrainer, resolve, train
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "encoding": ["load_encoder"],
            "errors": ["InputError"],
            "evaluation": ["STSEvaluator", "evaluate_sts"],
            "losses": ["SelfGuidedLoss", "SimCSELoss"],
            "modules": ["build_encoder", "load"],
            "search": ["SearchIndex"],
            "training": ["SentembTrainer", "resolve", "train"],
        },
    )

__all__ = [
    "InputError",
    "STSEvaluator",
    "SearchIndex",
    "SelfGuidedLoss",
    "SentembTrainer",
    "SimCSELoss",
    "__version__",
    "build_encoder",
    "evaluate_sts",
    "load",
    "load_encoder",
    "resolve",
    "train",
]
