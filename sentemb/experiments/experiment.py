"""Experiments as data: methods × data sets × settings × seeds, read from TOML."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sentemb.errors import InputError, naming, unknown
from sentemb.training.config import ClassifierConfig, FlowConfig, MultiTaskConfig, TrainConfig
from sentemb.training.config.base import Seeds, described_error, plain
from sentemb.training.values import read_toml

_FOLDER = Path(str(resources.files("sentemb.experiments")))
# Options of a method that the experiment sets.
_RESERVED = {
    "metric": "choose the paper whose metric is used with --data paper=...",
    "seeds": "use --seeds",
    "output": "use --output",
    "recipe": "remove it",
}


class Written(BaseModel):
    """Values that a user wrote: immutable, without unknown fields, with errors in one line."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise described_error(error, values, known=type(self).model_fields) from None


@dataclass(frozen=True)
class Method:
    """A way to train: a row of a table."""

    name: str  # in tables and records
    recipe: str  # such as `ce` or `sg-opt`; for frozen encoders a pooling or transform
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)  # that differ from the recipe
    published: str | None = None  # result of the paper, printed next to ours


class Setting(NamedTuple):
    """A value that an experiment varies besides method, data set and seed."""

    name: str  # such as `full`, `shots` or `rho`
    value: float | str | None = None  # such as a number of examples; None if nothing is varied

    def __str__(self) -> str:
        return self.name if self.value is None else f"{self.name}-{self.text}"

    @property
    def text(self) -> str:
        """The value as text, or the name if nothing is varied."""
        if self.value is None:
            return self.name
        return self.value if isinstance(self.value, str) else f"{self.value:g}"

    def as_dict(self) -> dict[str, Any]:
        """Return the setting as in records."""
        return {} if self.value is None else {self.name: self.value}


@dataclass(frozen=True)
class Trial:
    """One run of an experiment."""

    method: Method
    datasets: tuple[str, ...]
    setting: Setting
    seed: int | None

    def __str__(self) -> str:
        data = f" {self.datasets[0]}" if len(self.datasets) == 1 else ""
        setting = f" {self.setting}" if data or self.setting.value is not None else ""
        return f"{self.method.name}{data}{setting}" + ("" if self.seed is None else f" seed {self.seed}")


class PublishedDifference(Written):
    """Published advantage of one method over another, by data set or `average`."""

    of: str
    to: str
    published: dict[str, float]


class Experiment(Written):
    """Methods × data sets × settings × seeds, and how the results are reported.

    Every combination is one trial. `load_experiment` reads experiments from TOML, where `[methods.NAME]`
    holds `recipe` (the name by default), `published`, and the settings that differ from the recipe.

    Raises:
        InputError: A field is wrong, a value is listed twice, or there are fewer seeds than are reported.

    Example:
        >>> load_experiment("few-shot").setting
        'shots'
    """

    name: str = Field(description="name of the experiment in records, tables and files")
    title: str = Field(description="title of the table")
    kind: Literal["sts", "frozen", "classification", "multitask"] = Field(
        description="kind of a trial: sts, frozen, classification or multitask"
    )
    source: str = Field("", description="table or figure of the paper")
    rows: tuple[str, ...] = Field((), description="methods to run: names, groups or recipes; all by default")
    methods: dict[str, dict[str, Any]] = Field({}, description="methods that change settings of a recipe")
    groups: dict[str, tuple[str, ...]] = Field({}, description="names for groups of methods")
    datasets: tuple[str, ...] = Field((), description="data sets to evaluate on")
    setting: str = Field("full", description="setting that is varied, such as shots")
    values: tuple[float | str, ...] = Field(
        (), description="values of the setting: numbers, or dev sets if the setting is dev"
    )
    seeds: Seeds = Field((1, 2, 3), description="seeds, one run each")
    base: str | None = Field(None, description="base model of all methods")
    bases: dict[str, str] = Field({}, description="base models for individual data sets")
    model: str = Field("{base}-{method}", description="name of a trained encoder, without -seed-N")
    options: dict[str, Any] = Field(
        {}, description="settings of all methods; a method's own settings take precedence"
    )
    data: dict[str, Any] = Field({}, description="data options of this kind of experiment")
    baseline: str | None = Field(
        None, description="method that the others are compared with, or several as A,B: arrows show the first"
    )
    best: int | None = Field(None, ge=1, description="number of runs to report, the best on validation rows")
    tables: tuple[str, ...] = Field((), description="further tables: classes, average, or another metric")
    differences: dict[str, PublishedDifference] = Field({}, description="differences that the paper reports")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.best is not None and len(self.seeds) < self.best:
            problem = f"best is {self.best}, but there are only {len(self.seeds)} seeds"
            raise InputError(problem, "add more --seeds")
        listed = {"data set": self.datasets, "value": self.values, "method": self.rows}
        for noun, values in listed.items():
            for value in values:
                if values.count(value) > 1:
                    raise InputError(f"the {noun} {value} is listed twice", "list each value once")
        for name in [one for one in self.bases if one not in self.datasets]:
            raise InputError(f"bases lists {name}, which is not a data set", "add it to --sets")
        for owner, options in [("options", self.options), *((one.name, one.options) for one in self.chosen)]:
            for taken in [name for name in _RESERVED if name in options]:
                problem = f"{owner}: {taken} cannot be set here because the experiment sets it"
                raise InputError(problem, _RESERVED[taken])
        return self

    @property
    def chosen(self) -> tuple[Method, ...]:
        """Methods to run, in order. A name that is not a method of the experiment is a recipe."""
        names = [one for name in self.rows or self.methods for one in self.groups.get(name, (name,))]
        found = []
        for name in dict.fromkeys(names):
            options = dict(self.methods.get(name, {}))
            recipe, published = options.pop("recipe", name), options.pop("published", None)
            if not isinstance(recipe, str):
                raise InputError(f"the recipe of {name} is {recipe}", "set it to the name of a recipe")
            found.append(Method(name, recipe, options, published))
        return tuple(found)

    @property
    def baselines(self) -> tuple[str, ...]:
        """Methods that the others are compared with."""
        return tuple(name.strip() for name in self.baseline.split(",")) if self.baseline else ()

    @property
    def settings(self) -> tuple[Setting, ...]:
        """Settings of the grid."""
        return tuple(Setting(self.setting, value) for value in self.values) or (Setting("full"),)

    def replace(self, **changes: Any) -> Experiment:
        """Return a copy with some fields changed and checked. None leaves a field unchanged."""
        given = {name: value for name, value in changes.items() if value is not None}
        with naming(self.name):
            return Experiment(**{**self.model_dump(), **given})

    def with_methods(self, file: Path) -> Experiment:
        """Return a copy with the methods of a TOML file, a table of options for each."""
        with naming(file):
            return self.replace(methods={**self.methods, **read_toml(file)})


def load_experiment(name: str | Path) -> Experiment:
    """Read an experiment.

    Args:
        name: One of `experiment_names()`, or a TOML file of your own.

    Returns:
        The experiment.

    Raises:
        InputError: The experiment or file does not exist, or a field is unknown or wrong.

    Example:
        >>> load_experiment("few-shot").kind
        'classification'
    """
    path = Path(name)
    if path.suffix != ".toml":
        if str(name) not in experiment_names():
            raise unknown("experiment", name, experiment_names())
        path = _FOLDER / "definitions" / f"{name}.toml"
    values = read_toml(path, hint="see `sentemb experiment --list`")
    with naming(name):
        return Experiment(**{"name": path.stem, **values})


def experiment_names() -> list[str]:
    """Return the names of the bundled experiments.

    Example:
        >>> experiment_names()[:3]
        ['ablations', 'classes', 'domain-shift']
    """
    return sorted(path.stem for path in (_FOLDER / "definitions").glob("*.toml"))


def joined(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Override options by others, table by table."""
    both = dict(below)
    for key, value in above.items():
        tables = isinstance(value, Mapping) and isinstance(both.get(key), Mapping)
        both[key] = joined(both[key], value) if tables else value
    return both


def nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return options whose names contain their table, such as `loss_options.temperature`, as tables."""
    options: dict[str, Any] = {}
    for name, value in settings.items():
        *tables, key = name.split(".")
        inside = options
        for table in tables:
            inside = inside.setdefault(table, {})
        inside[key] = value
    return options


def portable(base: str) -> str:
    """Return the path of a base relative to this folder, because records do not name folders of a machine."""
    return os.path.relpath(base) if Path(base).is_absolute() else base


@cache
def published(name: str) -> dict[str, Any]:
    """Read a file of numbers that the papers report."""
    return read_toml(_FOLDER / "published" / f"{name}.toml")


@cache
def default_options(suite: str) -> Mapping[str, Any]:
    """Return the defaults of trainings, as in the records of a suite."""
    kinds: dict[str, list[type[BaseModel]]] = {
        "classification": [ClassifierConfig],
        "multitask": [MultiTaskConfig],
    }
    return {
        name: plain(field.get_default(call_default_factory=True))
        for config in kinds.get(suite, [FlowConfig, TrainConfig])
        for name, field in config.model_fields.items()
        if not field.is_required()
    }
