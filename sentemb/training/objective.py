"""The loss of a configuration, of sentemb or in a file, its options checked against its signature."""

from __future__ import annotations

import inspect
import runpy
import traceback
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

from torch import nn

import sentemb.losses
from sentemb._compat import get_world_size
from sentemb._files import sha256_of
from sentemb.errors import InputError, unknown
from sentemb.losses import GradientCache, SelfGuidedLoss, SimCSELoss, ViewCache, cached
from sentemb.training.config import EncoderConfig
from sentemb.training.config.base import checked, plain

_MINI_BATCH = "mini_batch_size"  # an option of every loss that a gradient cache can wrap


def loss_class(name: str) -> type[nn.Module]:
    """Return a loss of sentemb's, or one of a file, which runs as any module that is imported."""
    if ":" not in name:
        names = [known for known in dir(sentemb.losses) if known.endswith("Loss") and known != "EncoderLoss"]
        if name not in names:
            raise unknown("loss", name, [*names, "FILE.py:CLASS"])
        found: type[nn.Module] = getattr(sentemb.losses, name)
        return found
    path, wanted = _file_of(name), name.rpartition(":")[2]
    values = _run(path).items()
    losses = {key: one for key, one in values if isinstance(one, type) and issubclass(one, nn.Module)}
    if wanted in losses:
        return losses[wanted]
    own = [key for key, one in losses.items() if one.__module__ == path.stem]
    if own:
        raise unknown(f"loss in {path}", wanted, own)
    raise InputError(
        f"{path} does not define {wanted or 'a loss'}", "define it as a subclass of torch.nn.Module"
    )


def takes_head(loss: str) -> bool:
    """Return whether a loss trains a classification head with the encoder."""
    head = inspect.signature(loss_class(loss)).parameters.get("head")
    return head is not None and head.default is head.empty


def check_loss_options(config: EncoderConfig, *, cacheable: bool = True) -> dict[str, Any]:
    """Check the options of a configuration's loss by name and type; `mini_batch_size` is its cache's."""
    chosen = loss_class(config.loss)
    parameters = inspect.signature(chosen).parameters.values()
    # The run sets the parameters without a default (model, classification head) and the view cache itself.
    known = [one.name for one in parameters if one.default is not one.empty and one.name != "view_cache"]
    types = get_type_hints(chosen.__init__)
    if cacheable and _MINI_BATCH not in known:
        known.append(_MINI_BATCH)
        types[_MINI_BATCH] = int
    if not any(one.kind is one.VAR_KEYWORD for one in parameters):
        for name in sorted(config.loss_options.keys() - set(known)):
            raise unknown(f"option of {chosen.__name__}", name, known)
    return {
        name: checked(f"loss_options.{name}", value, types.get(name, Any))
        for name, value in config.loss_options.items()
    }


def build_loss(
    config: EncoderConfig,
    model: nn.Module,
    *parts: nn.Module,
    view_cache: ViewCache | None = None,
    whole_pass: bool = True,
) -> nn.Module:
    """Build the loss of a configuration, in a gradient cache if it has a `mini_batch_size`."""
    chosen, options = loss_class(config.loss), check_loss_options(config)
    # Upstream's cached losses have one of their own.
    has_own = _MINI_BATCH in inspect.signature(chosen).parameters
    mini_batch_size = None if has_own else options.pop(_MINI_BATCH, None)
    if issubclass(chosen, SelfGuidedLoss):
        options["view_cache"] = view_cache
        if not whole_pass:
            options.setdefault("views", "online")
    try:
        loss: nn.Module = chosen(model, *parts, **options)
    except TypeError as error:
        if ":" not in config.loss:
            raise
        hint = "a loss must be callable as Loss(model, **options)"
        raise InputError(f"{config.loss}: {error}", hint) from error
    return cached(loss, mini_batch_size)


def describe_loss(name: str, loss: nn.Module) -> dict[str, Any]:
    """Return what a run's record says of its loss."""
    settings: dict[str, Any] = getattr(loss, "get_config_dict", dict)()
    own = {"sha256": sha256_of(_file_of(name))} if ":" in name else {}
    described = {"name": type(loss).__name__ if own else name}
    return described | {key: plain(value) for key, value in settings.items()} | own


def citation_of(loss: nn.Module) -> str:
    """Return the BibTeX of a loss, empty if it names none."""
    return str(getattr(loss, "citation", ""))


def negatives_per_anchor(loss: nn.Module, *, batch_size: int, columns: int) -> int | None:
    """Return how many negatives an anchor of a full batch meets; None for a loss of the user's own."""
    loss = loss.loss if isinstance(loss, GradientCache) else loss
    if not type(loss).__module__.startswith("sentemb."):
        return None
    rows = batch_size if getattr(loss, "gather_across_devices", False) else batch_size // get_world_size()
    negatives = rows - 1
    if isinstance(loss, SelfGuidedLoss):
        views = len(loss.frozen.layers) if loss.objective == "opt3" else 1
        sides = 2 if loss.objective in ("base", "opt1") else 1
        negatives *= views * sides
        negatives -= loss.objective == "opt2" and loss.preset == "released"
    elif isinstance(loss, SimCSELoss):
        negatives += rows * max(0, columns - 2)
    if negatives < 1:
        raise InputError(
            f"with batch_size {batch_size} no anchor has a negative", "choose a larger --batch-size"
        )
    return negatives


def _file_of(name: str) -> Path:
    path = Path(name.rpartition(":")[0]).expanduser()
    if not path.is_file():
        raise InputError(f"no such file: {path}", "specify a loss as FILE.py:CLASS")
    return path.resolve()


@cache
def _run(path: Path) -> dict[str, Any]:
    """Run a file once, and return what it defines."""
    try:
        return runpy.run_path(str(path), run_name=path.stem)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [1, *(frame.lineno or 1 for frame in frames if frame.filename == str(path))]
        line = getattr(error, "lineno", None) or lines[-1]
        raise InputError(f"{path}:{line}: {type(error).__name__}: {error}", "fix the file") from error
