"""From a recipe's name, a TOML file and flags to one checked configuration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, get_origin

from sentemb.errors import InputError
from sentemb.training.config import RunConfig, TrainConfig, field_types
from sentemb.training.recipes import Recipe, get_recipe
from sentemb.training.values import parsed, read_toml, unknown

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
    """Fill a configuration of any kind; see `resolve`.

    Args:
        kind: The configuration's class.
        recipe: The recipe.
        file: TOML file with fields of the class; its options are tables.
        overrides: Field name to value; `None` means "not given".
        assignments: Field name, or `TABLE.NAME`, to text as the user wrote it.

    Returns:
        The configuration.

    Raises:
        InputError: Unknown field or preset, a value of the wrong type, or no output.
    """
    given = _read(kind, Path(file), recipe.name) if file is not None else {}
    layers = [given, {key: value for key, value in (overrides or {}).items() if value is not None}]
    layers.append(_assigned(kind, assignments or {}))
    preset = next((layer["preset"] for layer in reversed(layers) if "preset" in layer), "paper")
    values = recipe.values(preset)
    types, tables = field_types(kind), _tables(kind)
    for layer in layers:
        for key, value in layer.items():
            if key not in types:
                raise unknown("setting", key, types)
            values[key] = {**values.get(key, {}), **value} if key in tables else value
    values["recipe"] = recipe.name
    if "output" not in values:
        raise InputError("no output folder", "name one with --output")
    try:
        return kind(**values)
    except InputError as error:
        # A field that only the file sets is the file's mistake.
        field = error.message.split(" ", 1)[0].split(".")[0]
        if file is not None and field in given and not any(field in layer for layer in layers[1:]):
            raise InputError(f"{file}: {error.message}", error.hint) from None
        raise


def _tables(kind: type[RunConfig]) -> list[str]:
    """Fields that hold the options of something."""
    return [name for name, inner in field_types(kind).items() if get_origin(inner) is Mapping]


def _read(kind: type[RunConfig], file: Path, recipe: str) -> dict[str, Any]:
    given = read_toml(file)
    types = field_types(kind)
    for key in given:
        if key not in types:
            hint = unknown("key", key, types)
            raise InputError(f"{file}: {hint.message}", hint.hint)
    for table in _tables(kind):
        if not isinstance(given.get(table, {}), dict):
            raise InputError(f"{file}: {table} is no table", f"write [{table}] above its options")
    if given.get("recipe", recipe) != recipe:
        raise InputError(
            f"{file} is for the recipe {given['recipe']}, not {recipe}",
            f"run sentemb train {given['recipe']}",
        )
    return given


def _assigned(kind: type[RunConfig], assignments: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    types, tables = field_types(kind), _tables(kind)
    for name, text in assignments.items():
        table, _, option = name.partition(".")
        if table in tables and option:
            # The loss checks its own options; here a word is a word, a number a number, commas a list.
            form = _OPTION_LIST if "," in text else _OPTION_TEXT
            values.setdefault(table, {})[option] = parsed(name, text, form)
        elif name in types and name not in tables:
            values[name] = parsed(name, text, types[name])
        else:
            raise unknown("setting", name, [*types, "loss_options.temperature"])
    return values


_OPTION_TEXT = bool | int | float | str | None
_OPTION_LIST = tuple[int | None, ...]
