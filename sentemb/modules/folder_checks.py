"""Checks of a model folder that name the missing or damaged file, which upstream often does not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from sentemb._files import read_json
from sentemb.errors import InputError

MODULES = "modules.json"
CONFIG = "config.json"
OPTIONS = "config_sentence_transformers.json"
AGAIN = "save or download the model again"

_LENGTHS = "sentence_*_config.json"
_ROUTER = "router_config.json"
_INDEX = "model.safetensors.index.json"
_OBJECTS = (CONFIG, OPTIONS, _LENGTHS, _INDEX, "tokenizer_config.json", "special_tokens_map.json")
# A string or 0 here causes an error that does not name the field, or a network without layers.
_COUNTS = ("hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers", "vocab_size")
_CONVERT = {
    False: "AutoModel.from_pretrained(folder).save_pretrained(folder)",
    True: "SentenceTransformer(folder).save_pretrained(folder)",
}
_WITHOUT_FILES = ".Normalize"


def check_folder(folder: Path) -> None:
    """Raise InputError if a configuration of the folder is damaged or names a missing file.

    Only small files are read; `damage_in` checks weights and vocabulary after loading has failed.

    Raises:
        InputError: The message names the file, and the field if there is one.
    """
    modules = read_modules(folder)
    if modules is None and ((folder / OPTIONS).exists() or any(folder.glob("[1-9]_*/config.json"))):
        raise InputError(f"{folder} is a sentence-transformers model, but its {MODULES} is missing", AGAIN)
    for place in _places(folder, modules):
        for pattern in _OBJECTS:
            for path in place.glob(pattern):
                read_object(path)
        if any(place.glob("pytorch_model*.bin")) and not any(place.glob("*.safetensors")):
            raise InputError(
                f"{place} contains pickled weights (pytorch_model.bin), which can execute code when loaded",
                f"if you trust it, convert it to model.safetensors with {_CONVERT[place != folder]}",
            )
    for module in modules or ():
        _check_module(folder, module)


def read_modules(folder: Path) -> list[dict[str, str]] | None:
    """Return the modules that a sentence-transformers folder lists; None if it does not list any."""
    path = folder / MODULES
    if not path.exists():
        return None
    modules = _read(path)
    if not isinstance(modules, list) or not modules:
        raise InputError(f"{path} does not list any modules", AGAIN)
    for module in modules:
        for field in ("name", "path", "type"):
            if not isinstance(module, dict) or not isinstance(module.get(field), str):
                raise InputError(f"{path}: the {field} of a module is missing or is not a string", AGAIN)
        if Path(module["path"]).is_absolute() or ".." in Path(module["path"]).parts:
            raise InputError(f"{path}: the path {module['path']!r} points outside the folder", AGAIN)
    if len({module["name"] for module in modules}) < len(modules):
        raise InputError(f"{path}: two modules have the same name", AGAIN)
    return modules


def read_object(path: Path) -> dict[str, Any]:
    """Read a configuration, which is a JSON object without impossible values."""
    content = _read(path)
    if not isinstance(content, dict):
        raise InputError(f"{path} is not a JSON object", AGAIN)
    for field, value in _wrong_values(path, content):
        raise InputError(f"{path}: {field} is {value!r}", AGAIN)
    return content


def module_folders(folder: Path) -> list[Path]:
    """Return the subfolders of a model folder that contain its modules."""
    return [place for place in _places(folder, read_modules(folder)) if place != folder and place.is_dir()]


def damage_in(folder: Path, error: Exception) -> str | None:
    """Describe the damaged file that explains why a folder could not be loaded; None if there is none."""
    culprit = error.args[0] if isinstance(error, KeyError) else getattr(error, "name", None)
    for place in _places(folder, read_modules(folder)):
        for path in place.glob("tokenizer.json"):
            read_object(path)
        for path in sorted(place.glob("*.safetensors")):
            try:
                with safe_open(path, framework="pt"):
                    pass
            except (OSError, SafetensorError) as error:
                return f"{path} cannot be read: {error}"
        if (place / _INDEX).exists() and (lost := _missing_shard(place / _INDEX)):
            return f"{place / lost} is missing"
        for path in (found for pattern in _OBJECTS for found in place.glob(pattern)):
            for field, value in read_object(path).items():
                if culprit is not None and value == culprit:
                    return f"{path}: {field} is {value!r}, which is not supported"
    return None


def _places(folder: Path, modules: list[dict[str, str]] | None) -> list[Path]:
    """Return the folder and those of its modules, each once, including the parts of a Router."""
    places = [folder, *(folder / module["path"] for module in modules or ())]
    for place in list(places):
        if (place / _ROUTER).is_file():
            parts = read_object(place / _ROUTER).get("types")
            places += [place / part for part in (parts if isinstance(parts, dict) else ())]
    return list(dict.fromkeys(places))


def _missing_shard(index: Path) -> str | None:
    shards = read_object(index).get("weight_map")
    names = sorted(set(map(str, shards.values()))) if isinstance(shards, dict) else []
    return next((name for name in names if not (index.parent / name).is_file()), None)


def _read(path: Path) -> Any:
    try:
        return read_json(path)
    except InputError as error:
        raise InputError(error.message, AGAIN) from error


def _wrong_values(path: Path, content: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    if path.name == CONFIG:
        counts = [field for field in _COUNTS if isinstance(content.get(field), str | int | float)]
        yield from ((field, content[field]) for field in counts if not _is_count(content[field]))
    elif path.match(_LENGTHS) and content.get("max_seq_length") is not None:
        if not _is_count(content["max_seq_length"]):
            yield "max_seq_length", content["max_seq_length"]
    elif path.name == OPTIONS:
        prompts = content.get("prompts", {})
        if not isinstance(prompts, dict) or not all(isinstance(text, str) for text in prompts.values()):
            yield "prompts", prompts


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _check_module(folder: Path, module: dict[str, str]) -> None:
    """Raise InputError if the folder of a module is missing, or a pooling lacks its mode."""
    place = folder / module["path"]
    if not place.is_dir() and not module["type"].endswith(_WITHOUT_FILES):
        raise InputError(f"{place} is missing, but {folder / MODULES} refers to it", AGAIN)
    if module["type"].endswith(".Pooling"):
        path = place / CONFIG
        content = read_object(path)
        if not any(content[field] for field in content if field.startswith("pooling_mode")):
            raise InputError(f"{path} does not specify a pooling_mode", AGAIN)
