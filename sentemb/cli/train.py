"""`sentemb train RECIPE`: one command per recipe, its options made from the recipe's configuration."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import typer
from typer.main import get_command

from sentemb.cli.console import error_line, next_command
from sentemb.cli.main import LazyGroup, run
from sentemb.cli.settings import settings_command
from sentemb.errors import unknown
from sentemb.training.recipes import KINDS, PROTOCOLS, RECIPES, Recipe, get_recipe, optimization_of

if TYPE_CHECKING:
    from sentemb.training.outcome import Run
    from sentemb.training.progress import ConsoleProgress
    from sentemb.training.run import SeedSummary

_COMMON = ("pairs", "simcse", "simcse-supervised", "sg-opt", "bt", "quora")  # first in the list of recipes
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


class RecipeGroup(LazyGroup):
    """Names an unknown recipe, and the closest known one, in one line."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Look the recipe up before the base class does."""
        if not args[0].startswith("-"):
            get_recipe(args[0])
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=RecipeGroup,
    help="Train an encoder by a recipe. `sentemb train RECIPE --help` lists its settings with their defaults "
    "and sources.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


def program(recipes: Mapping[str, str], *, default: str, option: str = "objective") -> None:
    """Run a program that trains one of several recipes, which `--objective` names."""
    arguments = sys.argv[1:]
    chosen, flag = default, f"--{option}"
    if flag in arguments and arguments.index(flag) + 1 < len(arguments):
        at = arguments.index(flag)
        chosen = arguments[at + 1]
        del arguments[at : at + 2]
    if chosen not in recipes:
        sys.stderr.write(error_line(str(unknown(option, chosen, recipes))))
        sys.exit(2)
    run(["train", *recipes[chosen].split(), *arguments])


def _stand_in(recipe: Recipe) -> Callable[[], Any]:
    def load() -> Any:
        single = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        single.command(recipe.name, help=recipe.summary)(_command(recipe))
        return get_command(single)

    return load


def _command(recipe: Recipe) -> Callable[..., None]:
    if recipe.kind == "classification":
        return settings_command(recipe, _classifier, flags=_CLASSIFICATION_FLAGS, adjust=_by_protocol)
    if recipe.kind == "multitask":
        return settings_command(recipe, _multitask, flags=_MULTITASK_FLAGS)
    return settings_command(recipe, _ACTS[recipe.kind])


def _contrastive(config: Any, resume: bool) -> None:
    _train(config, resume)
    next_command("eval", "sts", config.output, config.base)


def _pairs(config: Any, resume: bool) -> None:
    _train(config, resume)
    next_command(*_index_command(config))


def _index_command(config: Any) -> list[str]:
    """Return the command that builds an index of the passages, by the trained encoder."""
    from sentemb.data.positive_pairs import pair_columns

    columns = pair_columns(config.data, config.columns, data_dir=config.data_dir)
    passages = [config.data, "--text-column", columns.names[1]] if columns.is_header else ["DOCUMENTS"]
    model = config.output.rstrip("/")
    output = f"{model}-index"
    if len(config.seeds) > 1:
        model += f"/seed-{config.seeds[0]}"
    return ["index", "build", *passages, "--model", model, "--output", output]


def _train(config: Any, resume: bool) -> None:
    from sentemb.training.run import train, train_seeds

    if len(config.seeds) > 1:
        summary = train_seeds(config, resume=resume, progress=_progress())
        for run in summary.runs:
            _report(run)
        _report_seeds(summary)
    else:
        _report(train(config, resume=resume, progress=_progress()))


def _classifier(config: Any, resume: bool, flags: dict[str, Any]) -> None:
    from sentemb.classification.program import train_classifier

    for line in train_classifier(config, flags, resume=resume, progress=_progress()):
        typer.echo(line)
    next_command("classify", config.output, "FILE", "--output", "classes.csv")


def _by_protocol(recipe: Recipe, flags: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that the paper has for a task."""
    from sentemb.classification.program import check_flags

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


def _transform(config: Any, resume: bool) -> None:
    from sentemb.transforms.program import fit_transform

    typer.echo(str(fit_transform(config, progress=_progress())))
    next_command("eval", "sts", config.output, config.base)


def _pretrain(config: Any, resume: bool) -> None:
    from sentemb.pretraining import pretrain

    _report(pretrain(config, resume=resume, progress=_progress()))
    next_command("train", "simcse", "--base", config.output, "--data", "TEXTS", "--output", "FOLDER")


def _multitask(config: Any, resume: bool, flags: dict[str, Any]) -> None:
    from sentemb.multitask.run import train_row

    for line in train_row(config, flags, resume=resume, progress=_progress()):
        typer.echo(line)


def _progress() -> ConsoleProgress:
    from sentemb.training.progress import ConsoleProgress

    return ConsoleProgress()


def _report(run: Run) -> None:
    typer.echo(f"{run.output}: checkpoint of step {run.step} of {run.steps}")
    if verdict := run.verdict():
        typer.echo(verdict)


def _report_seeds(summary: SeedSummary) -> None:
    values = summary.statistics()
    if values["standard_deviation"] is not None:
        typer.echo(
            f"dev {summary.measure} over {len(values['scores'])} seeds: {100 * values['mean']:.2f} "
            f"± {100 * values['standard_deviation']:.2f} "
            f"(range {100 * values['lowest']:.2f} to {100 * values['highest']:.2f})"
        )


_ACTS: dict[str, Callable[..., None]] = {
    "contrastive": _contrastive,
    "pairs": _pairs,
    "flow": _transform,
    "whitening": _transform,
    "pretraining": _pretrain,
}
_ORDER = [*_COMMON, *(one.name for kind in KINDS for one in RECIPES.values() if one.kind == kind)]
for _recipe in (RECIPES[name] for name in dict.fromkeys(_ORDER)):
    # The rows of the multi-task tables are many, and known to who has the paper.
    app.command(_recipe.name, help=_recipe.summary, hidden=_recipe.kind == "multitask")(_stand_in(_recipe))
