"""`sentemb quickstart`: search, training and evaluation in minutes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

import typer

from sentemb._files import check_writable
from sentemb.cli import options as opt
from sentemb.cli.console import next_command, say, show
from sentemb.errors import InputError

if TYPE_CHECKING:
    from sentemb.quickstart import Quickstart
    from sentemb.quickstart_search import Answers

# Written first, so that nothing is ever removed from a folder that somebody else made.
MARKER = ".sentemb-quickstart"
MADE = ("documents.jsonl", "model", "adapted", "index", "index.html")
_QUESTIONS, _WIDTH = 3, 100


class _Options(opt.Options):
    base: str = "bert-mini"
    """Pretrained transformer to train: folder, hub id or bundled model."""
    model: str = "static-mini"
    """Encoder for search: folder, hub id or bundled model."""
    data: str | None = None
    """File with your own sentences to train on: .txt, .csv, .tsv, .jsonl or .parquet. The default is the
    bundled sentences."""
    column: str | None = None
    """Text column of --data. Required if there are several."""
    output: opt.OutputFolder = Path("quickstart")
    seed: opt.Seed = 1
    overwrite: opt.Overwrite = False


@opt.grouped
def quickstart(options: _Options) -> None:
    """Try search, training and evaluation in minutes, without a download."""
    output = options.output
    _check_output(options)

    from rich.console import Console

    from sentemb.quickstart import check_inputs, run_quickstart
    from sentemb.training.progress import ConsoleProgress

    settings = options.values("base", "output", "model", "data", "column")
    check_inputs(**settings)
    _clear(output)
    try:
        made = run_quickstart(**settings, seed=options.seed, progress=ConsoleProgress(Console(stderr=True)))
    except KeyboardInterrupt:
        say(f"{output}: stopped; run the command again with --overwrite to start from scratch")
        raise KeyboardInterrupt from None
    _print(made)


def _check_output(options: _Options) -> None:
    output = options.output
    made = [(output / name).resolve() for name in MADE]
    for path in filter(None, (options.data, options.base, options.model)):
        if any(Path(path).resolve().is_relative_to(place) for place in made):
            why = f"the input {path} would be overwritten by the quickstart"
            raise InputError(why, "choose another --output")
    if not output.exists() or (output.is_dir() and not any(output.iterdir())):
        check_writable(output)
    elif not (output / MARKER).is_file():
        why = f"{output} already exists and was not made by a quickstart"
        raise InputError(why, "choose another --output")
    elif not options.overwrite:
        state = "earlier" if (output / "index.html").exists() else "interrupted"  # it is written last
        hint = "choose another --output, or add --overwrite to replace it"
        raise InputError(f"{output} contains an {state} quickstart", hint)


def _clear(output: Path) -> None:
    """Remove what an earlier quickstart made, and nothing else."""
    output.mkdir(parents=True, exist_ok=True)
    (output / MARKER).touch()
    for path in (output / name for name in MADE):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _print(made: Quickstart) -> None:
    from sentemb.quickstart import search_table
    from sentemb.quickstart_search import TEST

    answers = made.answers
    typer.echo(f"{fill(answers.verdict(), _WIDTH)}\n")
    show(search_table(answers, splits=(TEST,)))
    typer.echo(f"\n{fill(f'{made.adapted.base}, adapted without labels: {made.adapted.verdict()}', _WIDTH)}")
    for place, question in enumerate(answers.questions[:_QUESTIONS]):
        typer.echo(f"\n{question.text}")
        for line in _side_by_side(answers, place, question.answers):
            typer.echo(line)
    typer.echo()
    show(made.table())
    typer.echo(f"\nmodel  {made.model}\nindex  {made.index}\npage   {made.page}\n")
    typer.echo("the same with your own file:")
    for command in made.your_turn():
        typer.echo(f"  {command}")
    next_command("index", "search", made.index, "your question", "--mode", "hybrid")


def _side_by_side(answers: Answers, place: int, right: Sequence[str]) -> Iterator[str]:
    """Yield the hits for a question, one column for each way to search. A relevant document has a star."""
    width = (_WIDTH - 2) // len(answers.ways)
    columns = [
        [way, *(("* " if hit.id in right else "  ") + str(hit.id) for hit in answers.hits[way][place])]
        for way in answers.ways
    ]
    for cells in zip_longest(*columns, fillvalue=""):
        short = (cell if len(cell) <= width - 2 else f"{cell[: width - 3]}…" for cell in cells)
        yield f"  {''.join(cell.ljust(width) for cell in short).rstrip()}"
