"""`sentemb tune`: the options of a classifier's recipe that are best on validation rows."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sentemb._files import write_text
from sentemb.cli.console import next_command, say
from sentemb.cli.experiment import assigned
from sentemb.cli.options import DataDir, Seeds, Settings, local_output, split_seeds
from sentemb.errors import InputError
from sentemb.training.values import to_toml

if TYPE_CHECKING:
    from sentemb.experiments.tuning import Tuned
    from sentemb.report.table import Table


def tune(
    recipe: Annotated[str, typer.Argument(help="Recipe, such as scl or lacon.")],
    data_set: Annotated[
        str, typer.Argument(metavar="SET", help="Labelled data set, such as cola, or a file.")
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Folder for the journal and the results.", callback=local_output),
    ],
    grid: Annotated[
        list[str],
        typer.Option(
            help="Values to try for an option: KEY=A,B,..., such as learning_rate=2e-5,1e-4. Repeat for "
            "several options."
        ),
    ],
    base: Annotated[str | None, typer.Option(help="Base model: folder, hub id or bundled model.")] = None,
    rows: Annotated[
        int | None, typer.Option(min=2, max=10**9, help="Train on a stratified subset of N rows.")
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(help="Data option: KEY=VALUE, such as rule=lacon or paper=scl. Repeat for several."),
    ] = None,
    seeds: Seeds = None,
    trials: Annotated[
        int | None,
        typer.Option(min=1, help="Number of combinations to try, drawn at random. The default is all."),
    ] = None,
    setting: Settings = None,
    data_dir: DataDir = None,
) -> None:
    """Tune the options of a recipe by validation score. Run the same command again to resume.

    Writes a table of all combinations, and the best one to RECIPE.SET.toml for
    `sentemb experiment --methods`.
    """
    from sentemb._files import check_writable
    from sentemb.evaluation.naming import slug
    from sentemb.experiments import load_experiment
    from sentemb.experiments.classification import (
        ClassificationData,
        ClassificationTrials,
        describe,
        validate,
    )
    from sentemb.experiments.experiment import nested
    from sentemb.experiments.runner import Place
    from sentemb.experiments.tuning import tune as search
    from sentemb.experiments.validation import checked_model

    import_module("optuna")  # an extra, without which the reading of the data would be lost
    experiment = load_experiment("full").replace(
        rows=[recipe],
        datasets=[data_set],
        values=None if rows is None else [rows],
        seeds=(1,) if seeds is None else split_seeds(seeds),
        options=assigned("set", setting or ()),
        base=base,
    )
    options = checked_model(ClassificationData, assigned("data", data or ()), "--data")
    kind = ClassificationTrials(experiment, options, Place(output, data_dir, announce=say))
    trial = kind.trials()[0]
    splits = kind.splits(trial)
    check_writable(output)
    tuned = search(
        validate,
        describe,
        trial.method,
        splits,
        _grid(grid),
        journal=output / "tuning.log",
        seeds=experiment.seeds,
        trials=trials,
        announce=say,
    )
    stem = f"{slug(recipe)}.{slug(trial.datasets[0])}"
    table = _table(
        tuned, f"{recipe} on {data_set}, {trial.method.options['metric']} x 100 on validation rows"
    ).markdown()
    write_text(output / f"{stem}.md", table)
    write_text(output / f"{stem}.toml", to_toml({recipe: nested(tuned.tried[0].settings)}))
    typer.echo(table, nl=False)
    methods = output / f"{stem}.toml"
    next_command("experiment", "full", recipe, "--methods", methods, "--sets", data_set, "-o", "FOLDER")


def _grid(arguments: Sequence[str]) -> dict[str, list[Any]]:
    grid = {}
    for argument in arguments:
        name, _, text = argument.partition("=")
        if not name.strip():
            raise InputError(f"--grid {argument} does not name an option", "write --grid NAME=A,B,C")
        (values,) = assigned("grid", [f"values={text or ' '}"]).values() if text else ([],)
        listed = values if isinstance(values, list) else [values]
        if not listed or not all(isinstance(value, str | int | float) for value in listed):
            raise InputError(f"--grid {argument} is not a list of values", f"write --grid {name}=A,B,C")
        grid[name] = list(dict.fromkeys(listed))
    return grid


def _table(tuned: Tuned, title: str) -> Table:
    from sentemb.report.table import Table

    names = list(tuned.tried[0].settings)
    return Table(
        title=title,
        header=("rank", *names, "score"),
        rows=tuple(
            (str(rank), *(str(one.settings[name]) for name in names), f"{100 * one.score:.1f}")
            for rank, one in enumerate(tuned.tried, start=1)
        ),
    )
