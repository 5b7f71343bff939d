"""The options of a run, made from its typed configuration: each with its description, default and source."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from pydantic_core import PydanticUndefined

from sentemb.training.recipes import Recipe
from sentemb.training.settings import explain, option_tables, resolve, shown, split_settings

_HIDDEN = ("recipe",)


def settings_command(recipe: Recipe, act: Callable[[Any, bool], None]) -> Callable[..., None]:
    """A command with an option for each setting of a recipe; `act` takes the configuration and `resume`."""

    def command(**given: Any) -> None:
        file, setting, resume = (given.pop(name) for name in ("config", "setting", "resume"))
        if given.pop("explain"):
            _explain(recipe)
            return
        named = {name: value for name, value in given.items() if value}
        lists = {name: value for name, value in named.items() if isinstance(value, list)}
        texts = {name: value for name, value in named.items() if isinstance(value, str)}
        config = resolve(
            recipe, file=file, overrides=lists, assignments=split_settings(setting or ()) | texts
        )
        act(config, resume)

    parameters = [*_of_fields(recipe), *_COMMON]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def _of_fields(recipe: Recipe) -> list[inspect.Parameter]:
    kind, sources = recipe.config_class, recipe.sources("paper")
    hidden = {*_HIDDEN, *option_tables(kind)}
    if all(layer.released is None for layer in recipe.layers):
        hidden.add("preset")
    parameters = []
    for name, field in kind.model_fields.items():
        if name in hidden:
            continue
        told = field.description or ""
        if name in sources:
            told += f" [{shown(sources[name].value)}: {sources[name].source}]"
        elif field.default not in (PydanticUndefined, None, ()):
            told += f" [{shown(field.default)}]"
        # Paths may hold commas: a list of texts is an option that is repeated.
        repeated = get_origin(field.annotation) is tuple and str in getattr(field.annotation, "__args__", ())
        option = typer.Option(
            help=f"{told} Repeatable." if repeated else told,
            metavar=_wanted(field.annotation),
            show_default=False,
        )
        parameters.append(_parameter(name, Annotated[list[str] | None if repeated else str | None, option]))
    return parameters


def _wanted(kind: Any) -> str:
    """What an option takes: a number, a text, one of some words, or several separated by commas."""
    if get_origin(kind) is Literal:
        return "|".join(get_args(kind))
    kinds = [one for one in get_args(kind) if one not in (NoneType, Ellipsis)]
    if get_origin(kind) is tuple:
        return _wanted(kinds[0]) + ("" if kinds[0] is str else ",...")
    if kinds:  # an optional or annotated type
        return _wanted(kinds[0])
    return {int: "NUMBER", float: "NUMBER", bool: "true|false"}.get(kind, "TEXT")


def _parameter(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


_COMMON = [
    _parameter("config", Annotated[str | None, typer.Option(help="TOML file with any of the settings.")]),
    _parameter("setting", Annotated[list[str] | None, typer.Option("--set", help="Any setting: KEY=VALUE.")]),
    _parameter("resume", Annotated[bool, typer.Option("--resume", help="Resume an interrupted run.")], False),
    _parameter(
        "explain",
        Annotated[bool, typer.Option("--explain", help="Print every default with its source and leave.")],
        False,
    ),
]


def _explain(recipe: Recipe) -> None:
    told = explain(recipe.name)
    width = max(len(key) for key in told)
    typer.echo(f"{recipe.name}: {recipe.summary}")
    for key, (value, source) in told.items():
        typer.echo(f"  {key:<{width}}  {value:<22}  {source}")
