"""Files of heads next to an encoder, and of modules of sentemb: a configuration and safetensors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from sentemb._compat import Module
from sentemb._files import read_json, write_json
from sentemb.errors import InputError

_CONFIG = "config.json"
_MODULE_VERSION = 1
_MODULE_WEIGHTS = "model.safetensors"
_DAMAGED = "save or download the model again"


@dataclass(frozen=True)
class HeadFolder:
    """The folder next to an encoder in which a kind of model stores its heads."""

    kind: str  # of model, in messages
    name: str  # of the folder
    weights: str  # name of the file
    schema: type[BaseModel]
    version: int
    hint: str  # the next step if the folder is missing or damaged

    def write(self, folder: Path, heads: nn.Module, config: dict[str, Any]) -> None:
        """Write heads and their configuration into the folder of an encoder."""
        (folder / self.name).mkdir()
        save_weights(heads, folder / self.name / self.weights)
        write_config(folder / self.name / _CONFIG, config, version=self.version)

    def read_config(self, folder: Path) -> Any:
        """Read and check a configuration."""
        path = folder / self.name / _CONFIG
        if not path.is_file():
            raise InputError(f"{folder} is not a {self.kind}: {self.name}/{_CONFIG} is missing", self.hint)
        config = read_config(path, version=self.version, hint=self.hint)
        try:
            return self.schema.model_validate(config, strict=True)
        except ValidationError:
            raise InputError(f"{path} is not a valid configuration of a {self.kind}", self.hint) from None

    @contextmanager
    def reading(self, folder: Path) -> Iterator[None]:
        """Add the name of the file to errors about the content of the configuration."""
        path = folder / self.name / _CONFIG
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
        raise InputError(f"the weights in {path} do not match its {_CONFIG}", hint)
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


class SentembModule(Module):
    """A module on sentence vectors whose folder only `sentemb.load` can read."""

    dimension: int

    def get_embedding_dimension(self) -> int:
        """Return the length of a vector, which the module does not change."""
        return self.dimension

    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        """Write configuration and weights (safetensors) into the module's folder."""
        config = {"loaded_by": "sentemb.load", **self.get_config_dict()}
        write_config(Path(output_path, _CONFIG), config, version=_MODULE_VERSION)
        save_weights(self, Path(output_path, _MODULE_WEIGHTS))

    @classmethod
    def load(
        cls,
        model_name_or_path: str,
        subfolder: str = "",
        token: bool | str | None = None,
        cache_folder: str | None = None,
        revision: str | None = None,
        local_files_only: bool = False,
        **kwargs: Any,
    ) -> Self:
        """Read what `save` wrote; the arguments are those of sentence-transformers' modules."""
        folder = cls.load_dir_path(
            model_name_or_path, subfolder, token, cache_folder, revision, local_files_only
        )
        config_file = Path(folder or Path(model_name_or_path, subfolder), _CONFIG)
        config = read_config(config_file, version=_MODULE_VERSION, hint=_DAMAGED)
        if missing := [key for key in cls.config_keys if key not in config]:
            raise InputError(f"{config_file} lacks {', '.join(missing)}", _DAMAGED)
        module = cls(**{key: config[key] for key in cls.config_keys})
        load_weights(module, config_file.with_name(_MODULE_WEIGHTS), hint=_DAMAGED)
        return module
