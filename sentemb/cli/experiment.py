"""`sentemb experiment`: experiments from TOML, and `sentemb tune`: the best options of a recipe."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import Field

from sentemb._files import check_writable, write_text
from sentemb.cli import options as opt
from sentemb.cli.console import next_command, say
from sentemb.errors import InputError, naming
from sentemb.training.settings import split_settings
from sentemb.training.values import parsed_option, to_toml


class _Options(opt.Options):
    name: Annotated[str, typer.Argument()] = ""
    """Bundled experiment, or your own FILE.toml."""
    methods: Annotated[list[str] | None, typer.Argument()] = None
    """Methods or groups of the experiment, or any recipes. The default is the methods of the paper's
    table."""
    output: Annotated[Path | None, typer.Option("--output", "-o", callback=opt.local_output)] = None
    """Folder for records and tables."""
    base: str | None = None
    """Base model of every method."""
    base_for: list[str] | None = None
    """Base model for one data set: SET=BASE. Repeat for several sets."""
    sets: str | None = None
    """Data sets or files, separated by commas: cola,mine.csv. SET/SPLIT trains on that split."""
    values_: Annotated[str | None, typer.Option("--values")] = None
    """Values of the experiment's variable instead of the paper's, such as 20,100 (examples)."""
    seeds: opt.Seeds = None
    setting: opt.Settings = None
    data: list[str] | None = None
    """Data option of the experiment: KEY=VALUE, such as rule=lacon, test_rows=400 or held_out=0.2. --explain
    lists them. Repeat for several options."""
    methods_file: Annotated[Path | None, typer.Option("--methods")] = None
    """TOML file with a table of options for each method."""
    baseline: str | None = None
    """Method with which the others are compared, or several as A,B."""
    best: int | None = Field(None, ge=1)
    """Report only the N best runs by validation score."""
    jobs: int = Field(1, ge=1)
    """Number of runs in parallel, each in its own process."""
    models: Path | None = None
    """Folder in which models are trained. The default is OUTPUT/models."""
    keep_models: bool = False
    """Keep models after they are evaluated."""
    no_run: bool = False
    """Only rebuild the tables from existing results. Do not train."""
    figures: bool = False
    """Draw figures of the scores over the values."""
    explain: bool = False
    """Print the experiment and its data options."""
    listing: Annotated[bool, typer.Option("--list")] = False
    """List the bundled experiments."""
    data_dir: opt.DataDir = None
    allow_count_mismatch: opt.AllowCountMismatch = False


@opt.grouped
def experiment(options: _Options) -> None:
    """Train methods, evaluate them and compare them. Finished trials are kept and not run again."""
    from sentemb.experiments import experiment_names, load_experiment, run_experiment, write_tables
    from sentemb.experiments.experiment import joined
    from sentemb.experiments.tables import draw_curves

    if options.listing or not options.name:
        for one in map(load_experiment, experiment_names()):
            typer.echo(f"{one.name:<19} {one.title}\n{'':<19} {one.source}")
        return
    chosen = load_experiment(options.name)
    if options.methods_file is not None:
        chosen = chosen.with_methods(options.methods_file)
    given: dict[str, Any] = {**chosen.data, **assigned("data", options.data or ())}
    chosen = chosen.replace(
        **options.values("base", "baseline", "best"),
        rows=options.methods or None,
        bases=split_settings(options.base_for or (), option="base-for", key="SET") or None,
        datasets=opt.split_names(options.sets) if options.sets else None,
        values=None if options.values_ is None else opt.split_numbers("values", options.values_),
        seeds=None if options.seeds is None else opt.split_seeds(options.seeds),
        options=joined(chosen.options, assigned("set", options.setting or ())),
        data=given | ({"check_rows": False} if options.allow_count_mismatch else {}),
    )
    if options.explain:
        from sentemb.experiments.runner import data_fields

        typer.echo(to_toml({key: value for key, value in chosen.model_dump(mode="json").items() if value}))
        typer.echo("# --data KEY=VALUE:")
        for key, field in data_fields(chosen).items():
            typer.echo(f"#   {key}: {field.description}")
        return
    output = options.output
    if output is None:
        raise InputError("--output is missing", "pass --output FOLDER")
    if not options.no_run:
        from sentemb.training.progress import ConsoleProgress

        try:
            run_experiment(
                chosen,
                output,
                **options.values("jobs", "data_dir", "keep_models"),
                work=options.models,
                progress=ConsoleProgress(),
            )
        except KeyboardInterrupt as stopped:
            say("interrupted; run the same command again to resume")
            raise typer.Exit(128 + getattr(stopped, "number", signal.SIGINT)) from None
    path = write_tables(chosen, output)
    typer.echo(path.read_text(encoding="utf-8"), nl=False)
    for picture in draw_curves(chosen, output) if options.figures else ():
        say(str(picture))
    next_command("report", output)


def assigned(option: str, arguments: Sequence[str]) -> dict[str, Any]:
    """Read KEY=VALUE, where the value is one of TOML, a list with commas, or text; KEY may be TABLE.NAME."""
    from sentemb.experiments.experiment import nested

    texts = split_settings(arguments, option=option)
    return nested({key: parsed_option(text) for key, text in texts.items()})


class _Tune(opt.Options):
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
def tune(options: _Tune) -> None:
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
