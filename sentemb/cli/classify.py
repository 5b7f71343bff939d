"""`sentemb classify`: classify the texts of a file."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Annotated

import typer

from sentemb.cli import options as opt
from sentemb.cli.console import next_step, say


class _Options(opt.Options):
    folder: Annotated[Path, typer.Argument()]
    """Folder of a trained classifier."""
    file: Annotated[str, typer.Argument()]
    """File with texts: .txt, .csv, .tsv, .jsonl or .parquet, also as .gz or .xz."""
    column: list[str] | None = None
    """Text column. The default is `text`. Repeat the option for a classifier of pairs."""
    output: opt.NewFile = None
    """CSV file for the classes. By default they are printed."""
    overwrite: opt.Overwrite = False
    device: opt.Device = None


@opt.grouped
def classify(options: _Options) -> None:
    """Predict the class of each text, as CSV with the label and the probability of every class."""
    from sentemb._files import write_text
    from sentemb.classification import Classifier, read_own_texts

    options.check_output(options.file, options.folder)
    texts = read_own_texts(options.file, columns=options.column or ["text"])
    classifier = Classifier.load(options.folder, device=options.device)
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
    if options.output is None:
        typer.echo(table.getvalue(), nl=False)
        next_step("run the command again with --output FILE.csv to save the classes")
    else:
        write_text(options.output, table.getvalue())
        say(f"{options.output}: {len(texts):,} rows")
