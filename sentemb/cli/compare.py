"""`sentemb compare`: whether differences between result records are real."""

from __future__ import annotations

from typing import Annotated

import typer

from sentemb.cli.console import next_command, show
from sentemb.cli.options import Options, Records, grouped
from sentemb.errors import InputError


class _Options(Options):
    systems: Annotated[list[str], typer.Argument()]
    """Names, paths or fingerprints of evaluated models. The first is compared with each of the others."""
    records: Records
    suite: str | None = None
    """Suite to compare on: sts, multilingual, transfer or retrieval. Not needed if the records are of one
    suite."""
    measure: str | None = None
    """Metric to compare. The default is the main metric of the suite."""
    preset: str | None = None
    """Preset of transfer records or protocol of retrieval records. Required if there are several."""
    draws: int = 2000
    """Number of bootstrap resamples and of permutations, up to 1,000,000."""
    confidence: float = 0.95
    """Confidence level of the intervals."""


@grouped
def compare(options: _Options) -> None:
    """Compare encoders on the same items of their records, with intervals and p-values.

    Records of several seeds of a method (MODEL-seed-N) are compared as one system, called MODEL.
    """
    systems, records = options.systems, options.records
    if len(systems) < 2:
        raise InputError("a comparison needs at least two models; got one", "name another model")
    from sentemb.cli.console import progress_bar
    from sentemb.evaluation.comparison import compare_all
    from sentemb.evaluation.systems import select_records, system_of
    from sentemb.report.comparisons import comparison_table

    found = select_records(records, systems, **options.values("suite", "preset"))
    first, *others = (system_of(found, name, measure=options.measure) for name in systems)
    with progress_bar() as bar:
        comparisons = compare_all(
            first,
            others,
            **options.values("draws", "confidence"),
            progress=lambda done, total: bar("comparing", done, total),
        )
    for comparison in comparisons:
        typer.echo(comparison.sentence() + ".")
    for comparison in comparisons:
        typer.echo()
        show(comparison_table(comparison))
    next_command("report", *records, "--baseline", systems[0], "-o", "report.html")
