"""The options of a classifier's parts, checked before anything is read or trained."""

from __future__ import annotations

from sentemb.errors import InputError
from sentemb.training.config import ClassifierConfig
from sentemb.training.objective import check_loss_options, takes_head


def check_options(config: ClassifierConfig) -> None:
    """Check names and types of all options, and that they are of use to the loss."""
    check_loss_options(config)
    if takes_head(config.loss):
        if config.probe_options:
            raise InputError(
                f"{config.loss} trains the head itself, there is no second stage for probe_options",
                "leave them out, or take the recipe supcl-seq",
            )
        if config.self_supervised:
            raise InputError(f"{config.loss} needs the labels", "leave self_supervised out")
    elif config.head != "linear":
        raise InputError(
            f"{config.loss} trains no head, and {config.head} cannot be fitted to a frozen encoder",
            "take the head linear, or another loss",
        )
