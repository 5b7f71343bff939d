"""Configurations: one typed model per kind of run, from which TOML, flags, help and checks all come.

Importing this imports no torch.
"""

from __future__ import annotations

from sentemb.training.config.base import CheckedModel, EncoderConfig, OptionValue, RunConfig
from sentemb.training.config.classifier import ClassifierConfig, Metric, ProbeOptions
from sentemb.training.config.contrastive import TrainConfig
from sentemb.training.config.multitask import MultiTaskConfig
from sentemb.training.config.pairs import PairsConfig
from sentemb.training.config.pretraining import PretrainConfig
from sentemb.training.config.transforms import FlowConfig, FlowRunConfig, WhiteningRunConfig

__all__ = [
    "CheckedModel",
    "ClassifierConfig",
    "EncoderConfig",
    "FlowConfig",
    "FlowRunConfig",
    "Metric",
    "MultiTaskConfig",
    "OptionValue",
    "PairsConfig",
    "PretrainConfig",
    "ProbeOptions",
    "RunConfig",
    "TrainConfig",
    "WhiteningRunConfig",
]
