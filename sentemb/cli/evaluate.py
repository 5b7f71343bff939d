"""`sentemb eval sts`: evaluate encoders on scored pairs and write result records."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sentemb.cli.console import next_step, say, show
from sentemb.cli.options import (
    AllowCountMismatch,
    CacheDir,
    DataDir,
    Device,
    Markdown,
    MaxLength,
    Models,
    Output,
    Overwrite,
    Pooling,
    Precision,
    split_names,
)

if TYPE_CHECKING:
    from sentemb.evaluation.record import Record


def sts(
    models: Models,
    suite: Annotated[
        Literal["sts", "multilingual"], typer.Option(help="multilingual: the seven tracks of SemEval-2017.")
    ] = "sts",
    sets: Annotated[
        str | None,
        typer.Option(
            help="Your own files of scored pairs, or sets such as sts12, stsb, sickr-mteb, sts14-es, sts17, "
            "sts22-de-en, separated by commas; the suite's by default."
        ),
    ] = None,
    data_dir: DataDir = None,
    output: Output = None,
    overwrite: Overwrite = False,
    protocol: Annotated[
        Literal["all", "mean", "wmean"] | None,
        typer.Option(help="Subsets of a set: concatenated, averaged, or averaged by size; the suite's."),
    ] = None,
    measure: Annotated[
        Literal["spearman", "pearson"] | None, typer.Option(help="The correlation to show; the suite's.")
    ] = None,
    pooling: Pooling = None,
    precision: Precision = "float32",
    max_length: MaxLength = None,
    device: Device = None,
    cache_dir: CacheDir = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed the model was trained with; known of folders called NAME-seed-N.")
    ] = None,
    export_mteb: Annotated[Path | None, typer.Option(help="Folder for result files of MTEB.")] = None,
    markdown: Markdown = False,
    allow_count_mismatch: AllowCountMismatch = False,
) -> None:
    """Score encoders by the correlation of cosine similarities with gold scores.

    On STS12-16, STS-B and SICK-R, on other languages, or on your own pairs: two texts and a score a row.
    """
    from sentemb.encoding import load_encoder
    from sentemb.evaluation.environment import command_line
    from sentemb.evaluation.record import prepare_folder
    from sentemb.evaluation.sts import evaluate_pairs, load_sets
    from sentemb.evaluation.suites import get_suite
    from sentemb.report.results import sts_table

    for folder in (output, export_mteb):
        if folder is not None:
            prepare_folder(folder)
    chosen = get_suite(suite)
    names = chosen.sets if sets is None else split_names(sets)
    pairs = load_sets(names, data_dir=data_dir, check_rows=not allow_count_mismatch)
    records: list[Record] = []
    try:
        for number, model in enumerate(models, start=1):
            say(f"[{number}/{len(models)}] {model}")
            encoder = load_encoder(
                model,
                pooling=pooling,  # type: ignore[arg-type]  # load_encoder refuses what is no pooling
                precision=precision,
                device=device,
                cache_dir=cache_dir,
                data_dir=data_dir,
                max_length=max_length,
            )
            record = evaluate_pairs(
                encoder,
                pairs,
                suite=chosen,
                seed=seed,
                folder=output,
                overwrite=overwrite,
                command=command_line(),
                progress=sys.stderr.isatty(),
            )
            records.append(record)
            counts = f"{record.details['sentences']:,} sentences, {record.details['unique']:,} unique ones"
            say(f"  {counts} encoded in {record.environment.seconds['encode']:.1f} s")
            if output is not None:
                say(f"  {output / record.file_name}")
            if export_mteb is not None:
                export_record(record, export_mteb)
    finally:
        # What was measured before an error in a later model, or before Ctrl-C, is shown all the same.
        if records:
            table = sts_table(records, protocol=protocol, measure=measure, seeds_apart=True)
            typer.echo(table.markdown(), nl=False) if markdown else show(table)
    next_step(_next(records, output))


def export(
    records: Annotated[list[Path], typer.Argument(help="Result records, or folders of them.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the export.")],
    format: Annotated[Literal["mteb"], typer.Option(help="mteb: result files of MTEB 2.")] = "mteb",
    model_name: Annotated[
        str | None, typer.Option(help="organization/model, for records of one model.")
    ] = None,
) -> None:
    """Write result records in another program's format."""
    from sentemb.errors import InputError
    from sentemb.evaluation.record import load_records, prepare_folder

    found = load_records(records)
    if model_name is not None and len({record.fingerprint for record in found}) > 1:
        raise InputError("--model-name names one model, the records are of several", "export them one by one")
    prepare_folder(output)
    for record in found:
        export_record(record, output, model_name)


def export_record(record: Record, folder: Path, model_name: str | None = None) -> None:
    """Write the result files of a record, and say what MTEB has no task for."""
    from sentemb.evaluation.mteb import export_mteb, has_tasks

    if not has_tasks(record):
        names = ", ".join(one.name for one in record.datasets)
        say(f"  not exported: {record.suite} of {record.model} ({names}): MTEB has no such task")
        return
    exported = export_mteb(record, folder, model_name=model_name)
    for path in exported.files:
        say(f"  {path}")
    for reason in exported.skipped.values():
        say(f"  not exported: {reason}")


def _next(records: Sequence[Record], output: Path | None) -> str:
    if output is None:
        return "the same with --output FOLDER keeps records, which sentemb compare takes"
    names = [shlex.quote(record.model) for record in records]
    if len(names) == 1:
        return f"sentemb compare OTHER-MODEL {names[0]} --records {shlex.quote(str(output))}"
    return f"sentemb compare {' '.join(names)} --records {shlex.quote(str(output))}"
