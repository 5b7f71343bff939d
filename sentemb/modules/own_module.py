"""Base class of the modules that plain sentence-transformers cannot load."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from sentemb._compat import Module
from sentemb.errors import InputError
from sentemb.modules.head_files import CONFIG_FILE, load_weights, read_config, save_weights, write_config

_VERSION = 1
_WEIGHTS_FILE = "model.safetensors"
_DAMAGED = "save or download the model again"


class OwnModule(Module):
    """A module on sentence vectors whose folder only `sentemb.load` can read."""

    dimension: int

    def get_embedding_dimension(self) -> int:
        """Return the length of a vector, which the module does not change."""
        return self.dimension

    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        """Write configuration and weights (safetensors) into the module's folder."""
        folder = Path(output_path)
        write_config(
            folder / CONFIG_FILE, {"loaded_by": "sentemb.load", **self.get_config_dict()}, version=_VERSION
        )
        save_weights(self, folder / _WEIGHTS_FILE)

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
        config_file = Path(folder or Path(model_name_or_path, subfolder), CONFIG_FILE)
        config = read_config(config_file, version=_VERSION, hint=_DAMAGED)
        if missing := [key for key in cls.config_keys if key not in config]:
            raise InputError(f"{config_file} lacks {', '.join(missing)}", _DAMAGED)
        module = cls(**{key: config[key] for key in cls.config_keys})
        load_weights(module, config_file.with_name(_WEIGHTS_FILE), hint=_DAMAGED)
        return module
