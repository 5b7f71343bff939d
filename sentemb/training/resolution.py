"""From a recipe's name, a TOML file and flags to one checked configuration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sentemb.errors import InputError
from sentemb.training.config import TrainConfig, field_types
from sentemb.training.recipes import get_recipe
from sentemb.training.values import parsed, read_toml, unknown

LOSS_OPTIONS = "loss_options"


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
    chosen = get_recipe(recipe)
    given = _read(Path(file), recipe) if file is not None else {}
    layers = [given, {key: value for key, value in (overrides or {}).items() if value is not None}]
    layers.append(_assigned(assignments or {}))
    preset = next((layer["preset"] for layer in reversed(layers) if "preset" in layer), "paper")
    values = chosen.values(preset)
    for layer in layers:
        values[LOSS_OPTIONS] |= layer.pop(LOSS_OPTIONS, {})
        values |= layer
    values["recipe"] = recipe
    if "output" not in values:
        raise InputError("no output folder", "name one with --output")
    try:
        return TrainConfig(**values)
    except InputError as error:
        # A field that only the file sets is the file's mistake.
        field = error.message.split(" ", 1)[0].split(".")[0]
        if file is not None and field in given and not any(field in layer for layer in layers[1:]):
            raise InputError(f"{file}: {error.message}", error.hint) from None
        raise


def _read(file: Path, recipe: str) -> dict[str, Any]:
    given = read_toml(file)
    for key in given:
        if key not in field_types():
            hint = unknown("key", key, field_types())
            raise InputError(f"{file}: {hint.message}", hint.hint)
    if not isinstance(given.get(LOSS_OPTIONS, {}), dict):
        raise InputError(f"{file}: {LOSS_OPTIONS} is no table", f"write [{LOSS_OPTIONS}] above its options")
    if given.get("recipe", recipe) != recipe:
        raise InputError(
            f"{file} is for the recipe {given['recipe']}, not {recipe}",
            f"run sentemb train {given['recipe']}",
        )
    return given


def _assigned(assignments: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    types = field_types()
    for name, text in assignments.items():
        table, _, option = name.partition(".")
        if table == LOSS_OPTIONS and option:
            # The loss checks its own options; here a word is a word, a number a number, commas a list.
            kind = _OPTION_LIST if "," in text else _OPTION_TEXT
            values.setdefault(LOSS_OPTIONS, {})[option] = parsed(name, text, kind)
        elif name in types and name != LOSS_OPTIONS:
            values[name] = parsed(name, text, types[name])
        else:
            raise unknown("setting", name, [*types, f"{LOSS_OPTIONS}.temperature"])
    return values


_OPTION_TEXT = bool | int | float | str | None
_OPTION_LIST = tuple[int | None, ...]
