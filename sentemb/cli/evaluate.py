"""`sentemb eval`: judge encoders, write result records, export them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

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
    from sentemb.evaluation.result import ResultRecord

app = typer.Typer(help="Judge encoders.", no_args_is_help=True, rich_markup_mode=None)


@app.command()
def sts(
    models: Models,
    suite: Annotated[
        Literal["sts", "multilingual"],
        typer.Option(help="multilingual: the seven tracks of SemEval-2017, Pearson x 100 first."),
    ] = "sts",
    sets: Annotated[
        str | None,
        typer.Option(
            help="Instead of the suite's: sts12,...,sts16,stsb,sickr,sickr-mteb; sts14-es, sts17, "
            "sts22, stsb-multi-mt or some of their members, such as sts22-de-en."
        ),
    ] = None,
    data_dir: DataDir = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder for result records.")] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace records of the same model.")
    ] = False,
    protocol: Annotated[
        Literal["all", "mean", "wmean"] | None,
        typer.Option(help="Show one protocol; by default all three, of the suite multilingual wmean."),
    ] = None,
    pooling: Pooling = None,
    precision: Precision = "float32",
    max_length: MaxLength = None,
    device: Device = None,
    cache_dir: Annotated[Path | None, typer.Option(help="Keep vectors here and take them from here.")] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed the model was trained with; known of folders called seed-N.")
    ] = None,
    export_mteb: Annotated[Path | None, typer.Option(help="Folder for result files of MTEB.")] = None,
    markdown: Markdown = False,
    allow_count_mismatch: AllowCountMismatch = False,
) -> None:
    """Score encoders on STS12-16, STS-B and SICK-R, or on other languages: cosine similarity."""
    from sentemb.encoding import load_encoder
    from sentemb.evaluation import PROTOCOLS
    from sentemb.evaluation.environment import command_line
    from sentemb.evaluation.judge import judge_sts
    from sentemb.evaluation.records import prepare_folder, write_record
    from sentemb.evaluation.sts import load_sets
    from sentemb.evaluation.suites import STS, get_suite

    for folder in (output, export_mteb):
        if folder is not None:
            prepare_folder(folder)
    chosen = get_suite(suite)
    names = chosen.sets if sets is None else [name.strip() for name in sets.split(",")]
    pairs = load_sets(names, data_dir=data_dir, check_rows=not allow_count_mismatch)
    shown = (protocol,) if protocol else PROTOCOLS if chosen is STS else (chosen.protocol,)
    records: list[ResultRecord] = []
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
            record = judge_sts(
                encoder,
                pairs,
                folder=output,
                overwrite=overwrite,
                suite=chosen,
                protocol=shown[0],
                seed=seed,
                command=command_line(),
                progress=sys.stderr.isatty(),
            )
            records.append(record)
            _say(
                f"  {record.sentences:,} sentences, {record.unique:,} different ones encoded in "
                f"{record.seconds['encode']:.1f} s"
            )
            if output is not None:
                _say(f"  {write_record(record, output, overwrite=overwrite)}")
            if export_mteb is not None:
                _export(record, export_mteb, None)
    finally:
        # What was measured before a mistake in a later model, or before Ctrl-C, is shown all the same.
        if records:
            if chosen is STS:
                _print_tables(records, shown, markdown=markdown)
            else:
                _print_tables(records, shown, "pearson", markdown=markdown)
                typer.echo()
                _print_tables(records, shown, "spearman", markdown=markdown)


@app.command()
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
    from sentemb.evaluation.mteb import tasks_left_out
    from sentemb.evaluation.recorded import read_recorded
    from sentemb.evaluation.records import prepare_folder

    found = read_recorded(records)
    if model_name is not None and len({record.fingerprint for record in found.scored}) > 1:
        raise InputError("--model-name names one model, the records are of several", "export them one by one")
    prepare_folder(output)
    for record in found.scored:
        _export(record, output, model_name)
    for report in found.transfers:
        _say(f"  not exported: {tasks_left_out(report)}")
    for geometry in found.geometries:
        _say(f"  not exported: the geometry of {geometry.model}: MTEB has no such task")


def _export(record: ResultRecord, folder: Path, model_name: str | None) -> None:
    from sentemb.evaluation.mteb import export_mteb

    exported = export_mteb(record, folder, model_name=model_name)
    for path in exported.files:
        _say(f"  {path}")
    for reason in exported.skipped.values():
        _say(f"  not exported: {reason}")


def _print_tables(
    records: Sequence[ResultRecord],
    protocols: Sequence[Literal["all", "mean", "wmean"]],
    measure: Literal["spearman", "pearson"] = "spearman",
    *,
    markdown: bool,
) -> None:
    from sentemb.evaluation.table import sts_table

    first, *others = [sts_table(records, protocol, measure=measure) for protocol in protocols]
    print_table(first, markdown=markdown)
    if others and all(table.rows == first.rows for table in others):
        typer.echo("mean and wmean: the same, since no set here has subsets")
        return
    for table in others:
        typer.echo()
        print_table(table, markdown=markdown)


def _say(text: str) -> None:
    typer.echo(text, err=True)
