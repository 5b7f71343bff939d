"""`sentemb train RECIPE`: one command per recipe, its options made from the recipe's configuration."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from pydantic_core import PydanticUndefined

from sentemb._files import refuse_unusable_output
from sentemb.cli import options as opt
from sentemb.cli.console import next_command
from sentemb.cli.main import LazyGroup, as_command, group_app
from sentemb.errors import unknown
from sentemb.training.recipes import KINDS, PROTOCOLS, RECIPES, Recipe, get_recipe, optimization_of
from sentemb.training.settings import explain, option_tables, resolve, shown, split_settings

_COMMON = ("pairs", "simcse", "simcse-supervised", "sg-opt", "bt", "quora")  # first in the list of recipes
_MINI_BATCH = "loss_options.mini_batch_size"  # an option of every loss that a gradient cache can wrap
_PATHS = ("corpus", "exclude")  # may hold commas: a list of them is an option that is repeated
_CLASSIFICATION_FLAGS = {
    "task": "Data set with the splits of a paper. --explain lists them.",
    "protocol": f"Paper whose splits to use for --task: {', '.join(PROTOCOLS)}. The default is the recipe's "
    "own.",
    "train": "Your own training file instead of a task: .csv, .tsv, .jsonl or .parquet.",
    "validation": "With --train: validation file, to select the checkpoint.",
    "test": "With --train: test file, to report the score.",
    "columns": "With --train: text column, or two for pairs, such as a,b. The default is text.",
    "label": "With --train: label column. The default is label.",
    "data_dir": "Folder with data sets. The default is SENTEMB_DATA.",
}
_MULTITASK_FLAGS = {
    "nli": "NLI triples for the contrastive task: file or catalogue name. The default is simcse-nli.",
    "held_out": "Hold out this share of quora-dev.csv for the evaluation.",
    "rows": "Use only N rows of each data set, for a quick test.",
    "data_dir": "Folder with data sets. The default is SENTEMB_DATA.",
}
_CONFIG = Annotated[str | None, typer.Option(help="TOML file with settings.")]
_EXPLAIN = Annotated[bool, typer.Option("--explain", help="Print all defaults with their sources and exit.")]


def _train(recipe: Recipe, config: Any, flags: dict[str, Any], resume: bool) -> None:
    """Train by a recipe, and print what came of it and what to do next."""
    from sentemb.training.progress import ConsoleProgress

    lines: Iterable[str]
    options: dict[str, Any] = {"resume": resume, "progress": ConsoleProgress()}
    following: list[str] = ["eval", "sts", config.output, getattr(config, "base", "")]
    if recipe.kind == "classification":
        from sentemb.classification.fit import train_classifier

        lines = train_classifier(config, flags, **options)
        following = ["classify", config.output, "FILE", "--output", "classes.csv"]
    elif recipe.kind == "multitask":
        from sentemb.multitask.run import train_row

        lines = train_row(config, flags, **options)
        following = []
    elif recipe.kind in ("flow", "whitening"):
        from sentemb.transforms.fit import fit_transform

        lines = [str(fit_transform(config, progress=options["progress"]))]
    elif recipe.kind == "pretraining":
        from sentemb.pretraining import pretrain

        lines = _told(pretrain(config, **options))
        following = ["train", "simcse", "--base", config.output, "--data", "TEXTS", "--output", "FOLDER"]
    else:
        lines = _contrastive(config, **options)
    for line in lines:
        typer.echo(line)
    if recipe.kind == "pairs":
        following = _index_command(config)
    if following:
        next_command(*following)


def _contrastive(config: Any, **options: Any) -> Iterator[str]:
    from sentemb.training.run import train, train_seeds

    if len(config.seeds) == 1:
        yield from _told(train(config, **options))
        return
    summary = train_seeds(config, **options)
    for trained in summary.runs:
        yield from _told(trained)
    values = summary.statistics()
    if values["standard_deviation"] is not None:
        mean, deviation, lowest, highest = (
            f"{100 * values[name]:.2f}" for name in ("mean", "standard_deviation", "lowest", "highest")
        )
        yield (
            f"dev {summary.measure} over {len(values['scores'])} seeds: {mean} ± {deviation} "
            f"(range {lowest} to {highest})"
        )


def _told(run: Any) -> Iterator[str]:
    yield f"{run.output}: checkpoint of step {run.step} of {run.steps}"
    if verdict := run.verdict():
        yield verdict


def _index_command(config: Any) -> list[str]:
    """Return the command that builds an index of the passages, by the trained encoder."""
    from sentemb.data.pairs import pair_columns

    columns = pair_columns(config.data, config.columns, data_dir=config.data_dir)
    passages = [config.data, "--text-column", columns[1]]
    folder = config.output.rstrip("/")
    model = f"{folder}/seed-{config.seeds[0]}" if len(config.seeds) > 1 else folder
    return ["index", "build", *passages, "--model", model, "--output", f"{folder}-index"]


def _command(recipe: Recipe) -> Callable[..., None]:
    """Return a function for typer with an option for each setting of a recipe."""
    own = {"classification": _CLASSIFICATION_FLAGS, "multitask": _MULTITASK_FLAGS}.get(recipe.kind, {})
    fields = recipe.config_class.model_fields
    keys = [key for key in recipe.defaults if key.startswith("loss_options.")]
    keys += [_MINI_BATCH] if "loss" in fields else []
    loss_options = {key.partition(".")[2]: key for key in keys if key.partition(".")[2] not in fields}

    def command(
        config: str | None, setting: list[str] | None, resume: bool, show_defaults: bool, **given: Any
    ) -> None:
        flags = {name: given.pop(name) for name in own}
        task = flags.get("task")
        if show_defaults:
            preset = given.get("preset") or "paper"
            defaults = explain(recipe.name, preset=preset, task=task)
            width = max(map(len, defaults))
            typer.echo(f"{recipe.name} ({preset}): {recipe.summary}")
            for key, (value, source) in defaults.items():
                typer.echo(f"  {key:<{width}}  {value:<22}  {source}")
            return
        overrides = _by_protocol(recipe, flags) if recipe.kind == "classification" else {}
        named = {name: value for name, value in given.items() if value is not None and value != []}
        overrides |= {name: value for name, value in named.items() if isinstance(value, list | bool)}
        texts = {loss_options.get(name, name): text for name, text in named.items() if isinstance(text, str)}
        assigned = split_settings(setting or ()) | texts
        chosen = resolve(recipe, task=task, file=config, overrides=overrides, assignments=assigned)
        inputs = [getattr(chosen, name, None) for name in ("base", "data", "dev")]
        inputs += [flags.get(name) for name in ("train", "validation", "test", "nli")]
        refuse_unusable_output(chosen.output, [*inputs, *getattr(chosen, "corpus", ())])
        _train(recipe, chosen, flags, resume)

    unseen = {"recipe", *option_tables(recipe.config_class), *own}
    if recipe.released is None:
        unseen.add("preset")
    parameters = [opt.parameter(name, Annotated[str | None, typer.Option(help=own[name])]) for name in own]
    parameters += [_of_field(recipe, name) for name in fields if name not in unseen]
    for name, key in loss_options.items():
        text = "Rows to encode at a time with a gradient cache. The loss is the same, with less memory."
        if key != _MINI_BATCH:
            text = f"Option of the loss.{_default(recipe, key)}"
        option = typer.Option(help=text, show_default=False)
        parameters.append(opt.parameter(name, Annotated[str | None, option]))
    parameters += [opt.parameter("config", _CONFIG), opt.parameter("setting", opt.Settings)]
    parameters += [
        opt.parameter("resume", opt.Resume, False),
        opt.parameter("show_defaults", _EXPLAIN, False),
    ]
    return opt.with_parameters(command, parameters)


def _of_field(recipe: Recipe, name: str) -> inspect.Parameter:
    """Return the option of a field, whose text `resolve` reads."""
    field, flag = recipe.config_class.model_fields[name], f"--{name.replace('_', '-')}"
    text = field.description or ""
    if name in recipe.defaults:
        text += _default(recipe, name)
    elif field.default not in (PydanticUndefined, None, ()):
        text += f" [{shown(field.default)}]"
    if field.annotation is bool:
        switch = typer.Option(f"{flag}/--no-{flag[2:]}", help=text, show_default=False)
        return opt.parameter(name, Annotated[bool | None, switch])
    names, repeated = [flag, "-o"] if name == "output" else [], name in _PATHS
    text += " Repeat for several." if repeated else ""
    option = typer.Option(*names, help=text, metavar=_placeholder(field.annotation), show_default=False)
    return opt.parameter(name, Annotated[list[str] | None if repeated else str | None, option])


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


def _by_protocol(recipe: Recipe, flags: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that the paper has for a task."""
    from sentemb.classification.fit import check_flags

    flags["protocol"] = flags["protocol"] or recipe.protocol
    check_flags(flags)
    if flags["protocol"] is None:
        return {}
    if flags["protocol"] not in PROTOCOLS:
        raise unknown("protocol", flags["protocol"], PROTOCOLS)
    protocol = PROTOCOLS[flags["protocol"]]
    of_task = protocol.tasks.get(flags["task"] or "", {})
    shared = optimization_of(protocol.optimization) if protocol.optimization else {}
    return shared | {name: value for name, value in of_task.items() if name != "test"}


def _stand_in(recipe: Recipe) -> Callable[[], Any]:
    return lambda: as_command(recipe.name, _command(recipe), help=recipe.summary)


class RecipeGroup(LazyGroup):
    """Names an unknown recipe, and the closest known one, in one line."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Look the recipe up before the base class does."""
        if not args[0].startswith("-"):
            get_recipe(args[0])
        return super().resolve_command(ctx, args)


app = group_app(
    "Train an encoder by a recipe. `sentemb train RECIPE --help` lists its settings with their defaults and "
    "sources.",
    cls=RecipeGroup,
)
_ORDER = [*_COMMON, *(one.name for kind in KINDS for one in RECIPES.values() if one.kind == kind)]
for _recipe in (RECIPES[name] for name in dict.fromkeys(_ORDER)):
    # The rows of the multi-task tables are many, and known to who has the paper.
    app.command(_recipe.name, help=_recipe.summary, hidden=_recipe.kind == "multitask")(_stand_in(_recipe))
