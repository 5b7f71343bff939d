"""`sentemb report`, `compare` and `card`: what folders of records hold, and whether differences are real."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from sentemb.cli import options as opt
from sentemb.cli.console import next_command, next_step, progress_bar, say, show
from sentemb.errors import InputError


class _Report(opt.Options):
    folders: Annotated[list[Path], typer.Argument()]
    """Folders with records."""
    output: opt.NewFile = None
    """Output file: .html, .tex, or any other for markdown. By default the report is printed as markdown."""
    overwrite: opt.Overwrite = False
    into: list[Path] | None = None
    """Markdown file to update: its parts between <!-- report:NAME --> markers are replaced. Repeat for
    several."""
    run: list[Path] | None = None
    """Folder of a training run, or of its seeds, to draw the training curve. Repeat for several."""
    baseline: list[str] | None = None
    """Baseline model: the others are compared with it, or only those with the same base in labels.toml.
    Repeat for several."""
    protocol: Literal["all", "mean", "wmean"] = "all"
    """How to combine the subsets of an STS set."""
    title: str = "Results"
    """Title of the report."""
    cache_dir: Path | None = None
    """Cache folder for comparisons. The default is ~/.cache/sentemb/comparisons."""


@opt.grouped
def report(options: _Report) -> None:
    """Make tables of records: STS, transfer tasks, retrieval, geometry and layers.

    HTML reports also have figures and comparisons.

    A file `labels.toml` in a folder names its models: a table [MODEL] for each, with base, method and
    pooling, in the order of the rows.
    """
    from sentemb._files import write_text
    from sentemb.report.build import build_report, put_into, read_marked
    from sentemb.report.page import html_report, latex_report, markdown_report

    folders, output, into = options.folders, options.output, options.into or []
    form = "" if output is None else output.suffix.lower()
    for path in into:
        read_marked(path)
    if output is not None:
        files = [file for folder in folders for file in (folder / "labels.toml", *folder.rglob("*.json"))]
        options.check_output(*files, *(options.run or ()))
    with progress_bar() as progress:
        built = build_report(
            folders,
            runs=options.run or [],
            protocol=options.protocol,
            baselines=options.baseline or [],
            figures=form in (".html", ".htm"),
            cache=options.cache_dir or Path.home() / ".cache" / "sentemb" / "comparisons",
            progress=progress,
        )
    for path, names in put_into(into, {one.name: one.markdown() for one in built.sections}).items():
        say(f"{path}: {', '.join(names)}")
    if into and output is None:
        return
    if form in (".html", ".htm"):
        text = html_report(options.title, built.sections, verdicts=built.verdicts)
    elif form == ".tex":
        text = latex_report(built.sections)
    else:
        text = markdown_report(options.title, built.sections)
    if output is None:
        typer.echo(text, nl=False)
        return
    write_text(output, text)
    for verdict in built.verdicts:
        say(verdict)
    say(f"{output}: {', '.join(one.heading for one in built.sections)}")
    if not options.baseline:
        next_command("report", *folders, "--baseline", "MODEL", "-o", output)


class _Compare(opt.Options):
    systems: Annotated[list[str] | None, typer.Argument()] = None
    """Names, paths or fingerprints of evaluated models. The first is compared with each of the others. With
    --board, the models to rank. Default: all."""
    records: Annotated[list[Path] | None, typer.Option("--records", "-r")] = None
    """Record file, or folder with records. Repeat for several."""
    board: Annotated[str | None, typer.Option()] = None
    """Table to rank instead of records: a CSV, TSV, JSONL or Parquet file with the columns model, task (or
    query) and score. Higher is better."""
    suite: str | None = None
    """Suite to compare on: sts, multilingual, transfer or retrieval. Not needed if the records are of one
    suite."""
    measure: str | None = None
    """Metric to compare. The default is the main metric of the suite."""
    preset: str | None = None
    """Preset of transfer records or protocol of retrieval records. Required if there are several."""
    draws: int = 2000
    """Number of bootstrap resamples and of permutations, up to 1,000,000."""
    confidence: float = 0.95
    """Confidence level of the intervals."""


@opt.grouped
def compare(options: _Compare) -> None:
    """Compare encoders on the same items of their records, with intervals, p-values and power.

    --board ranks the models of any table of scores instead, with intervals of their ranks.

    Records of several seeds of a method (MODEL-seed-N) are compared as one system, called MODEL.
    """
    systems, records = options.systems or [], options.records or []
    if options.board is not None:
        _rank(options)
        return
    if not records:
        raise InputError(
            "no records to compare", "pass --records FOLDER, or --board FILE for a table of scores"
        )
    if len(systems) < 2:
        raise InputError("a comparison needs at least two models; got one", "name another model")
    from sentemb.evaluation.comparison import compare_all
    from sentemb.evaluation.systems import select_records, system_of
    from sentemb.report.comparisons import comparison_table, rank_table

    found = select_records(records, systems, **options.values("suite", "preset"))
    first, *others = (system_of(found, name, measure=options.measure) for name in systems)
    how = options.values("draws", "confidence")
    with progress_bar() as bar:
        progress = lambda done, total: bar("comparing", done, total)  # noqa: E731
        comparisons = compare_all(first, others, **how, progress=progress)
    for comparison in comparisons:
        typer.echo(comparison.sentence() + ".")
        typer.echo(comparison.power_sentence() + ".")
    for comparison in comparisons:
        typer.echo()
        show(comparison_table(comparison))
    if len(others) > 1:
        from sentemb.evaluation.ranks import rank_systems

        typer.echo()
        show(rank_table(rank_systems([first, *others], **how), options.confidence, "items"))
    next_command("report", *records, "--baseline", systems[0], "-o", "report.html")


def _rank(options: _Compare) -> None:
    """Print the models of a table of scores with the intervals of their ranks."""
    from sentemb.evaluation.ranks import rank_board, read_board
    from sentemb.report.comparisons import board_table

    for name in ("records", "suite", "measure", "preset"):
        if getattr(options, name):
            raise InputError(f"--{name} is for records, not for --board", "drop one of them")
    assert options.board is not None
    found = rank_board(
        read_board(options.board, options.systems or ()), **options.values("draws", "confidence")
    )
    for sentence in (found.sentence(), found.power_sentence()):
        typer.echo(sentence + ".")
    typer.echo()
    show(board_table(found))
    first, second = found.ranked[:2]
    next_command("compare", first.name, second.name, "--board", options.board)


def card(
    model: Annotated[Path, typer.Argument(help="Folder of the model whose card to update.")],
    records: opt.Records,
) -> None:
    """Write the evaluation results of a model into its README.md, as hub metadata and as tables.

    The rest of the file is not changed. Running the command again replaces its earlier output.
    """
    if not model.is_dir():
        raise InputError(f"no such folder: {model}", "name the folder in which the model was saved")
    from sentemb.encoding import load_encoder
    from sentemb.evaluation.card import eval_results, evaluation_section, update_card
    from sentemb.evaluation.record import load_records
    from sentemb.report.results import tables_of

    encoder = load_encoder(model)
    found = load_records(records, fingerprint=encoder.fingerprint)
    tables = [table.markdown() for table in tables_of(found)]
    path, results = model / "README.md", eval_results(found)
    update_card(path, encoder.name, results, evaluation_section(found, tables))
    typer.echo(f"{path}: {len(results)} results of {encoder.name}")
    next_step(f"huggingface-cli upload ORG/NAME {model}")
