"""Options of `sentemb train`, made from the typed configuration of a recipe, with defaults and sources."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from pydantic_core import PydanticUndefined

from sentemb._files import refuse_unusable_output
from sentemb.training.recipes import Recipe
from sentemb.training.settings import explain, option_tables, resolve, shown, split_settings

_HIDDEN = ("recipe",)
_MINI_BATCH = "loss_options.mini_batch_size"  # an option of every loss that a gradient cache can wrap


def settings_command(
    recipe: Recipe,
    act: Callable[..., None],
    *,
    flags: Mapping[str, str] | None = None,
    adjust: Callable[[Recipe, dict[str, Any]], dict[str, Any]] | None = None,
) -> Callable[..., None]:
    """Make a command with an option for each setting of a recipe.

    Returns:
        A function for typer.
    """
    own, fields = dict(flags or {}), recipe.config_class.model_fields
    options = _loss_options(recipe)

    def command(**arguments: Any) -> None:
        file, setting, resume = (arguments.pop(name) for name in ("config", "setting", "resume"))
        chosen = {name: arguments.pop(name) for name in own}
        if arguments.pop("explain"):
            _explain(recipe, arguments.get("preset") or "paper", chosen.get("task"))
            return
        overrides = adjust(recipe, chosen) if adjust else {}
        named = {name: value for name, value in arguments.items() if value is not None and value != []}
        overrides |= {name: value for name, value in named.items() if isinstance(value, list | bool)}
        texts = {options.get(name, name): value for name, value in named.items() if isinstance(value, str)}
        assignments = split_settings(setting or ()) | texts
        config = resolve(
            recipe, task=chosen.get("task"), file=file, overrides=overrides, assignments=assignments
        )
        inputs = [getattr(config, name, None) for name in ("base", "data", "dev")]
        inputs += [chosen.get(name) for name in ("train", "validation", "test", "nli")]
        refuse_unusable_output(config.output, [*inputs, *getattr(config, "corpus", ())])
        act(config, resume, chosen) if own else act(config, resume)

    parameters = [
        _parameter(name, Annotated[str | None, typer.Option(help=help)]) for name, help in own.items()
    ]
    parameters += [_of_field(recipe, name) for name in fields if name not in (*_unseen(recipe), *own)]
    parameters += [_of_option(recipe, name, key) for name, key in options.items()]
    parameters += _COMMON
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def _unseen(recipe: Recipe) -> list[str]:
    no_released = recipe.released is None
    return [*_HIDDEN, *option_tables(recipe.config_class), *(["preset"] if no_released else [])]


def _loss_options(recipe: Recipe) -> dict[str, str]:
    """Return the options of the recipe's loss that have a flag: name to key."""
    fields = recipe.config_class.model_fields
    keys = [key for key in recipe.defaults if key.startswith("loss_options.")]
    if "loss" in fields:
        keys.append(_MINI_BATCH)
    names = {key.partition(".")[2]: key for key in keys}
    return {name: key for name, key in names.items() if name not in fields}


def _of_field(recipe: Recipe, name: str) -> inspect.Parameter:
    field = recipe.config_class.model_fields[name]
    text = field.description or ""
    if name in recipe.defaults:
        text += _default(recipe, name)
    elif field.default not in (PydanticUndefined, None, ()):
        text += f" [{shown(field.default)}]"
    if field.annotation is bool:
        flag = name.replace("_", "-")
        option = typer.Option(f"--{flag}/--no-{flag}", help=text, show_default=False)
        return _parameter(name, Annotated[bool | None, option])
    # Paths may hold commas: a list of them is an option that is repeated.
    repeated = name in ("corpus", "exclude")
    option = typer.Option(
        *([f"--{name.replace('_', '-')}", "-o"] if name == "output" else []),
        help=f"{text} Repeat for several." if repeated else text,
        metavar=_placeholder(field.annotation),
        show_default=False,
    )
    return _parameter(name, Annotated[list[str] | None if repeated else str | None, option])


def _of_option(recipe: Recipe, name: str, key: str) -> inspect.Parameter:
    text = "Rows to encode at a time with a gradient cache. The loss is the same, with less memory."
    if key != _MINI_BATCH:
        text = f"Option of the loss.{_default(recipe, key)}"
    option = typer.Option(help=text, show_default=False)
    return _parameter(name, Annotated[str | None, option])


def _default(recipe: Recipe, key: str) -> str:
    default = recipe.defaults[key]
    return f" [{shown(default.value)}: {default.source}]"


def _placeholder(kind: Any) -> str:
    """Return the placeholder of a value: a number, a text, one of some words, or several with commas."""
    if get_origin(kind) is Literal:
        return "|".join(get_args(kind))
    kinds = [one for one in get_args(kind) if one not in (NoneType, Ellipsis)]
    if get_origin(kind) is tuple:
        return f"{_placeholder(kinds[0])},..."
    if kinds:  # an optional or annotated type
        return _placeholder(kinds[0])
    return {int: "NUMBER", float: "NUMBER"}.get(kind, "TEXT")


def _parameter(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


_COMMON = [
    _parameter("config", Annotated[str | None, typer.Option(help="TOML file with settings.")]),
    _parameter(
        "setting",
        Annotated[
            list[str] | None,
            typer.Option(
                "--set",
                help="Change any setting: KEY=VALUE or loss_options.KEY=VALUE. Repeat for several settings.",
            ),
        ],
    ),
    _parameter("resume", Annotated[bool, typer.Option("--resume", help="Resume an interrupted run.")], False),
    _parameter(
        "explain",
        Annotated[bool, typer.Option("--explain", help="Print all defaults with their sources and exit.")],
        False,
    ),
]


def _explain(recipe: Recipe, preset: str, task: str | None) -> None:
    defaults = explain(recipe.name, preset=preset, task=task)
    width = max(map(len, defaults))
    typer.echo(f"{recipe.name} ({preset}): {recipe.summary}")
    for key, (value, source) in defaults.items():
        typer.echo(f"  {key:<{width}}  {value:<22}  {source}")
