"""An experiment as data: methods × data sets × settings × seeds, read from TOML."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from sentemb.errors import InputError, unknown
from sentemb.experiments.validation import Written, checked_model
from sentemb.training.config import CheckedModel, ClassifierConfig, FlowConfig, MultiTaskConfig, TrainConfig
from sentemb.training.config.base import plain
from sentemb.training.values import read_toml

Kind = Literal["sts", "frozen", "classification", "multitask"]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
# What an experiment decides: its metric, its seeds and where it writes.
_RESERVED = {
    "metric": "choose the paper whose metric is used with --data paper=...",
    "seeds": "use --seeds",
    "output": "use --output",
}


@dataclass(frozen=True)
class Method:
    """A way to train: a row of a table.

    Attributes:
        name: What tables and records call it.
        recipe: What it is trained with, such as `ce` or `sg-opt`; of frozen encoders a pooling or transform.
        options: The settings that are not the recipe's own.
        published: What its paper reports, printed beside our numbers.

    Example:
        >>> Method("mine", "simcse", {"learning_rate": 1e-4}).recipe
        'simcse'
    """

    name: str
    recipe: str
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    published: str | None = None


class Setting(NamedTuple):
    """What an experiment varies beside method, data set and seed.

    Attributes:
        name: Such as `full`, `shots` or `rho`.
        value: How many examples, how many times as many; None where nothing is varied.

    Example:
        >>> Setting("shots", 20).value
        20
    """

    name: str
    value: float | None = None

    def __str__(self) -> str:
        return self.name if self.value is None else f"{self.name}-{self.value:g}"

    def as_dict(self) -> dict[str, Any]:
        """The setting as records have it."""
        return {} if self.value is None else {self.name: self.value}


@dataclass(frozen=True)
class PlannedTrial:
    """One run that an experiment needs."""

    method: Method
    datasets: tuple[str, ...]
    setting: Setting
    seed: int | None

    def __str__(self) -> str:
        sets = f" {self.datasets[0]} {self.setting}" if len(self.datasets) == 1 else ""
        return f"{self.method.name}{sets}" + ("" if self.seed is None else f" seed {self.seed}")


class PublishedDifference(Written):
    """What the paper says that one method is better than another, by data set or `average`."""

    of: str
    to: str
    published: dict[str, float]


class Experiment(Written):
    """Methods × data sets × settings × seeds, and how the results are reported.

    Every combination is one trial. `load_experiment` reads experiments from TOML, where `[methods.NAME]`
    holds `recipe` (the name by default), `published`, and the settings that differ from the recipe.

    Raises:
        InputError: A field is wrong, something is named twice, or there are fewer seeds than are reported.

    Example:
        >>> load_experiment("few-shot").setting
        'shots'
    """

    name: str = Field(description="name of the experiment in records, tables and files")
    title: str = Field(description="title of the table")
    kind: Kind = Field(description="kind of a trial: sts, frozen, classification or multitask")
    source: str = Field("", description="table or figure of the paper")
    rows: tuple[str, ...] = Field((), description="methods to run: names, groups or recipes; all by default")
    methods: dict[str, dict[str, Any]] = Field({}, description="methods that change settings of a recipe")
    groups: dict[str, tuple[str, ...]] = Field({}, description="names for groups of methods")
    datasets: tuple[str, ...] = Field((), description="data sets to evaluate on")
    setting: str = Field("full", description="setting that is varied, such as shots")
    values: tuple[float, ...] = Field((), description="values of the setting")
    seeds: tuple[Seed, ...] = Field((1, 2, 3), min_length=1, description="seeds, one run each")
    base: str | None = Field(None, description="base model of all methods")
    bases: dict[str, str] = Field({}, description="base models for individual data sets")
    model: str = Field("{base}-{method}", description="name of a trained encoder, without -seed-N")
    options: dict[str, Any] = Field(
        {}, description="settings of all methods; a method's own settings take precedence"
    )
    data: dict[str, Any] = Field({}, description="data options of this kind of experiment")
    baseline: str | None = Field(None, description="method that the others are compared with")
    best: int | None = Field(None, ge=1, description="number of runs to report, the best on validation rows")
    tables: tuple[str, ...] = Field((), description="further tables: classes, average, or another metric")
    differences: dict[str, PublishedDifference] = Field({}, description="differences that the paper reports")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.best is not None and len(self.seeds) < self.best:
            raise InputError(
                f"best is {self.best}, but there are only {len(self.seeds)} seeds", "add more --seeds"
            )
        for noun, values in (
            ("seed", self.seeds),
            ("data set", self.datasets),
            ("value", self.values),
            ("method", self.rows),
        ):
            if twice := [value for value in values if values.count(value) > 1]:
                raise InputError(
                    f"{self.name}: the {noun} {twice[0]} is listed twice", "list each value once"
                )
        for name in self.bases:
            if name not in self.datasets:
                raise InputError(
                    f"bases lists {name}, which is not a data set of {self.name}", "add it to --sets"
                )
        for owner, options in [(self.name, self.options), *((one.name, one.options) for one in self.chosen)]:
            for taken in (*_RESERVED, "recipe"):
                if taken in options:
                    hint = _RESERVED.get(taken, "remove it")
                    raise InputError(
                        f"{owner}: {taken} cannot be set here because the experiment sets it", hint
                    )
        return self

    @property
    def chosen(self) -> tuple[Method, ...]:
        """The methods to run, in order; a name that is no method here is a recipe."""
        names = [one for name in self.rows or self.methods for one in self.groups.get(name, (name,))]
        return tuple(self._method(name) for name in dict.fromkeys(names))

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The points of the grid's third side."""
        return tuple(Setting(self.setting, value) for value in self.values) or (Setting("full"),)

    def replace(self, **changes: Any) -> Experiment:
        """A copy with some fields changed, checked like a new one; None leaves a field as it is."""
        given = {name: value for name, value in changes.items() if value is not None}
        return checked_model(Experiment, {**self.model_dump(), **given}, self.name)

    def with_methods(self, file: Path) -> Experiment:
        """A copy with the methods of a TOML file, a table of options for each."""
        methods = read_toml(file)
        for name, options in methods.items():
            if not isinstance(options, dict):
                raise InputError(
                    f"{file}, field {name}: {options!r} is not a table",
                    f"write its options below a [{name}] header",
                )
        return self.replace(methods={**self.methods, **methods})

    def _method(self, name: str) -> Method:
        options = dict(self.methods.get(name, {}))
        recipe, published = options.pop("recipe", name), options.pop("published", None)
        if not isinstance(recipe, str):
            raise InputError(
                f"{self.name}: the recipe of {name} is {recipe}", "set it to the name of a recipe"
            )
        return Method(name, recipe, options, published)


def load_experiment(name: str | Path) -> Experiment:
    """Read an experiment.

    Args:
        name: One of `experiment_names()`, or a TOML file of your own.

    Returns:
        The experiment.

    Raises:
        InputError: There is no such experiment or file, or a field of it is unknown or wrong.

    Example:
        >>> load_experiment("few-shot").kind
        'classification'
    """
    path = Path(name)
    if path.suffix != ".toml":
        if str(name) not in experiment_names():
            raise unknown("experiment", name, experiment_names())
        path = _definitions() / f"{name}.toml"
    return checked_model(
        Experiment, {"name": path.stem, **read_toml(path, hint="see `sentemb experiment --list`")}, str(name)
    )


def experiment_names() -> list[str]:
    """The names of the bundled experiments, those of the papers.

    Example:
        >>> experiment_names()[:3]
        ['ablations', 'classes', 'domain-shift']
    """
    return sorted(path.stem for path in _definitions().glob("*.toml"))


def joined(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Lay options over others, table by table."""
    both = dict(below)
    for key, value in above.items():
        tables = isinstance(value, Mapping) and isinstance(both.get(key), Mapping)
        both[key] = joined(both[key], value) if tables else value
    return both


def portable(base: str) -> str:
    """A path of a base relative to this folder: a record names no machine's folders."""
    return os.path.relpath(base) if Path(base).is_absolute() else base


def nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Options whose names say in which table they are: `loss_options.temperature`."""
    options: dict[str, Any] = {}
    for name, value in settings.items():
        *tables, key = name.split(".")
        inside = options
        for table in tables:
            inside = inside.setdefault(table, {})
        inside[key] = value
    return options


@cache
def default_options(suite: str) -> Mapping[str, Any]:
    """The defaults of trainings, as the records of a suite have them."""
    kinds: dict[str, list[type[CheckedModel]]] = {
        "classification": [ClassifierConfig],
        "multitask": [MultiTaskConfig],
    }
    fields = {
        name: field
        for config in kinds.get(suite, [FlowConfig, TrainConfig])
        for name, field in config.model_fields.items()
    }
    return {
        name: plain(field.get_default(call_default_factory=True))
        for name, field in fields.items()
        if not field.is_required()
    }


def grid(
    seeds: Sequence[int], datasets: Iterable[tuple[str, ...]], settings: Sequence[Setting], methods: Any
) -> list[PlannedTrial]:
    """All combinations, a whole seed before the next, so that an interrupted experiment can be compared.

    Trials of the same data stand side by side. `methods(datasets)` gives the methods with their options.
    """
    return [
        PlannedTrial(method, names, setting, seed)
        for seed in seeds
        for names in datasets
        for setting in settings
        for method in methods(names)
    ]


def _definitions() -> Path:
    return Path(str(resources.files("sentemb.experiments"))) / "definitions"
