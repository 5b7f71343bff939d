"""Train, judge and serve sentence embeddings on top of sentence-transformers."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sentemb.encoding import load_encoder
    from sentemb.errors import InputError
    from sentemb.evaluation import STSEvaluator, evaluate_sts
    from sentemb.losses import SelfGuidedLoss, SimCSELoss
    from sentemb.modules import build_encoder
    from sentemb.search import SearchIndex
    from sentemb.training import SentembTrainer, resolve, train

__version__ = "0.1.0"

# Name to module: torch, faiss and the like are imported when a name that needs them is.
_HOMES = {
    "InputError": "errors",
    "STSEvaluator": "evaluation",
    "SearchIndex": "search",
    "SelfGuidedLoss": "losses",
    "SentembTrainer": "training",
    "SimCSELoss": "losses",
    "build_encoder": "modules",
    "evaluate_sts": "evaluation",
    "load_encoder": "encoding",
    "resolve": "training",
    "train": "training",
}

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
    "load_encoder",
    "resolve",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
