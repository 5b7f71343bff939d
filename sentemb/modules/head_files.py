"""Files of heads stored next to an encoder: a configuration and safetensors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
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
    """The folder next to an encoder in which a kind of model stores its heads.

    Args:
        kind: Name of the kind of model in messages.
        name: Name of the folder.
        weights: Name of the weights file.
        schema: Schema of the configuration.
        version: Version of the format.
        hint: The next step if the folder is missing or damaged.
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
                f"{folder} is not a {self.kind}: {self.name}/{CONFIG_FILE} is missing", self.hint
            )
        config = read_config(path, version=self.version, hint=self.hint)
        try:
            return self.schema.model_validate(config, strict=True)
        except ValidationError:
            raise InputError(f"{path} is not a valid configuration of a {self.kind}", self.hint) from None

    @contextmanager
    def reading(self, folder: Path) -> Iterator[None]:
        """Add the name of the file to errors about the content of the configuration."""
        path = folder / self.name / CONFIG_FILE
        try:
            yield
        except InputError as error:
            if str(folder) in error.message:
                raise
            raise InputError(f"{path}: {error.message}", self.hint) from error
        except (MemoryError, RuntimeError) as error:  # torch has no error of its own for sizes beyond memory
            reason = " ".join(str(error).split())
            raise InputError(f"{path} is not a valid configuration: {reason[:200]}", self.hint) from error

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
    if _kinds(weights) != _kinds(heads.state_dict()):
        raise InputError(f"the weights in {path} do not match its {CONFIG_FILE}", hint)
    if damaged := [name for name, tensor in weights.items() if not tensor.isfinite().all()]:
        raise InputError(f"the weight {damaged[0]} in {path} contains NaN or infinity", hint)
    heads.load_state_dict(weights)


def write_config(path: Path, config: dict[str, Any], *, version: int) -> None:
    """Write a configuration with the version of its format."""
    write_json(path, {"version": version, **config})


def read_config(path: Path, *, version: int, hint: str) -> dict[str, Any]:
    """Read what `write_config` wrote."""
    try:
        config = read_json(path)
    except InputError as error:
        raise InputError(error.message, hint) from error
    found = config.get("version") if isinstance(config, dict) else None
    if type(found) is int and found > version:
        raise InputError(
            f"{path} has the format version {found}, but this version of sentemb reads {version}",
            "update sentemb",
        )
    if type(found) is not int or found != version:
        raise InputError(f"{path} does not specify a format version", hint)
    return dict(config)


def _kinds(weights: dict[str, Tensor]) -> dict[str, tuple[Any, ...]]:
    return {name: (*tensor.shape, tensor.is_floating_point()) for name, tensor in weights.items()}
