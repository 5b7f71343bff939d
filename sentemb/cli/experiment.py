"""`sentemb experiment`: the papers' experiments and your own, from TOML."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sentemb.cli.console import next_command, say
from sentemb.cli.options import (
    AllowCountMismatch,
    DataDir,
    Jobs,
    Seeds,
    Settings,
    local_output,
    split_names,
    split_numbers,
    split_seeds,
)
from sentemb.errors import InputError
from sentemb.training.settings import split_settings
from sentemb.training.values import parsed_option, to_toml

if TYPE_CHECKING:
    from sentemb.experiments import Experiment

_DATA = (
    "Data option of the experiment: KEY=VALUE, such as rule=lacon, test_rows=400 or held_out=0.2. "
    "--explain lists them. Repeat for several options."
)


def experiment(
    name: Annotated[str, typer.Argument(help="Bundled experiment, or your own FILE.toml.")] = "",
    methods: Annotated[
        list[str] | None,
        typer.Argument(
            help="Methods or groups of the experiment, or any recipes. The default is the methods of the "
            "paper's table."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for records and tables.", callback=local_output),
    ] = None,
    base: Annotated[str | None, typer.Option(help="Base model of every method.")] = None,
    base_for: Annotated[
        list[str] | None, typer.Option(help="Base model for one data set: SET=BASE. Repeat for several sets.")
    ] = None,
    sets: Annotated[
        str | None,
        typer.Option(
            help="Data sets or files, separated by commas: cola,mine.csv. SET/SPLIT trains on that split."
        ),
    ] = None,
    values: Annotated[
        str | None,
        typer.Option(
            help="Values of the experiment's variable instead of the paper's, such as 20,100 (examples)."
        ),
    ] = None,
    seeds: Seeds = None,
    setting: Settings = None,
    data: Annotated[list[str] | None, typer.Option(help=_DATA)] = None,
    methods_file: Annotated[
        Path | None, typer.Option("--methods", help="TOML file with a table of options for each method.")
    ] = None,
    baseline: Annotated[str | None, typer.Option(help="Method with which the others are compared.")] = None,
    best: Annotated[
        int | None, typer.Option(min=1, help="Report only the N best runs by validation score.")
    ] = None,
    jobs: Jobs = 1,
    models: Annotated[
        Path | None, typer.Option(help="Folder in which models are trained. The default is OUTPUT/models.")
    ] = None,
    keep_models: Annotated[
        bool, typer.Option("--keep-models", help="Keep models after they are evaluated.")
    ] = False,
    no_run: Annotated[
        bool, typer.Option("--no-run", help="Only rebuild the tables from existing results. Do not train.")
    ] = False,
    figures: Annotated[
        bool, typer.Option("--figures", help="Draw figures of the scores over the values.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print the experiment and its data options.")
    ] = False,
    listing: Annotated[bool, typer.Option("--list", help="List the bundled experiments.")] = False,
    data_dir: DataDir = None,
    allow_count_mismatch: AllowCountMismatch = False,
) -> None:
    """Train methods, evaluate them and compare them. Finished trials are kept and not run again."""
    from sentemb.experiments import load_experiment, run_experiment, write_tables
    from sentemb.experiments.experiment import joined

    if listing or not name:
        typer.echo(_listing(), nl=False)
        return
    chosen = load_experiment(name)
    if methods_file is not None:
        chosen = chosen.with_methods(methods_file)
    given: dict[str, Any] = {**chosen.data, **assigned("data", data or ())}
    chosen = chosen.replace(
        rows=methods or None,
        base=base,
        bases=split_settings(base_for or (), option="base-for", key="SET") or None,
        datasets=split_names(sets) if sets else None,
        values=None if values is None else split_numbers("values", values),
        seeds=None if seeds is None else split_seeds(seeds),
        options=joined(chosen.options, assigned("set", setting or ())),
        data=given | ({"check_rows": False} if allow_count_mismatch else {}),
        baseline=baseline,
        best=best,
    )
    if explain:
        typer.echo(_explained(chosen), nl=False)
        return
    if output is None:
        raise InputError("--output is missing", "pass --output FOLDER")
    if not no_run:
        from sentemb.training.progress import ConsoleProgress

        try:
            run_experiment(
                chosen,
                output,
                jobs=jobs,
                data_dir=data_dir,
                work=models,
                keep_models=keep_models,
                progress=ConsoleProgress(),
            )
        except KeyboardInterrupt as stopped:
            say("interrupted; run the same command again to resume")
            raise typer.Exit(128 + getattr(stopped, "number", signal.SIGINT)) from None
    path = write_tables(chosen, output)
    typer.echo(path.read_text(encoding="utf-8"), nl=False)
    if figures:
        from sentemb.experiments.drawing import draw

        for picture in draw(chosen, output):
            say(str(picture))
    next_command("report", output)


def assigned(option: str, arguments: Sequence[str]) -> dict[str, Any]:
    """Read KEY=VALUE, where the value is one of TOML, a list with commas, or text; KEY may be TABLE.NAME."""
    from sentemb.experiments.experiment import nested

    texts = split_settings(arguments, option=option)
    return nested({key: parsed_option(text) for key, text in texts.items()})


def _listing() -> str:
    from sentemb.experiments import experiment_names, load_experiment

    known = [load_experiment(name) for name in experiment_names()]
    return "".join(f"{one.name:<19} {one.title}\n{'':<19} {one.source}\n" for one in known)


def _explained(chosen: Experiment) -> str:
    """The experiment as a TOML file holds it, and the options of its table `data`."""
    from sentemb.experiments.run import data_fields

    values = chosen.model_dump(mode="json")
    options = [f"#   {key}: {field.description}" for key, field in data_fields(chosen).items()]
    told = to_toml({key: value for key, value in values.items() if value})
    return "\n".join([told, "# --data KEY=VALUE:", *options]) + "\n"
