"""Masked-language-model pre-training of a base model from plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentemb._lazy import lazy_exports

if TYPE_CHECKING:
    from sentemb.pretraining.config import PretrainConfig
    from sentemb.pretraining.run import pretrain, save_model
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "config": ["PretrainConfig"],
            "run": ["pretrain", "save_model"],
        },
    )

__all__ = ["PretrainConfig", "pretrain", "save_model"]
