"""Masked-language-model pre-training of a base model from plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sentemb.pretraining.config import PretrainConfig
    from sentemb.pretraining.run import pretrain, save_model

__all__ = ["PretrainConfig", "pretrain", "save_model"]


def __getattr__(name: str) -> Any:
    if name == "PretrainConfig":
        from sentemb.pretraining.config import PretrainConfig

        return PretrainConfig
    if name in ("pretrain", "save_model"):
        from sentemb.pretraining import run

        return getattr(run, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
