"""`sentemb eval all`: judge encoders completely."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sentemb.cli.options import (
    AllowCountMismatch,
    DataDir,
    Device,
    Markdown,
    MaxLength,
    Models,
    Pooling,
    Precision,
)
from sentemb.cli.print_table import print_table

if TYPE_CHECKING:
    from sentemb.evaluation.everything import Judgement


def judge_everything(
    models: Models,
    suites: Annotated[
        str | None, typer.Option(help="Some of sts,multilingual,geometry,transfer; all by default.")
    ] = None,
    preset: Annotated[
        str,
        typer.Option(
            help="Classifiers of transfer tasks: simcse-fast, or simcse or sg-bert for papers' rows."
        ),
    ] = "simcse-fast",
    data_dir: DataDir = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder for result records.")] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Judge anew what is recorded there.")
    ] = False,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Leave out the sets that are not there.")
    ] = False,
    pooling: Pooling = None,
    precision: Precision = "float32",
    max_length: MaxLength = None,
    device: Device = None,
    cache_dir: Annotated[Path | None, typer.Option(help="Keep vectors here for other commands.")] = None,
    markdown: Markdown = False,
    allow_count_mismatch: AllowCountMismatch = False,
) -> None:
    """Judge encoders by STS, other languages, geometry and transfer tasks, each sentence encoded once.

    Each suite leaves a record in --output. What is recorded there for the same encoder and settings is not
    judged again, so the same command goes on after an interruption. A set that is not there ends the command
    before anything is encoded, unless --allow-missing leaves it out.
    """
    from sentemb.encoding import load_encoder
    from sentemb.evaluation.environment import command_line
    from sentemb.evaluation.everything import SUITES, judge_all, load_suites
    from sentemb.evaluation.everything.run import summary_lines, tables_of
    from sentemb.evaluation.everything.suite import Options
    from sentemb.evaluation.record_files import prepare_folder

    if output is not None:
        prepare_folder(output)
    options = Options(
        data_dir=data_dir, preset=preset, check_rows=not allow_count_mismatch, command=command_line()
    )
    names = list(SUITES) if suites is None else [name.strip() for name in suites.split(",")]
    loaded = load_suites(names, options, allow_missing=allow_missing)
    judgements: list[Judgement] = []
    try:
        for number, model in enumerate(models, start=1):
            _say(f"[{number}/{len(models)}] {model}")
            encoder = load_encoder(
                model,
                pooling=pooling,  # type: ignore[arg-type]  # load_encoder refuses what is no pooling
                precision=precision,
                device=device,
                cache_dir=cache_dir,
                data_dir=data_dir,
                max_length=max_length,
            )
            judgements.append(judge_all(encoder, loaded, output=output, overwrite=overwrite, say=_say))
    except KeyboardInterrupt:
        if output is not None:
            _say(f"what was judged is in {output}; the same command goes on from there")
        raise
    finally:
        # What was measured before a mistake in a later model, or before Ctrl-C, is shown all the same.
        if judgements:
            for table in tables_of(judgements, loaded.suites):
                print_table(table, markdown=markdown)
                typer.echo()
            for line in summary_lines(judgements):
                typer.echo(line)


def _say(text: str) -> None:
    typer.echo(text, err=True)
