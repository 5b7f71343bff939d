"""`sentemb quickstart`: search, training and evaluation in minutes."""

from __future__ import annotations

import shutil
from itertools import zip_longest
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

import typer

from sentemb._files import refuse_unusable_output
from sentemb.cli import options as opt
from sentemb.cli.console import format_command, next_command, say, show
from sentemb.errors import InputError

if TYPE_CHECKING:
    from sentemb.quickstart import Answers

# Written first, so that nothing is ever removed from a folder that somebody else made.
MARKER = ".sentemb-quickstart"
MADE = ("documents.jsonl", "model", "adapted", "index", "index.html")
_QUESTIONS, _HITS, _WIDTH = 3, 3, 100


class _Options(opt.Options):
    base: str = "bert-mini"
    """Pretrained transformer to train: folder, hub id or bundled model."""
    model: str = "static-mini"
    """Encoder for search: folder, hub id or bundled model."""
    output: opt.OutputFolder = Path("quickstart")
    seed: opt.Seed = 1
    overwrite: opt.Overwrite = False


@opt.grouped
def quickstart(options: _Options) -> None:
    """Try search, training and evaluation in minutes, without a download."""
    output = options.output
    _check_output(options)
    from sentemb.modules.source import find_source
    from sentemb.quickstart import TEST, run_quickstart
    from sentemb.training.progress import ConsoleProgress

    for model in (options.model, options.base):
        find_source(model)
    clear(output)
    yours = ("YOUR-FILE.csv", "--text-column", "text")
    commands = (
        format_command("adapt", *yours, "--base", options.model, "--output", "my-encoder"),
        format_command("index", "build", *yours, "--model", "my-encoder", "--output", "my-index"),
        format_command("index", "search", "my-index", "your question", "--mode", "hybrid"),
    )
    given = options.values("base", "output", "model", "seed")
    try:
        made = run_quickstart(**given, commands=commands, progress=ConsoleProgress())
    except KeyboardInterrupt:
        say(f"{output}: stopped; run the command again with --overwrite to start from scratch")
        raise KeyboardInterrupt from None
    typer.echo(f"{fill(made.answers.verdict(), _WIDTH)}\n")
    show(made.answers.table(TEST))
    typer.echo(f"\n{fill(f'{made.adapted.base}, adapted without labels: {made.adapted.verdict()}', _WIDTH)}")
    for place in range(_QUESTIONS):
        typer.echo(side_by_side(made.answers, place))
    typer.echo()
    show(made.training)
    typer.echo(f"\nmodel  {output / 'model'}\nindex  {output / 'index'}\npage   {output / 'index.html'}\n")
    typer.echo("\n  ".join(["the same with your own file:", *commands]))
    next_command("index", "search", output / "index", "your question", "--mode", "hybrid")


def _check_output(options: _Options) -> None:
    output = options.output
    refuse_unusable_output(output, [options.base, options.model])
    if not output.exists() or (output.is_dir() and not any(output.iterdir())):
        return
    if not (output / MARKER).is_file():
        why = f"{output} already exists and was not made by a quickstart"
        raise InputError(why, "choose another --output")
    if not options.overwrite:
        state = "earlier" if (output / "index.html").exists() else "interrupted"  # it is written last
        hint = "choose another --output, or add --overwrite to replace it"
        raise InputError(f"{output} contains an {state} quickstart", hint)


def clear(output: Path) -> None:
    """Remove what an earlier quickstart made, and nothing else."""
    output.mkdir(parents=True, exist_ok=True)
    (output / MARKER).touch()
    for path in (output / name for name in MADE):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def side_by_side(answers: Answers, place: int) -> str:
    """Return a question and its hits, a column for each search mode. A relevant document has a star."""
    question, width = answers.questions[place], (_WIDTH - 2) // len(answers.hits)
    lines = ["", question.text]
    columns = (
        [way, *(("* " if hit.id in question.answers else "  ") + str(hit.id) for hit in hits[place][:_HITS])]
        for way, hits in answers.hits.items()
    )
    for cells in zip_longest(*columns, fillvalue=""):
        short = (cell if len(cell) <= width - 2 else f"{cell[: width - 3]}…" for cell in cells)
        lines.append(f"  {''.join(cell.ljust(width) for cell in short).rstrip()}")
    return "\n".join(lines)
