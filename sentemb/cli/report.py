"""`sentemb report`: what folders of records hold, as markdown, LaTeX, or one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from sentemb.errors import InputError

Format = Literal["markdown", "latex", "html"]
_ENDINGS: dict[str, Format] = {".md": "markdown", ".tex": "latex", ".html": "html", ".htm": "html"}


def report(
    folders: Annotated[list[Path], typer.Argument(help="Folders of records.")],
    format: Annotated[
        Format | None, typer.Option("--format", "-f", help="By the ending of --output, else markdown.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The file; else printed.")] = None,
    into: Annotated[
        list[Path] | None,
        typer.Option(help="Markdown file whose parts between <!-- report:NAME --> marks are made anew."),
    ] = None,
    run: Annotated[
        list[Path] | None, typer.Option("--run", help="Folder of a run, or of its seeds, for its curve.")
    ] = None,
    baseline: Annotated[
        list[str] | None,
        typer.Option(help="Compare the others with this model, those of its base if labels tell; repeat it."),
    ] = None,
    protocol: Annotated[Literal["all", "mean", "wmean"], typer.Option(help="Of STS.")] = "all",
    title: Annotated[str, typer.Option(help="Of the report.")] = "Results",
) -> None:
    """Make tables of records: STS, transfer tasks, geometry, layers; with figures and comparisons on a page.

    `labels.toml` in a folder says what its models are called: a table [MODEL] for each, with base, method and
    pooling, in the order of the rows.
    """
    from sentemb._files import write_text
    from sentemb.cli.report_sections import gather
    from sentemb.report.into import put_into
    from sentemb.report.sections import html_report, latex_report, markdown_report

    chosen = format or (_ENDINGS.get(output.suffix.lower(), "markdown") if output else "markdown")
    if into and output is None and chosen != "markdown":
        raise InputError(f"--into takes markdown, not {chosen}", "leave --format out, or add --output")
    figures, baselines = chosen == "html", baseline or ()
    sections = gather(folders, runs=run or [], protocol=protocol, baselines=baselines, figures=figures)
    for path in into or []:
        names = put_into(path, {one.name: one.markdown() for one in sections})
        typer.echo(f"{path}: {', '.join(names)}")
    if into and output is None:
        return
    if chosen == "html":
        text = html_report(title, sections)
    else:
        text = latex_report(sections) if chosen == "latex" else markdown_report(title, sections)
    if output is None:
        typer.echo(text, nl=False)
        return
    write_text(output, text)
    typer.echo(f"{output}: {', '.join(one.heading for one in sections)}")
