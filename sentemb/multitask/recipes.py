"""Every row of the paper's Tables 1 to 10, as recipes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sentemb.errors import unknown
from sentemb.multitask.config import MultiTaskConfig
from sentemb.training.recipes import Recipe, recipes_of
from sentemb.training.settings import resolve

_RECIPES = recipes_of("multitask")
ROWS: Mapping[str, Mapping[str, Any]] = {
    name: {key: default.value for key, default in recipe.layers[-1].values.items()}
    for name, recipe in _RECIPES.items()
}
"""What a row changes in the paper's best single model, Table 2's "3 Given"."""


def multitask_recipe(row: str) -> Recipe:
    """The recipe of a row."""
    if row not in _RECIPES:
        raise unknown("row", row, _RECIPES)
    return _RECIPES[row]


def resolve_multitask(
    row: str = "table2-given",
    *,
    file: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    assignments: Mapping[str, str] | None = None,
) -> MultiTaskConfig:
    """Fill a configuration: the row's values, over them the file, over that the flags.

    Args:
        row: A name of `ROWS`.
        file: TOML file with fields of `MultiTaskConfig` and a table `[loss_options]`.
        overrides: Field name to value; `None` means "not given".
        assignments: Field name, or `loss_options.NAME`, to text as the user wrote it.

    Returns:
        The configuration.

    Raises:
        InputError: Unknown row or field, a value of the wrong type, or no output.
    """
    config: MultiTaskConfig = resolve(
        multitask_recipe(row), file=file, overrides=overrides, assignments=assignments
    )
    return config
