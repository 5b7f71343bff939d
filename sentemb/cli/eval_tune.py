"""`sentemb eval tune`: the settings of a method that are best on validation rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sentemb._files import write_text
from sentemb.cli.eval_classify import Rule, parse_numbers
from sentemb.cli.options import DataDir
from sentemb.errors import InputError

if TYPE_CHECKING:
    from sentemb.evaluation.classification.tuning import Tuned
    from sentemb.evaluation.table import Table


def tune(
    method: Annotated[str, typer.Argument(help="A recipe, such as scl or lacon.")],
    data: Annotated[str, typer.Argument(help="A labelled set, such as cola.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the journal and the results.")],
    grid: Annotated[
        list[str],
        typer.Option(help="KEY=VALUE,VALUE,...: learning_rate=2e-5,1e-4 loss_options.heads=2,6; repeat it."),
    ],
    base: Annotated[str | None, typer.Option(help="Base model.")] = None,
    rows: Annotated[int | None, typer.Option(min=2, help="Train on a stratified subset.")] = None,
    rule: Annotated[Rule | None, typer.Option(help="How validation rows are made.")] = None,
    paper: Annotated[
        Literal["scl", "lacon"] | None, typer.Option(help="Whose metrics and optimization.")
    ] = None,
    seeds: Annotated[str, typer.Option(help="One training each at every point: 1,2,3.")] = "1",
    trials: Annotated[
        int | None, typer.Option(min=1, help="Try so many points, chosen by optuna; by default all.")
    ] = None,
    setting: Annotated[list[str] | None, typer.Option("--set", help="Any other setting: KEY=VALUE.")] = None,
    data_dir: DataDir = None,
) -> None:
    """Try settings by validation score and keep the best; the same command goes on where it was stopped.

    Leaves a table of all points, and the best ones as METHOD.SET.toml for `sentemb eval classify --methods`.
    """
    from sentemb.classification import ClassifierConfig
    from sentemb.classification.cells import describe, fit_predict
    from sentemb.evaluation.classification import Method, ProtocolData
    from sentemb.evaluation.classification.protocols import full
    from sentemb.evaluation.classification.tuning import tune as search
    from sentemb.evaluation.record_files import prepare_folder, slug
    from sentemb.training import parse_settings, split_settings

    options = parse_settings(split_settings(setting or ()), ClassifierConfig)
    experiment = replace(
        full(() if rows is None else (rows,)),
        seeds=parse_numbers("seeds", seeds),
        rule=rule,
        paper=paper,
        options=options | ({} if base is None else {"base": base}),
    )
    cell = experiment.cells([Method(method, method)], [data])[0]
    prepare_folder(output)
    tuned = search(
        fit_predict,
        describe,
        cell.method,
        ProtocolData(data_dir, rule=rule)(cell),
        _grid(grid),
        journal=output / "tuning.log",
        metric=cell.metric,
        seeds=experiment.seeds,
        trials=trials,
        say=lambda line: typer.echo(line, err=True),
    )
    stem = f"{slug(method)}.{slug(data)}"
    table = _table(tuned, f"{method} on {data}, {cell.metric} x 100 on validation rows").markdown()
    write_text(output / f"{stem}.md", table)
    write_text(output / f"{stem}.toml", _toml(method, tuned.trials[0].settings))
    typer.echo(table, nl=False)


def _grid(arguments: Sequence[str]) -> dict[str, list[Any]]:
    from sentemb.classification import ClassifierConfig
    from sentemb.training import parse_settings, split_settings
    from sentemb.training.values import toml_or_text

    grid = {}
    for name, text in split_settings(arguments).items():
        values = [toml_or_text(part.strip()) for part in text.split(",")]
        if not all(isinstance(value, str | int | float) for value in values):
            raise InputError(f"--grid {name}={text} is no list of values", f"write --grid {name}=A,B,C")
        for part in text.split(","):
            parse_settings({name: part.strip()}, ClassifierConfig)  # the setting is there and takes it
        grid[name] = list(dict.fromkeys(values))
    return grid


def _table(tuned: Tuned, title: str) -> Table:
    from sentemb.evaluation.table import Table

    names = list(tuned.trials[0].settings)
    return Table(
        title=title,
        header=("rank", *names, "score"),
        rows=tuple(
            (str(rank), *(str(trial.settings[name]) for name in names), f"{100 * trial.score:.1f}")
            for rank, trial in enumerate(tuned.trials, start=1)
        ),
    )


def _toml(method: str, settings: Any) -> str:
    # A string, number or boolean of JSON is one of TOML.
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    return "\n".join([f"[{method}]", *lines]) + "\n"
