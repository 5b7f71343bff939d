"""`sentemb classify`: classify the texts of a file."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Annotated

import typer

from sentemb.cli.console import next_step, say
from sentemb.cli.options import Device, Options, Overwrite, grouped


class _Options(Options):
    folder: Annotated[Path, typer.Argument()]
    """Folder of a trained classifier."""
    file: Annotated[str, typer.Argument()]
    """File with texts: .txt, .csv, .tsv, .jsonl or .parquet, also as .gz or .xz."""
    column: list[str] | None = None
    """Text column. The default is `text`. Repeat the option for a classifier of pairs."""
    output: Annotated[Path | None, typer.Option("--output", "-o")] = None
    """CSV file for the classes. By default they are printed."""
    overwrite: Overwrite = False
    device: Device = None


@grouped
def classify(options: _Options) -> None:
    """Predict the class of each text, as CSV with the label and the probability of every class."""
    from sentemb._files import refuse_existing, refuse_unusable_output, write_text
    from sentemb.classification import Classifier, read_own_texts

    folder, file, output = options.folder, options.file, options.output
    if output is not None:
        refuse_unusable_output(output, [file, folder])
        refuse_existing(output, overwrite=options.overwrite)
    texts = read_own_texts(file, columns=options.column or ["text"])
    classifier = Classifier.load(folder, device=options.device)
    if cut := classifier.count_cut(texts):
        say(
            f"{cut:,} of {len(texts):,} rows are longer than the maximum length of the classifier and were "
            "truncated"
        )
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(["label", *(f"p({label})" for label in classifier.labels)])
    for row in classifier.predict_proba(texts):
        writer.writerow([classifier.labels[row.argmax()], *(f"{probability:.6f}" for probability in row)])
    if output is None:
        typer.echo(table.getvalue(), nl=False)
        next_step("run the command again with --output FILE.csv to save the classes")
    else:
        write_text(output, table.getvalue())
        say(f"{output}: {len(texts):,} rows")
