"""What `--set KEY=VALUE` says, for every command and program that has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, get_origin

from sentemb.errors import InputError
from sentemb.training.config import OptionValue, RunConfig, TrainConfig, field_types
from sentemb.training.values import checked, parsed, toml_or_text, unknown


def split_settings(arguments: Iterable[str]) -> dict[str, str]:
    """Divide arguments into names and texts.

    Args:
        arguments: Such as `epochs=3`.

    Returns:
        Name to text; of a name that comes twice the last.

    Raises:
        InputError: One has no equals sign or no name.
    """
    texts = {}
    for argument in arguments:
        name, equals, text = (part.strip() for part in argument.partition("="))
        if not name or not equals:
            raise InputError(f"--set {argument} sets nothing", "write --set KEY=VALUE")
        texts[name] = text
    return texts


def parse_settings(assignments: Mapping[str, str], kind: type[RunConfig] = TrainConfig) -> dict[str, Any]:
    """Read settings from the command line, where everything is text.

    A field has the type of its own. An option may be any value of TOML that options are, lists of numbers
    among them (`[0, 0.1]`, or `0,0.1`), and what is none is text; who takes it checks it.

    Args:
        assignments: Field name, or `TABLE.NAME` for an option, to text.
        kind: The configuration's class.

    Returns:
        Field name to value, as a TOML file would hold it: lists for tuples, "none" for `None`.

    Raises:
        InputError: There is no such setting, or the text is no value of its type.
    """
    types, tables = field_types(kind), option_tables(kind)
    values: dict[str, Any] = {}
    for name, text in assignments.items():
        table, _, option = name.partition(".")
        if table in tables and option:
            values.setdefault(table, {})[option] = _plain(_option(name, text))
        elif table in tables:
            raise InputError(f"{table} holds options", f"write {table}.NAME=VALUE")
        elif name in types:
            values[name] = _plain(parsed(name, text, types[name]))
        else:
            raise unknown("setting", name, [*types, "loss_options.temperature"])
    return values


def option_tables(kind: type[RunConfig]) -> list[str]:
    """Fields that hold the options of something."""
    return [name for name, inner in field_types(kind).items() if get_origin(inner) is Mapping]


def _option(name: str, text: str) -> Any:
    value = toml_or_text(text)
    if value == text and "," in text:
        value = [toml_or_text(part.strip()) for part in text.split(",")]
    return checked(name, value, OptionValue)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return "none" if value is None else value
