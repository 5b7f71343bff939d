"""`sentemb compare`: whether differences between result records are real."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from sentemb.errors import InputError


def compare(
    systems: Annotated[
        list[str], typer.Argument(help="Names in the records: the first is compared with each of the others.")
    ],
    records: Annotated[
        list[Path], typer.Option("--records", "-r", help="Folder of result records; repeat it.")
    ],
    suite: Annotated[Literal["sts", "multilingual", "transfer"], typer.Option(help="Which records.")] = "sts",
    measure: Annotated[
        Literal["spearman", "pearson"] | None,
        typer.Option(help="What STS is judged by; Pearson in other languages, else Spearman."),
    ] = None,
    preset: Annotated[str, typer.Option(help="Preset of the transfer records.")] = "simcse",
    draws: Annotated[int, typer.Option(help="Resamples and exchanges of items.")] = 2000,
    confidence: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
) -> None:
    """Compare encoders on the items that their records keep, with intervals and p-values.

    Records of one method with several seeds (MODEL-seed-N) are one system, called MODEL.
    """
    if len(systems) < 2:
        raise InputError("one system cannot be compared", "name two or more")
    from sentemb.evaluation.comparison import Runs, sts_runs, transfer_runs
    from sentemb.evaluation.comparison import compare as compare_runs
    from sentemb.evaluation.comparison.table import comparison_table

    if suite != "transfer":
        from sentemb.evaluation.records import read_records
        from sentemb.evaluation.suites import get_suite

        chosen = get_suite(suite)
        found = [one for folder in records for one in read_records(folder, suite=chosen)]
        runs: list[Runs] = [sts_runs(found, name, measure=measure or chosen.measure) for name in systems]
    else:
        from sentemb.evaluation.transfer.records import read_transfers

        reports = [one for folder in records for one in read_transfers(folder)]
        runs = [transfer_runs(reports, name, preset=preset) for name in systems]
    first, *others = runs
    for other in others:
        comparison = compare_runs(first, other, draws=draws, confidence=confidence)
        typer.echo(comparison_table(comparison).markdown())
