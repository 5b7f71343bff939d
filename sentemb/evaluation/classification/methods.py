"""Named sets of options: those of the papers' tables, and the user's own from a TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sentemb.errors import InputError
from sentemb.evaluation.classification.cell import Method

# Table 1 of SupCL-Seq: its batch sizes count views, these count rows.
_VIEWS = (
    ((0.0, 0.1, 0.2, 0.3, 0.4), 800),
    ((0.0, 0.1, 0.2, 0.3), 640),
    ((0.0, 0.1, 0.2), 480),
    ((0.0, 0.1), 320),
    ((0.1, 0.1), 256),
)

GROUPS: Mapping[str, tuple[Method, ...]] = {
    "supcl-seq-views": tuple(
        Method(
            f"supcl-seq [{', '.join(f'{probability:g}' for probability in dropouts)}]",
            "supcl-seq",
            {"loss_options": {"dropouts": list(dropouts)}, "batch_size": batch // len(dropouts)},
        )
        for dropouts, batch in _VIEWS
    ),
    "ce-views": (Method("ce on views", "ce", {"loss_options": {"dropouts": [0.0, 0.1, 0.2]}}),),
}
"""`supcl-seq-views` is table 1 of SupCL-Seq, `ce-views` the dropout-augmented row of its table 2."""


def find_methods(names: Iterable[str], file: Path | None = None) -> list[Method]:
    """The methods of a study."""
    own = {} if file is None else _read(file)
    methods: list[Method] = []
    for name in names:
        methods += GROUPS.get(name, (own.get(name, Method(name, name)),))
    if len({method.name for method in methods}) < len(methods):
        raise InputError("two methods of the study have one name", "name each method once")
    return methods


def with_options(methods: Iterable[Method], options: Mapping[str, Any]) -> list[Method]:
    """Give all methods some options, below those that they have."""
    return [Method(one.name, one.recipe, joined(options, one.options)) for one in methods]


def nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Options whose names say in which table they are."""
    options: dict[str, Any] = {}
    for name, value in settings.items():
        *tables, key = name.split(".")
        inside = options
        for table in tables:
            inside = inside.setdefault(table, {})
        inside[key] = value
    return options


def _read(file: Path) -> dict[str, Method]:
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{file} is not valid TOML: {error}") from None
    methods = {}
    for name, options in tables.items():
        if not isinstance(options, dict):
            raise InputError(f"{file}: {name} is no table", f"write [{name}] and its options below")
        recipe = options.pop("recipe", name)
        if not isinstance(recipe, str):
            raise InputError(f"{file}: the recipe of {name} is {recipe}", "name one")
        methods[name] = Method(name, recipe, options)
    return methods


def joined(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Lay options over others."""
    both = dict(below)
    for key, value in above.items():
        tables = isinstance(value, Mapping) and isinstance(both.get(key), Mapping)
        both[key] = joined(both[key], value) if tables else value
    return both
