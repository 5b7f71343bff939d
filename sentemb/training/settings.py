"""From a recipe's name, a TOML file and flags to one checked configuration."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_origin

from pydantic_core import PydanticUndefined

from sentemb.errors import InputError, unknown
from sentemb.training.config import CheckedModel
from sentemb.training.recipes import Recipe, get_recipe
from sentemb.training.values import parsed, parsed_option, read_toml

logger = logging.getLogger(__name__)

_NO_SOURCE = "default of sentemb"


def resolve(
    recipe: str | Recipe,
    *,
    task: str | None = None,
    file: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    assignments: Mapping[str, str] | None = None,
) -> Any:
    """Fill a configuration: the recipe's defaults, over them the file, over that the flags.

    A recipe's pooling is for pretrained transformers: a finished encoder that is named as the base keeps its
    own, and a decoder pools its last token, unless a pooling is named too. A recipe may have other values for
    static encoders. A loss of the user's own (`my_losses.py:MyLoss`) gets only the options that are named
    with it.

    Args:
        recipe: A recipe, or its name.
        task: Take the values that the recipe has for this task, where it has any.
        file: TOML file with fields of the configuration and tables of options such as `[loss_options]`.
        overrides: Field name to value; `None` means "not given".
        assignments: Field name, or `loss_options.NAME`, to text as the user wrote it.

    Returns:
        The configuration, of the class that the recipe's kind has.

    Raises:
        InputError: Unknown recipe, field or preset, a value of the wrong type, or no output.

    Example:
        >>> config = resolve("simcse", overrides={"data": "sentences.txt", "output": "mine"})
        >>> config.batch_size
        64
    """
    chosen = get_recipe(recipe) if isinstance(recipe, str) else recipe
    kind = chosen.config_class
    fields, tables = kind.model_fields, option_tables(kind)
    given = {} if file is None else _read(kind, Path(file), chosen.name)
    flags = {key: value for key, value in (overrides or {}).items() if value is not None}
    layers = [given, flags, parse_settings(assignments or {}, kind)]
    preset = next((layer["preset"] for layer in reversed(layers) if "preset" in layer), "paper")
    defaults = chosen.values(preset, task)
    values = dict(defaults)
    for key, value in (item for layer in layers for item in layer.items()):
        if key not in fields:
            raise unknown("setting", key, fields)
        joined = key in tables and isinstance(value, Mapping)
        values[key] = {**values.get(key, {}), **value} if joined else value
    values["recipe"] = chosen.name
    named = set().union(*layers)
    # Only a recipe with values for static encoders has a finished encoder as its default.
    if chosen.static or ("pooling" in values and values.get("base") != defaults.get("base")):
        values |= _fitting_base(values, chosen, named)
    if "loss" in named and ":" in str(values["loss"]):
        # The options of the recipe's loss are not those of the user's own.
        options = [layer.get("loss_options", {}) for layer in layers]
        values["loss_options"] = {name: value for one in options for name, value in one.items()}
    if "dev" in fields and "dev" not in named:
        values |= _bundled_dev(values)
    if "output" not in values:
        raise InputError("the output folder is missing", "set a folder with --output")
    if "data" in fields and "data" not in values:
        raise InputError(
            f"the recipe {chosen.name} does not have default training data", "set it with --data"
        )
    try:
        return kind(**values)
    except InputError as error:
        # A field that only the file sets is an error in the file.
        field = error.message.split(" ", 1)[0].split(".")[0]
        if field in given and not any(field in layer for layer in layers[1:]):
            raise InputError(f"{file}: {error.message}", error.hint) from None
        raise


def explain(recipe: str, *, preset: str = "paper", task: str | None = None) -> dict[str, tuple[str, str]]:
    """Return every default of a recipe, by field or `loss_options.NAME`: its value as text and its source."""
    chosen = get_recipe(recipe)
    defaults = {key: (shown(one.value), one.source) for key, one in chosen.sources(preset, task).items()}
    hidden = {*defaults, "recipe", "preset", "output", *option_tables(chosen.config_class)}
    for name, field in chosen.config_class.model_fields.items():
        if name not in hidden and field.default is not PydanticUndefined:
            defaults[name] = (shown(field.default), _NO_SOURCE)
    return defaults


def shown(value: Any) -> str:
    """Return a value as a flag takes it."""
    if isinstance(value, list | tuple):
        return ",".join(map(shown, value))
    if isinstance(value, bool):
        return "true" if value else "false"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def split_settings(arguments: Iterable[str], *, option: str = "set", key: str = "KEY") -> dict[str, str]:
    """Divide arguments of `--set`, or of another option, into names and texts; the last of a name counts."""
    texts = {}
    for argument in arguments:
        name, equals, text = (part.strip() for part in argument.partition("="))
        if not name or not equals:
            raise InputError(
                f"--{option} {argument} is not of the form {key}=VALUE", f"write --{option} {key}=VALUE"
            )
        texts[name] = text
    return texts


def parse_settings(assignments: Mapping[str, str], kind: type[CheckedModel]) -> dict[str, Any]:
    """Read settings from the command line: field name, or `TABLE.NAME` for an option, to text.

    The configuration reads the text of a field. An option may be any value of TOML that options are, lists
    of numbers among them (`[0, 0.1]`, or `0,0.1`), and what is none is text.
    """
    fields, tables = kind.model_fields, option_tables(kind)
    values: dict[str, Any] = {}
    for name, text in assignments.items():
        table, _, option = name.partition(".")
        if table in tables and option:
            values.setdefault(table, {})[option] = parsed_option(text)
        elif table in tables:
            raise InputError(
                f"{table} is a table of options and cannot be set as a whole", f"write {table}.NAME=VALUE"
            )
        elif name in fields:
            values[name] = parsed(text, fields[name].annotation)
        else:
            raise unknown("setting", name, [*fields, *(f"{one}.NAME" for one in tables)])
    return values


def option_tables(kind: type[CheckedModel]) -> list[str]:
    """Return the fields that hold the options of something."""
    return [name for name, field in kind.model_fields.items() if get_origin(field.annotation) is Mapping]


def _fitting_base(values: Mapping[str, Any], recipe: Recipe, named: set[str]) -> dict[str, Any]:
    """Return what changes for the base: no pooling for one that has its own, and values for static ones."""
    from sentemb.modules.source import find_source

    try:
        source = find_source(str(values.get("base")))
    except InputError:
        return {}  # loading reports it
    changes: dict[str, Any] = {}
    if source.has_modules or source.is_decoder:
        changes["pooling"] = None
    if source.modules and source.modules[0].endswith("StaticEmbedding"):
        changes |= recipe.static
    return {name: value for name, value in changes.items() if name not in named}


def _bundled_dev(values: Mapping[str, Any]) -> dict[str, Any]:
    """Select the checkpoint on the bundled pairs if the user's own sentences come without STS-B."""
    from sentemb.data.bundled_text import BUNDLED_PAIRS
    from sentemb.data.sources import kind_of
    from sentemb.data.sts import stsb_dev

    try:
        if kind_of(str(values.get("data"))) == "entry" or stsb_dev(values.get("data_dir")) is not None:
            return {}
    except InputError:
        return {}  # the run reports it, with its place
    logger.warning(
        "STS-B is not in the data folder; the bundled sentence pairs select the checkpoint. Pass --dev FILE "
        "to use your own scored pairs, or --dev none to keep the weights of the last step"
    )
    return {"dev": BUNDLED_PAIRS}


def _read(kind: type[CheckedModel], file: Path, recipe: str) -> dict[str, Any]:
    given = read_toml(file)
    for key in given:
        if key not in kind.model_fields:
            error = unknown("key", key, kind.model_fields)
            raise InputError(f"{file}: {error.message}", error.hint)
    for table in option_tables(kind):
        if not isinstance(given.get(table, {}), dict):
            raise InputError(f"{file}: {table} is not a table", f"write its options below a [{table}] header")
    if given.get("recipe", recipe) != recipe:
        raise InputError(
            f"{file} is a configuration for the recipe {given['recipe']}, not {recipe}",
            f"run sentemb train {given['recipe']}",
        )
    return given
