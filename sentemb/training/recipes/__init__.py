"""Recipes: named settings of a run, each value with its source.

A file of recipes in this folder::

    [sources]
    paper = "Kim et al., ACL 2021"              # stands for {paper} in a source

    [recipes.sg-opt]
    summary = "..."
    kind = "contrastive"                        # which configuration it fills
    inherits = "_sg"                            # a name with an underscore is only inherited from
    without = ["data"]                          # what it does not inherit
    least_columns = 2                           # text columns that it needs at least
    [recipes.sg-opt.values]
    batch_size = [16, "{paper}, table 8"]       # a field, or loss_options.NAME: value and source
    [recipes.sg-opt.released]                   # what differs under the preset `released`
    [recipes.sg-opt.tasks]                      # what differs on a task, by name
    [recipes.sg-opt.static]                     # what differs for a static encoder as base

If a table or its recipe has its own `source`, its values are written without one.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, NamedTuple

from sentemb.errors import InputError, unknown
from sentemb.training.config import (
    CheckedModel,
    ClassifierConfig,
    FlowRunConfig,
    MultiTaskConfig,
    PairsConfig,
    PretrainConfig,
    TrainConfig,
    WhiteningRunConfig,
)

KINDS: dict[str, type[CheckedModel]] = {
    "contrastive": TrainConfig,
    "pairs": PairsConfig,
    "classification": ClassifierConfig,
    "multitask": MultiTaskConfig,
    "pretraining": PretrainConfig,
    "flow": FlowRunConfig,
    "whitening": WhiteningRunConfig,
}
_OPTIMIZATION = ("base", "batch_size", "epochs", "learning_rate", "weight_decay", "schedule", "warmup")


class Default(NamedTuple):
    """A default, and the table or section of the paper, or the released code, that it comes from."""

    value: Any
    source: str


Defaults = Mapping[str, Default]


class Protocol(NamedTuple):
    """A paper's experiments on labelled tasks."""

    source: str  # where the paper says so
    split: str  # how it divides a task: `lacon`, `scl`, or `dev` for GLUE's train and dev split
    tasks: Mapping[str, Mapping[str, str]]  # what differs on a task: `metric`, `base`, `test` (a split)
    optimization: str | None = None  # the recipe by whose optimization every method is trained


@dataclass(frozen=True)
class Recipe:
    """The defaults of one method, with what it inherits: by field or `loss_options.NAME`."""

    name: str
    kind: str  # what it trains, a key of `KINDS`
    summary: str
    defaults: Defaults  # the values of the paper
    released: Defaults | None  # that differ in the released code; None if there is no such preset
    tasks: Mapping[str, Defaults]  # what differs on a task
    static: Mapping[str, Any]  # what differs for a static encoder as base
    protocol: str | None = None  # the paper whose tasks it trains on, a key of `PROTOCOLS`
    least_columns: int = 1  # text columns that it needs, where its loss would also take fewer

    @property
    def config_class(self) -> type[CheckedModel]:
        """The configuration that it fills."""
        return KINDS[self.kind]

    def sources(self, preset: str, task: str | None = None) -> Defaults:
        """Return the defaults of a preset, for a task too, with their sources."""
        if preset == "released":
            if self.released is None:
                raise InputError(
                    f"the recipe {self.name} does not have a preset 'released'", "remove --preset released"
                )
            # The released code has one setting for all tasks.
            return {**self.defaults, **self.released}
        return {**self.defaults, **self.tasks.get(task or "", {})}

    def values(self, preset: str, task: str | None = None) -> dict[str, Any]:
        """Return the defaults as plain values; the options of the loss, or of another part, in a dict."""
        plain: dict[str, Any] = {"recipe": self.name, "preset": preset}
        for key, default in self.sources(preset, task).items():
            table, _, option = key.rpartition(".")
            (plain.setdefault(table, {}) if table else plain)[option] = default.value
        return plain


def get_recipe(name: str) -> Recipe:
    """Return the recipe of a name.

    Raises:
        InputError: There is none of this name.

    Example:
        >>> get_recipe("simcse").summary
        'SimCSE: two dropout views of each sentence'
    """
    if name not in RECIPES:
        raise unknown("recipe", name, RECIPES)
    return RECIPES[name]


def recipes_of(kind: str) -> dict[str, Recipe]:
    """Return the recipes of a kind, a key of `KINDS`, by name.

    Example:
        >>> sorted(recipes_of("pairs"))
        ['pairs']
    """
    return {name: recipe for name, recipe in RECIPES.items() if recipe.kind == kind}


def optimization_of(recipe: str) -> dict[str, Any]:
    """Return how a recipe trains, whatever its objective: what a fair comparison with it shares."""
    values = get_recipe(recipe).values("paper")
    return {name: values[name] for name in _OPTIMIZATION}


def _read(content: dict[str, Any]) -> dict[str, Recipe]:
    recipes: dict[str, Recipe] = {"": Recipe("", "", "", {}, None, {}, {})}
    for name, table in content["recipes"].items():
        parent, source = recipes[table.get("inherits", "")], table.get("source")

        def own(values: Mapping[str, Any], source: str | None = source) -> dict[str, Default]:
            return dict(_defaults(values, content["sources"], source))

        values, without = own(table.get("values", {})), set(table.get("without", ()))
        replaced = without | values.keys()

        def inherited(defaults: Defaults, but: set[str] = replaced) -> dict[str, Default]:
            return {key: default for key, default in defaults.items() if key not in but}

        released = own(table["released"]) if "released" in table else None
        tasks = dict(table.get("tasks", {}))
        tasks_source = tasks.pop("source", source)
        of_tasks = {task: own(one, tasks_source) for task, one in tasks.items()}
        recipes[name] = Recipe(
            name,
            table.get("kind", parent.kind),
            table.get("summary", ""),
            inherited(parent.defaults, without) | values,
            released if parent.released is None else inherited(parent.released) | (released or {}),
            {
                task: inherited(parent.tasks.get(task, {})) | of_tasks.get(task, {})
                for task in {**parent.tasks, **of_tasks}
            },
            {**parent.static, **{key: one.value for key, one in own(table.get("static", {})).items()}},
            table.get("protocol", parent.protocol),
            table.get("least_columns", 1),
        )
    return {name: recipe for name, recipe in recipes.items() if name and not name.startswith("_")}


def _defaults(
    table: Mapping[str, Any], names: Mapping[str, str], source: str | None, prefix: str = ""
) -> Iterator[tuple[str, Default]]:
    for key, entry in table.items():
        if isinstance(entry, dict):
            yield from _defaults(entry, names, source, f"{prefix}{key}.")
            continue
        value, origin = entry if source is None else (entry, source)
        yield f"{prefix}{key}", Default(value, origin.format(**names))


_FILES = [
    tomllib.loads(file.read_text(encoding="utf-8"))
    for file in sorted(files(__name__).iterdir(), key=lambda one: one.name)
    if file.name.endswith(".toml")
]
RECIPES: dict[str, Recipe] = {name: recipe for file in _FILES for name, recipe in _read(file).items()}
PROTOCOLS: dict[str, Protocol] = {
    name: Protocol(**table) for file in _FILES for name, table in file.get("protocols", {}).items()
}
