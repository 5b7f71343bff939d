"""Recipes: a name for everything that decides a run, each value with its source.

A file of recipes beside this one::

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

Where a table or its recipe has a `source` of its own, its values stand alone.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
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
    """A default and where it comes from.

    Args:
        value: The value.
        source: Table or section of the paper, or the released code.
    """

    value: Any
    source: str


Defaults = Mapping[str, Default]


class Protocol(NamedTuple):
    """A paper's experiments on labelled tasks.

    Args:
        source: Where the paper says so.
        split: How it divides a task: `lacon`, `scl`, or `dev` for GLUE's train and dev split.
        tasks: Task to what differs there: `metric`, `base`, and `test` for the split to test on.
        optimization: The recipe by whose optimization every method is trained.
    """

    source: str
    split: str
    tasks: Mapping[str, Mapping[str, str]]
    optimization: str | None = None


class Layer(NamedTuple):
    """What one recipe adds to the one that it inherits from."""

    values: Defaults
    released: Defaults | None
    tasks: Mapping[str, Defaults]
    static: Defaults
    without: tuple[str, ...]


@dataclass(frozen=True)
class Recipe:
    """The defaults of one method.

    Args:
        name: What the user calls it.
        kind: What it trains, a key of `KINDS`.
        summary: One line.
        layers: What it inherits, then its own.
        protocol: The paper whose tasks it trains on, a key of `PROTOCOLS`.
        least_columns: How many text columns it needs at least, where its loss would also take fewer.

    Example:
        >>> get_recipe("simcse").kind
        'contrastive'
    """

    name: str
    kind: str
    summary: str
    layers: tuple[Layer, ...]
    protocol: str | None = None
    least_columns: int = 1

    @property
    def config_class(self) -> type[CheckedModel]:
        """The configuration that it fills."""
        return KINDS[self.kind]

    @property
    def defaults(self) -> Defaults:
        """The defaults of the paper: field, or `loss_options.NAME`, to default."""
        return self.sources("paper")

    @cached_property
    def tasks(self) -> tuple[str, ...]:
        """The tasks for which it has values of their own."""
        return tuple(dict.fromkeys(task for layer in self.layers for task in layer.tasks))

    @property
    def static(self) -> dict[str, Any]:
        """The values that differ for a static encoder as base."""
        return {name: default.value for layer in self.layers for name, default in layer.static.items()}

    def sources(self, preset: str, task: str | None = None) -> Defaults:
        """The defaults of a preset, for a task too, with their sources: by field or `loss_options.NAME`."""
        if preset == "released" and all(layer.released is None for layer in self.layers):
            raise InputError(
                f"the recipe {self.name} does not have a preset 'released'", "remove --preset released"
            )
        chosen: dict[str, Default] = {}
        for layer in self.layers:
            for name in layer.without:
                chosen.pop(name, None)
            chosen |= layer.values
            # The released code has one setting for all tasks.
            chosen |= (layer.released or {}) if preset == "released" else layer.tasks.get(task or "", {})
        return chosen

    def values(self, preset: str, task: str | None = None) -> dict[str, Any]:
        """The defaults as plain values; the options of the loss, or of another part, in a dict."""
        plain: dict[str, Any] = {"recipe": self.name, "preset": preset}
        for key, default in self.sources(preset, task).items():
            table, _, option = key.rpartition(".")
            (plain.setdefault(table, {}) if table else plain)[option] = default.value
        return plain


def get_recipe(name: str) -> Recipe:
    """Look a recipe up.

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
    """The recipes of a kind, a key of `KINDS`, by name.

    Example:
        >>> sorted(recipes_of("pairs"))
        ['pairs']
    """
    return {name: recipe for name, recipe in RECIPES.items() if recipe.kind == kind}


def optimization_of(recipe: str) -> dict[str, Any]:
    """How a recipe trains, whatever its objective: what a fair comparison with it shares.

    Returns:
        Base, batch size, epochs, learning rate and its schedule, and weight decay.

    Example:
        >>> optimization_of("simcse")["batch_size"]
        64
    """
    values = get_recipe(recipe).values("paper")
    return {name: values[name] for name in _OPTIMIZATION}


def _contents() -> list[dict[str, Any]]:
    found = [file for file in files(__name__).iterdir() if file.name.endswith(".toml")]
    return [
        tomllib.loads(file.read_text(encoding="utf-8")) for file in sorted(found, key=lambda one: one.name)
    ]


def _read(content: dict[str, Any]) -> dict[str, Recipe]:
    recipes: dict[str, Recipe] = {}
    names = content["sources"]
    for name, table in content["recipes"].items():
        source = table.get("source")
        tasks = dict(table.get("tasks", {}))
        tasks_source = tasks.pop("source", source)
        layer = Layer(
            dict(_defaults(table.get("values", {}), names, source)),
            dict(_defaults(table["released"], names, source)) if "released" in table else None,
            {task: dict(_defaults(values, names, tasks_source)) for task, values in tasks.items()},
            dict(_defaults(table.get("static", {}), names, source)),
            tuple(table.get("without", ())),
        )
        parent = recipes.get(table.get("inherits", ""))
        kind = table.get("kind") or (parent.kind if parent else "")
        protocol = table.get("protocol") or (parent.protocol if parent else None)
        inherited = parent.layers if parent else ()
        layers = (*inherited, layer)
        least = table.get("least_columns", 1)
        recipes[name] = Recipe(name, kind, table.get("summary", ""), layers, protocol, least)
    return recipes


def _defaults(
    table: Mapping[str, Any], names: Mapping[str, str], source: str | None, prefix: str = ""
) -> Iterator[tuple[str, Default]]:
    for key, entry in table.items():
        if isinstance(entry, dict):
            yield from _defaults(entry, names, source, f"{prefix}{key}.")
            continue
        value, told = entry if source is None else (entry, source)
        yield f"{prefix}{key}", Default(value, told.format(**names))


_FILES = _contents()
RECIPES: dict[str, Recipe] = {
    name: recipe for file in _FILES for name, recipe in _read(file).items() if not name.startswith("_")
}
PROTOCOLS: dict[str, Protocol] = {
    name: Protocol(**table) for file in _FILES for name, table in file.get("protocols", {}).items()
}
