"""The files of heads that stand beside an encoder: a configuration and safetensors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from sentemb._files import read_json, write_json
from sentemb.errors import InputError

CONFIG_FILE = "config.json"


@dataclass(frozen=True)
class HeadFolder:
    """The folder beside an encoder in which a kind of model keeps its heads.

    Args:
        kind: What messages call the model.
        name: The folder's name.
        weights: The name of the file of weights.
        schema: What the configuration holds.
        version: Of the format.
        hint: What to do about a folder that is missing or damaged.
    """

    kind: str
    name: str
    weights: str
    schema: type[BaseModel]
    version: int
    hint: str

    def write(self, folder: Path, heads: nn.Module, config: dict[str, Any]) -> None:
        """Write heads and their configuration into the folder of an encoder."""
        (folder / self.name).mkdir()
        save_weights(heads, folder / self.name / self.weights)
        write_config(folder / self.name / CONFIG_FILE, config, version=self.version)

    def read_config(self, folder: Path) -> Any:
        """Read and check a configuration."""
        path = folder / self.name / CONFIG_FILE
        if not path.is_file():
            raise InputError(
                f"{folder} holds no {self.kind}: there is no {self.name}/{CONFIG_FILE} in it", self.hint
            )
        config = read_config(path, version=self.version, hint=self.hint)
        try:
            return self.schema.model_validate(config, strict=True)
        except ValidationError:
            raise InputError(f"{path} is no configuration of a {self.kind}", self.hint) from None

    def load_weights(self, folder: Path, heads: nn.Module) -> None:
        """Load the weights of heads that were built by the configuration."""
        load_weights(heads, folder / self.name / self.weights, hint=self.hint)


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
