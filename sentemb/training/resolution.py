"""From a recipe's name, a TOML file and flags to one checked configuration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from sentemb.errors import InputError
from sentemb.training.config import RunConfig, TrainConfig, field_types
from sentemb.training.recipes import Recipe, get_recipe
from sentemb.training.settings import option_tables, parse_settings
from sentemb.training.values import read_toml, unknown

Config = TypeVar("Config", bound=RunConfig)


def resolve(
    recipe: str,
    *,
    file: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    assignments: Mapping[str, str] | None = None,
) -> TrainConfig:
    """Fill a configuration: the recipe's defaults, over them the file, over that the flags.

    Args:
        recipe: Name of the recipe.
        file: TOML file with fields of `TrainConfig` and a table `[loss_options]`.
        overrides: Field name to value; `None` means "not given".
        assignments: Field name, or `loss_options.NAME`, to text as the user wrote it.

    Returns:
        The configuration.

    Raises:
        InputError: Unknown recipe, field or preset, a value of the wrong type, or no output.
    """
    return fill(TrainConfig, get_recipe(recipe), file=file, overrides=overrides, assignments=assignments)


def fill(
    kind: type[Config],
    recipe: Recipe,
    *,
    file: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    assignments: Mapping[str, str] | None = None,
) -> Config:
    """Fill a configuration of any kind; see `resolve`."""
    given = _read(kind, Path(file), recipe.name) if file is not None else {}
    layers = [given, {key: value for key, value in (overrides or {}).items() if value is not None}]
    layers.append(parse_settings(assignments or {}, kind))
    preset = next((layer["preset"] for layer in reversed(layers) if "preset" in layer), "paper")
    values = recipe.values(preset)
    types, tables = field_types(kind), option_tables(kind)
    for layer in layers:
        for key, value in layer.items():
            if key not in types:
                raise unknown("setting", key, types)
            joined = key in tables and isinstance(value, Mapping)
            values[key] = {**values.get(key, {}), **value} if joined else value
    values["recipe"] = recipe.name
    if "output" not in values:
        raise InputError("no output folder", "name one with --output")
    if "data" in types and "data" not in values:
        raise InputError(f"the recipe {recipe.name} has no data of its own", "name a file with --data")
    try:
        return kind(**values)
    except InputError as error:
        # A field that only the file sets is the file's mistake.
        field = error.message.split(" ", 1)[0].split(".")[0]
        if file is not None and field in given and not any(field in layer for layer in layers[1:]):
            raise InputError(f"{file}: {error.message}", error.hint) from None
        raise


def _read(kind: type[RunConfig], file: Path, recipe: str) -> dict[str, Any]:
    given = read_toml(file)
    types = field_types(kind)
    for key in given:
        if key not in types:
            hint = unknown("key", key, types)
            raise InputError(f"{file}: {hint.message}", hint.hint)
    for table in option_tables(kind):
        if not isinstance(given.get(table, {}), dict):
            raise InputError(f"{file}: {table} is no table", f"write [{table}] above its options")
    if given.get("recipe", recipe) != recipe:
        raise InputError(
            f"{file} is for the recipe {given['recipe']}, not {recipe}",
            f"run sentemb train {given['recipe']}",
        )
    return given
