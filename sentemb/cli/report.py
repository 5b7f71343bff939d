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
    folders: Annotated[list[Path], typer.Argument(help="Folders of records.")],
    format: Annotated[
        Format | None, typer.Option("--format", "-f", help="By the ending of --output, else markdown.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The file; else printed.")] = None,
    overwrite: Overwrite = False,
    into: Annotated[
        list[Path] | None,
        typer.Option(help="Markdown file whose parts between <!-- report:NAME --> marks are replaced."),
    ] = None,
    run: Annotated[
        list[Path] | None, typer.Option("--run", help="Folder of a run, or of its seeds, for its curve.")
    ] = None,
    baseline: Annotated[
        list[str] | None,
        typer.Option(help="Compare the others with this model, those of its base if labels tell; repeat it."),
    ] = None,
    protocol: Annotated[Literal["all", "mean", "wmean"], typer.Option(help="Protocol of STS.")] = "all",
    title: Annotated[str, typer.Option(help="Title of the report.")] = "Results",
    cache_dir: Annotated[
        Path | None, typer.Option(help="Keep comparisons here; ~/.cache/sentemb/comparisons by default.")
    ] = None,
) -> None:
    """Make tables of records: STS, transfer tasks, geometry, layers; with figures and comparisons on a page.

    `labels.toml` in a folder says what its models are called: a table [MODEL] for each, with base, method and
    pooling, in the order of the rows.
    """
    from sentemb._files import refuse_existing, refuse_unusable_output, write_text
    from sentemb.report.build import build_report
    from sentemb.report.into import put_into, read_marked
    from sentemb.report.sections import html_report, latex_report, markdown_report

    chosen = format or (_ENDINGS.get(output.suffix.lower(), "markdown") if output else "markdown")
    if into and output is None and chosen != "markdown":
        raise InputError(f"--into takes markdown, not {chosen}", "leave --format out, or add --output")
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
