"""Configurations: one typed model per kind of run, from which TOML, flags, help and checks all come.

Importing this imports no torch.
"""

from __future__ import annotations

from sentemb.training.config.base import CheckedModel as CheckedModel
from sentemb.training.config.base import EncoderConfig as EncoderConfig
from sentemb.training.config.base import OptionValue as OptionValue
from sentemb.training.config.base import RunConfig as RunConfig
from sentemb.training.config.encoders import ClassifierConfig as ClassifierConfig
from sentemb.training.config.encoders import Metric as Metric
from sentemb.training.config.encoders import PairsConfig as PairsConfig
from sentemb.training.config.encoders import ProbeOptions as ProbeOptions
from sentemb.training.config.encoders import TrainConfig as TrainConfig
from sentemb.training.config.multitask import MultiTaskConfig as MultiTaskConfig
from sentemb.training.config.pretraining import PretrainConfig as PretrainConfig
from sentemb.training.config.transforms import FlowConfig as FlowConfig
from sentemb.training.config.transforms import FlowRunConfig as FlowRunConfig
from sentemb.training.config.transforms import WhiteningRunConfig as WhiteningRunConfig
