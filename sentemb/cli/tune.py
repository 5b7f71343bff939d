"""`sentemb tune`: the options of a classifier's recipe that are best on validation rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import Field

from sentemb._files import check_writable, write_text
from sentemb.cli import options as opt
from sentemb.cli.console import next_command, say
from sentemb.cli.experiment import assigned
from sentemb.errors import InputError, naming
from sentemb.training.values import to_toml


class _Options(opt.Options):
    recipe: Annotated[str, typer.Argument()]
    """Recipe, such as scl or lacon."""
    data_set: Annotated[str, typer.Argument(metavar="SET")]
    """Labelled data set, such as cola, or a file."""
    output: Annotated[Path, typer.Option("--output", "-o", callback=opt.local_output)]
    """Folder for the journal and the results."""
    grid: list[str]
    """Values to try for an option: KEY=A,B,..., such as learning_rate=2e-5,1e-4. Repeat for several
    options."""
    base: str | None = None
    """Base model: folder, hub id or bundled model."""
    rows: int | None = Field(None, ge=2, le=10**9)
    """Train on a stratified subset of N rows."""
    data: list[str] | None = None
    """Data option: KEY=VALUE, such as rule=lacon or paper=scl. Repeat for several."""
    seeds: opt.Seeds = None
    setting: opt.Settings = None
    data_dir: opt.DataDir = None


@opt.grouped
def tune(options: _Options) -> None:
    """Tune the options of a recipe by validation score. Run the same command again to resume.

    Writes a table of all combinations, and the best one to RECIPE.SET.toml for
    `sentemb experiment --methods`.
    """
    from sentemb.evaluation.schema import slug
    from sentemb.experiments import classification, load_experiment
    from sentemb.experiments.experiment import nested
    from sentemb.experiments.runner import Place
    from sentemb.report.table import Table

    recipe, data_set, output = options.recipe, options.data_set, options.output
    experiment = load_experiment("full").replace(
        rows=[recipe],
        datasets=[data_set],
        values=None if options.rows is None else [options.rows],
        seeds=(1,) if options.seeds is None else opt.split_seeds(options.seeds),
        options=assigned("set", options.setting or ()),
        base=options.base,
    )
    with naming("--data"):
        data = classification.ClassificationData(**assigned("data", options.data or ()))
    place = Place(output, options.data_dir, announce=say)
    kind = classification.ClassificationTrials(experiment, data, place)
    trial = kind.trials()[0]
    splits = kind.splits(trial)
    check_writable(output)
    tuned = classification.tune(
        trial.method,
        splits,
        _grid(options.grid),
        journal=output / "tuning.json",
        seeds=experiment.seeds,
        announce=say,
    )
    names = list(tuned[0][0])
    title = f"{recipe} on {data_set}, {trial.method.options['metric']} x 100 on validation rows"
    rows = (
        (str(rank), *(str(point[name]) for name in names), f"{100 * score:.1f}")
        for rank, (point, score) in enumerate(tuned, start=1)
    )
    table = Table(title, ("rank", *names, "score"), tuple(rows)).markdown()
    stem = f"{slug(recipe)}.{slug(trial.datasets[0])}"
    methods = output / f"{stem}.toml"
    write_text(output / f"{stem}.md", table)
    write_text(methods, to_toml({recipe: nested(tuned[0][0])}))
    typer.echo(table, nl=False)
    next_command("experiment", "full", recipe, "--methods", methods, "--sets", data_set, "-o", "FOLDER")


def _grid(arguments: Sequence[str]) -> dict[str, list[Any]]:
    grid = {}
    for argument in arguments:
        name, _, text = argument.partition("=")
        if not name.strip():
            raise InputError(f"--grid {argument} does not name an option", "write --grid NAME=A,B,C")
        values = assigned("grid", [f"values={text}"])["values"] if text else []
        listed = values if isinstance(values, list) else [values]
        if not listed or not all(isinstance(value, str | int | float) for value in listed):
            raise InputError(f"--grid {argument} is not a list of values", f"write --grid {name}=A,B,C")
        grid[name] = list(dict.fromkeys(listed))
    return grid
