"""`sentemb report`: what folders of records hold, as markdown, LaTeX, or one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from sentemb.cli.console import next_command, progress_bar, say
from sentemb.cli.options import Options, Overwrite, grouped
from sentemb.errors import InputError

Format = Literal["markdown", "latex", "html"]
_ENDINGS: dict[str, Format] = {".md": "markdown", ".tex": "latex", ".html": "html", ".htm": "html"}


class _Options(Options):
    folders: Annotated[list[Path], typer.Argument()]
    """Folders with records."""
    format: Annotated[Format | None, typer.Option("--format", "-f")] = None
    """Output format. The default follows the extension of --output, or is markdown."""
    output: Annotated[Path | None, typer.Option("--output", "-o")] = None
    """Output file. By default the report is printed."""
    overwrite: Overwrite = False
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


@grouped
def report(options: _Options) -> None:
    """Make tables of records: STS, transfer tasks, retrieval, geometry and layers.

    HTML reports also have figures and comparisons.

    A file `labels.toml` in a folder names its models: a table [MODEL] for each, with base, method and
    pooling, in the order of the rows.
    """
    from sentemb._files import refuse_existing, refuse_unusable_output, write_text
    from sentemb.report.build import build_report
    from sentemb.report.into import put_into, read_marked
    from sentemb.report.page import html_report, latex_report, markdown_report

    folders, output, into, run = options.folders, options.output, options.into or [], options.run or []
    chosen = options.format or (_ENDINGS.get(output.suffix.lower(), "markdown") if output else "markdown")
    if into and output is None and chosen != "markdown":
        raise InputError(f"--into works only with markdown, not {chosen}", "remove --format, or add --output")
    for path in into:
        read_marked(path)
    if output is not None:
        files = [file for folder in folders for file in (folder / "labels.toml", *folder.rglob("*.json"))]
        refuse_unusable_output(output, [*files, *run], cache=options.cache_dir)
        refuse_existing(output, overwrite=options.overwrite)
    with progress_bar() as progress:
        built = build_report(
            folders,
            runs=run,
            protocol=options.protocol,
            baselines=options.baseline or [],
            figures=chosen == "html",
            cache=options.cache_dir or Path.home() / ".cache" / "sentemb" / "comparisons",
            progress=progress,
        )
    texts = {one.name: one.markdown() for one in built.sections}
    for path, names in put_into(into, texts).items():
        say(f"{path}: {', '.join(names)}")
    if into and output is None:
        return
    if chosen == "html":
        text = html_report(options.title, built.sections, verdicts=built.verdicts)
    else:
        text = (
            latex_report(built.sections)
            if chosen == "latex"
            else markdown_report(options.title, built.sections)
        )
    if output is None:
        typer.echo(text, nl=False)
        return
    write_text(output, text)
    for verdict in built.verdicts:
        say(verdict)
    say(f"{output}: {', '.join(one.heading for one in built.sections)}")
    if not options.baseline:
        next_command("report", *folders, "--baseline", "MODEL", "-o", output)
