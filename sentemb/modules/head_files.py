"""The files of heads that stand beside an encoder: a configuration and safetensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from sentemb._files import read_json, write_json
from sentemb.errors import InputError

CONFIG_FILE = "config.json"


def save_weights(heads: nn.Module, path: Path) -> None:
    """Write the weights of heads."""
    save_file({name: tensor.detach().cpu().contiguous() for name, tensor in heads.state_dict().items()}, path)


def load_weights(heads: nn.Module, path: Path, *, hint: str) -> None:
    """Load what `save_weights` wrote."""
    try:
        weights = load_file(path)
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path} cannot be read: {error}", hint) from error
    if _shapes(weights) != _shapes(heads.state_dict()):
        raise InputError(f"{path} holds other weights than its {CONFIG_FILE} says", hint)
    heads.load_state_dict(weights)


def write_config(path: Path, config: dict[str, Any], *, version: int) -> None:
    """Write a configuration with the version of its format."""
    write_json(path, {"version": version, **config})


def read_config(path: Path, *, version: int, hint: str) -> dict[str, Any]:
    """Read what `write_config` wrote."""
    config = read_json(path)
    found = config.get("version") if isinstance(config, dict) else None
    if isinstance(found, int) and found > version:
        raise InputError(f"{path} is of version {found}, this sentemb reads {version}", "update sentemb")
    if found != version:
        raise InputError(f"{path} has no version", hint)
    return dict(config)


def _shapes(weights: dict[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in weights.items()}
