"""`sentemb report`: what folders of records hold, as markdown, LaTeX, or one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from sentemb.cli.console import next_command, progress_bar, say
from sentemb.cli.options import Overwrite
from sentemb.errors import InputError

Format = Literal["markdown", "latex", "html"]
_ENDINGS: dict[str, Format] = {".md": "markdown", ".tex": "latex", ".html": "html", ".htm": "html"}


def report(
    folders: Annotated[list[Path], typer.Argument(help="Folders with records.")],
    format: Annotated[
        Format | None,
        typer.Option(
            "--format",
            "-f",
            help="Output format. The default follows the extension of --output, or is markdown.",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Output file. By default the report is printed.")
    ] = None,
    overwrite: Overwrite = False,
    into: Annotated[
        list[Path] | None,
        typer.Option(
            help="Markdown file to update: its parts between <!-- report:NAME --> markers are replaced. "
            "Repeat for several."
        ),
    ] = None,
    run: Annotated[
        list[Path] | None,
        typer.Option(
            "--run",
            help="Folder of a training run, or of its seeds, to draw the training curve. Repeat for several.",
        ),
    ] = None,
    baseline: Annotated[
        list[str] | None,
        typer.Option(
            help="Baseline model: the others are compared with it, or only those with the same base in "
            "labels.toml. Repeat for several."
        ),
    ] = None,
    protocol: Annotated[
        Literal["all", "mean", "wmean"], typer.Option(help="How to combine the subsets of an STS set.")
    ] = "all",
    title: Annotated[str, typer.Option(help="Title of the report.")] = "Results",
    cache_dir: Annotated[
        Path | None,
        typer.Option(help="Cache folder for comparisons. The default is ~/.cache/sentemb/comparisons."),
    ] = None,
) -> None:
    """Make tables of records: STS, transfer tasks, retrieval, geometry and layers.

    HTML reports also have figures and comparisons.

    A file `labels.toml` in a folder names its models: a table [MODEL] for each, with base, method and
    pooling, in the order of the rows.
    """
    from sentemb._files import refuse_existing, refuse_unusable_output, write_text
    from sentemb.report.build import build_report
    from sentemb.report.into import put_into, read_marked
    from sentemb.report.sections import html_report, latex_report, markdown_report

    chosen = format or (_ENDINGS.get(output.suffix.lower(), "markdown") if output else "markdown")
    if into and output is None and chosen != "markdown":
        raise InputError(f"--into works only with markdown, not {chosen}", "remove --format, or add --output")
    for path in into or []:
        read_marked(path)
    if output is not None:
        files = [file for folder in folders for file in (folder / "labels.toml", *folder.rglob("*.json"))]
        refuse_unusable_output(output, [*files, *(run or ())], cache=cache_dir)
        refuse_existing(output, overwrite=overwrite)
    with progress_bar() as progress:
        built = build_report(
            folders,
            runs=run or [],
            protocol=protocol,
            baselines=baseline or [],
            figures=chosen == "html",
            cache=cache_dir or Path.home() / ".cache" / "sentemb" / "comparisons",
            progress=progress,
        )
    texts = {one.name: one.markdown() for one in built.sections}
    for path, names in put_into(into or [], texts).items():
        say(f"{path}: {', '.join(names)}")
    if into and output is None:
        return
    if chosen == "html":
        text = html_report(title, built.sections, verdicts=built.verdicts)
    else:
        text = latex_report(built.sections) if chosen == "latex" else markdown_report(title, built.sections)
    if output is None:
        typer.echo(text, nl=False)
        return
    write_text(output, text)
    for verdict in built.verdicts:
        say(verdict)
    say(f"{output}: {', '.join(one.heading for one in built.sections)}")
    if not baseline:
        next_command("report", *folders, "--baseline", "MODEL", "-o", output)
