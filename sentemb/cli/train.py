"""`sentemb train RECIPE`: one command per recipe, all with the same flags."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from sentemb.cli.settings import settings_command
from sentemb.training.recipes import Recipe, get_recipe, recipes_of

if TYPE_CHECKING:
    from sentemb.training.outcome import Run
    from sentemb.training.run import SeedSummary


class RecipeGroup(TyperGroup):
    """Names an unknown recipe, and the closest known one, in one line."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Look the recipe up before the base class does."""
        if not args[0].startswith("-"):
            get_recipe(args[0])
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=RecipeGroup,
    help="Train an encoder. sentemb train RECIPE --explain shows each default and its source.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


def _command(recipe: Recipe) -> Callable[..., None]:
    def command(
        base: Annotated[str | None, typer.Option(help="Base model: a folder or a hub id.")] = None,
        data: Annotated[
            str | None, typer.Option(help="Training text: file, folder, hub id or catalogue name.")
        ] = None,
        output: Annotated[str | None, typer.Option(help="Folder for the model and the run.")] = None,
        config: Annotated[str | None, typer.Option(help="TOML file with any of the settings.")] = None,
        column: Annotated[
            list[str] | None, typer.Option(help="Text column; repeat it in the order of the roles.")
        ] = None,
        epochs: Annotated[int | None, typer.Option(help="Passes over the data.")] = None,
        max_steps: Annotated[int | None, typer.Option(help="Stop after this many steps.")] = None,
        batch_size: Annotated[int | None, typer.Option(help="Rows per step and process.")] = None,
        learning_rate: Annotated[float | None, typer.Option(help="Peak learning rate.")] = None,
        temperature: Annotated[float | None, typer.Option(help="Divides the cosine.")] = None,
        max_length: Annotated[int | None, typer.Option(help="Longest training input in tokens.")] = None,
        pooling: Annotated[str | None, typer.Option(help="How a sentence vector is made.")] = None,
        seeds: Annotated[str | None, typer.Option(help="One run each: 1,2,3.")] = None,
        precision: Annotated[str | None, typer.Option(help="float32 or bfloat16.")] = None,
        dev: Annotated[
            str | None, typer.Option(help="Dev set: stsb, a file of scored pairs, or none.")
        ] = None,
        eval_steps: Annotated[int | None, typer.Option(help="Steps between evaluations.")] = None,
        data_dir: Annotated[str | None, typer.Option(help="Folder of local data sets.")] = None,
        preset: Annotated[
            str | None, typer.Option(help="paper, or released for what the published code does.")
        ] = None,
        setting: Annotated[
            list[str] | None, typer.Option("--set", help="Any setting: KEY=VALUE, loss_options.KEY=VALUE.")
        ] = None,
        resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted run.")] = False,
        explain: Annotated[
            bool, typer.Option("--explain", help="Print every default with its source and leave.")
        ] = False,
    ) -> None:
        if explain:
            _explain(recipe, preset or "paper")
            return
        from sentemb.training.settings import split_settings

        assignments = split_settings(setting or ())
        if seeds is not None:
            assignments["seeds"] = seeds
        overrides: dict[str, Any] = {
            "base": base,
            "data": data,
            "output": output,
            "columns": column or None,
            "epochs": epochs,
            "max_steps": max_steps,
            "batch_size": batch_size,
            "learning_rate": learning_rate,
            "loss_options": None if temperature is None else {"temperature": temperature},
            "max_length": max_length,
            "pooling": pooling,
            "precision": precision,
            "dev": dev,
            "eval_steps": eval_steps,
            "data_dir": data_dir,
            "preset": preset,
        }
        _train(recipe.name, config, overrides, assignments, resume=resume)

    return command


for _recipe in recipes_of("contrastive").values():
    app.command(_recipe.name, help=_recipe.summary)(_command(_recipe))


def _pretrain(config: Any, resume: bool) -> None:
    from sentemb.pretraining import pretrain
    from sentemb.training.outcome import Interrupted
    from sentemb.training.progress import ConsoleProgress

    try:
        _report(pretrain(config, resume=resume, progress=ConsoleProgress()))
    except Interrupted as interruption:
        typer.echo(f"{interruption.folder}: {interruption}", err=True)
        raise


for _recipe in recipes_of("pretraining").values():
    app.command(_recipe.name, help=_recipe.summary)(settings_command(_recipe, _pretrain))


def _train(
    recipe: str,
    file: str | None,
    overrides: dict[str, Any],
    assignments: dict[str, str],
    *,
    resume: bool,
) -> None:
    from sentemb.training.settings import resolve

    config = resolve(recipe, file=file, overrides=overrides, assignments=assignments)

    from sentemb.training.outcome import Interrupted
    from sentemb.training.progress import ConsoleProgress
    from sentemb.training.run import train, train_seeds

    progress = ConsoleProgress()
    try:
        if len(config.seeds) > 1:
            _report_seeds(train_seeds(config, resume=resume, progress=progress))
        else:
            _report(train(config, resume=resume, progress=progress))
    except Interrupted as interruption:
        typer.echo(f"{interruption.folder}: {interruption}", err=True)
        raise


def _report(run: Run) -> None:
    score = "" if run.dev_score is None else f", dev Spearman {100 * run.dev_score:.2f}"
    typer.echo(f"{run.output}: weights of step {run.step} of {run.steps}{score}")


def _report_seeds(summary: SeedSummary) -> None:
    for run in summary.runs:
        _report(run)
    values = summary.statistics()
    if values["standard_deviation"] is not None:
        typer.echo(
            f"dev Spearman of {len(values['scores'])} seeds: {100 * values['mean']:.2f} "
            f"± {100 * values['standard_deviation']:.2f} "
            f"(range {100 * values['lowest']:.2f} to {100 * values['highest']:.2f})"
        )


def _explain(recipe: Recipe, preset: str) -> None:
    sources = recipe.sources(preset)
    width = max(len(key) for key in sources)
    typer.echo(f"{recipe.name} ({preset}): {recipe.summary}")
    for key, default in sources.items():
        typer.echo(f"  {key:<{width}}  {default.value!s:<22}  {default.source}")
