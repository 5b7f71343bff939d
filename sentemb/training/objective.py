"""The loss of a configuration, its options checked against the loss's own signature."""

from __future__ import annotations

import inspect
from typing import Any, get_type_hints

from torch import nn

import sentemb.losses
from sentemb._compat import get_world_size
from sentemb._files import sha256_of
from sentemb.errors import InputError, unknown
from sentemb.losses import GradientCache, SelfGuidedLoss, SimCSELoss, ViewCache, cached
from sentemb.training.config import EncoderConfig
from sentemb.training.config.checks import checked, plain
from sentemb.training.own_loss import is_own, loss_file, own_loss_class

_NOT_AN_OPTION = "view_cache"  # which cannot be written in a file
_MINI_BATCH = "mini_batch_size"  # an option of every loss that a gradient cache can wrap


def loss_class(name: str) -> type[nn.Module]:
    """Look a loss up, among sentemb's or in a file."""
    if is_own(name):
        return own_loss_class(name)
    names = [known for known in dir(sentemb.losses) if known.endswith("Loss") and known != "EncoderLoss"]
    if name not in names:
        raise unknown("loss", name, [*names, "FILE.py:CLASS"])
    found: type[nn.Module] = getattr(sentemb.losses, name)
    return found


def takes_head(loss: str) -> bool:
    """Whether a loss trains a classification head with the encoder."""
    head = inspect.signature(loss_class(loss)).parameters.get("head")
    return head is not None and head.default is head.empty


def check_loss_options(config: EncoderConfig, *, cacheable: bool = True) -> dict[str, Any]:
    """Check the options of a configuration's loss by name and type; `mini_batch_size` is its cache's."""
    chosen = loss_class(config.loss)
    parameters = list(inspect.signature(chosen).parameters.values())
    # What has no default, the model and a classification head, is the run's own.
    known = [one.name for one in parameters if one.default is not one.empty and one.name != _NOT_AN_OPTION]
    takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters)
    types = get_type_hints(chosen.__init__)
    if cacheable and _MINI_BATCH not in known:
        known.append(_MINI_BATCH)
        types[_MINI_BATCH] = int
    options = {}
    for name, value in config.loss_options.items():
        if name not in known and not takes_any:
            raise unknown(f"option of {chosen.__name__}", name, known)
        options[name] = checked(f"loss_options.{name}", value, types.get(name, Any))
    return options


def build_loss(
    config: EncoderConfig,
    model: nn.Module,
    *parts: nn.Module,
    view_cache: ViewCache | None = None,
    whole_pass: bool = True,
) -> nn.Module:
    """Build the loss of a configuration, in a gradient cache where it has a `mini_batch_size`."""
    chosen = loss_class(config.loss)
    options = check_loss_options(config)
    mini_batch_size = None if _takes_mini_batches(chosen) else options.pop(_MINI_BATCH, None)
    if issubclass(chosen, SelfGuidedLoss):
        options["view_cache"] = view_cache
        if not whole_pass:
            options.setdefault("views", "online")
    try:
        loss: nn.Module = chosen(model, *parts, **options)
    except TypeError as error:
        if not is_own(config.loss):
            raise
        raise InputError(
            f"{config.loss}: {error}", "a loss must be callable as Loss(model, **options)"
        ) from error
    return cached(loss, mini_batch_size)


def _takes_mini_batches(loss: type[nn.Module]) -> bool:
    """Whether a loss has a `mini_batch_size` of its own, as upstream's cached losses do."""
    return _MINI_BATCH in inspect.signature(loss).parameters


def describe_loss(name: str, loss: nn.Module) -> dict[str, Any]:
    """What a run's record says of its loss."""
    settings: dict[str, Any] = getattr(loss, "get_config_dict", dict)()
    described = {"name": type(loss).__name__ if is_own(name) else name}
    described |= {key: plain(value) for key, value in settings.items()}
    return described | ({"sha256": sha256_of(loss_file(name))} if is_own(name) else {})


def citation_of(loss: nn.Module) -> str:
    """BibTeX of a loss, empty where it names none."""
    return str(getattr(loss, "citation", ""))


def negatives_per_anchor(loss: nn.Module, *, batch_size: int, columns: int) -> int | None:
    """How many negatives an anchor of a full batch meets; None for a loss of the user's own."""
    loss = loss.loss if isinstance(loss, GradientCache) else loss
    if not type(loss).__module__.startswith("sentemb."):
        return None
    gathered = getattr(loss, "gather_across_devices", False)
    rows = batch_size if gathered else batch_size // get_world_size()
    if isinstance(loss, SelfGuidedLoss):
        views = len(loss.frozen.layers) if loss.objective == "opt3" else 1
        dropped = int(loss.objective == "opt2" and loss.preset == "released")
        sides = 2 if loss.objective in ("base", "opt1") else 1
        negatives = (rows - 1) * views * sides - dropped
    elif isinstance(loss, SimCSELoss):
        negatives = rows - 1 + rows * max(0, columns - 2)
    else:
        negatives = rows - 1
    if negatives < 1:
        raise InputError(
            f"with batch_size {batch_size} no anchor has a negative", "choose a larger --batch-size"
        )
    return negatives
