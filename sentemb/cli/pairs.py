"""`sentemb data split-pairs`, `nli-triples` and `mine-negatives`: training files made of other ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from pydantic import Field

from sentemb.cli.console import next_command
from sentemb.cli.options import (
    DEFAULT_ENCODER,
    Columns,
    DataDir,
    Named,
    Options,
    OutputFile,
    OutputFolder,
    Overwrite,
    Pooling,
    Seed,
    grouped,
    listed_columns,
    split_columns,
)
from sentemb.errors import InputError
from sentemb.training.settings import split_settings

Data = Annotated[str, typer.Argument(help="Pairs: catalogue name, file, folder, URI or hub id.")]


class _Split(Options):
    data: Data
    output: OutputFolder
    split: str = "train"
    """Split, if the pairs are a data set of the catalogue."""
    columns: Columns = None
    label: str = "label"
    """Column with the label: 1 for paraphrases, 0 for other pairs."""
    dev: float = Field(0.1, ge=0, le=1)
    """Share of the pairs for the dev split."""
    test: float = Field(0.1, ge=0, le=1)
    """Share of the pairs for the test split."""
    seed: Seed = 0
    data_dir: DataDir = None
    overwrite: Overwrite = False


@grouped
def split_pairs(options: _Split) -> None:
    """Split labelled pairs into train, dev and test without common texts.

    Duplicates and contradictions are skipped.
    """
    from sentemb.data import paraphrases
    from sentemb.data.columns import check_output, write_table

    data = options.data
    files = {name: options.output / f"{name}.jsonl" for name in ("train", "dev", "test")}
    for file in files.values():
        check_output(file, [data], overwrite=options.overwrite)
    reading = options.values("label", "split", "data_dir")
    pairs = paraphrases.load_pairs(data, columns=split_columns(options.columns), **reading)
    kept, counts = paraphrases.clean_pairs(pairs)
    typer.echo(str(counts))
    parts = paraphrases.split_pairs(kept, **options.values("seed", "dev", "test"))
    for name, rows in parts._asdict().items():
        part = kept.select(rows)
        texts = (part.texts, part.pairs or [], part.labels.tolist())
        write_table(files[name], dict(zip((*paraphrases.PAIR_COLUMNS, "label"), texts, strict=True)))
        typer.echo(f"{files[name]}: {len(part):,} pairs, {int(part.labels.sum()):,} paraphrases")
    next_command("train", "quora", "--data", files["train"], "--output", "FOLDER")


class _Triples(Options):
    data: Data
    output: OutputFile
    columns: Columns = None
    only: list[str] | None = None
    """Only read rows with this value: COLUMN=VALUE. Repeat for several columns."""
    seed: Seed = 0
    data_dir: DataDir = None
    overwrite: Overwrite = False


@grouped
def nli_triples(options: _Triples) -> None:
    """Make triples from labelled NLI pairs: premise, entailed hypothesis, contradicting hypothesis.

    --columns names those of premise, hypothesis and label. If a premise has several contradicting hypotheses,
    one of them is drawn at random.
    """
    from sentemb.data.columns import check_output
    from sentemb.data.paraphrases import NLI_COLUMNS, TRIPLE_COLUMNS, read_triples

    data, output = options.data, options.output
    check_output(output, [data], overwrite=options.overwrite)
    triples, counts = read_triples(
        data,
        columns=split_columns(options.columns) or NLI_COLUMNS,
        only=split_settings(options.only or (), option="only", key="COLUMN"),
        **options.values("seed", "data_dir"),
    )
    _write_triples(output, TRIPLE_COLUMNS, triples, counts)
    columns_given = ("--columns", ",".join(TRIPLE_COLUMNS))
    next_command("train", "simcse-supervised", "--data", output, *columns_given, "-o", "FOLDER")


class _Negatives(Options):
    data: Data
    output: OutputFile
    model: Named = DEFAULT_ENCODER
    columns: Columns = None
    corpus: str | None = None
    """Additional candidates: texts, an output folder of `sentemb encode`, or an index folder."""
    count: int = Field(1, ge=1)
    """Number of negatives per pair, up to 1,000."""
    margin: float = 0.05
    """Minimum distance to the positive: a negative's cosine is below (1 - margin) times the positive's."""
    skip: int = Field(0, ge=0)
    """Number of nearest candidates to skip."""
    pooling: Pooling = None
    cache_dir: Path | None = None
    """Cache folder for vectors, shared by commands."""
    data_dir: DataDir = None
    overwrite: Overwrite = False


@grouped
def mine_negatives(options: _Negatives) -> None:
    """Add hard negatives to pairs of a query and its passage, to get triples for `sentemb train pairs`.

    Columns with common names, such as query and positive, are recognized as in `sentemb train pairs`. The
    output has the same column names.
    """
    from sentemb.data import load_columns
    from sentemb.data.columns import check_output
    from sentemb.data.positive_pairs import load_positive_pairs, negative_column
    from sentemb.data.stored_texts import spill_to_disk
    from sentemb.search.pool import TextPool, pool_at

    data, output, corpus, columns = options.data, options.output, options.corpus, options.columns
    check_output(output, [data, corpus], overwrite=options.overwrite, cache=options.cache_dir)
    found = load_positive_pairs(data, split_columns(columns), data_dir=options.data_dir)
    pairs = list(zip(*(found.rows[role] for role in ("anchor", "positive")), strict=True))
    # Before the model is loaded: a missing file or column must not cost a minute.
    further = None if corpus is None else pool_at(corpus)
    if corpus is not None and further is None:
        texts = load_columns(corpus, data_dir=options.data_dir)
        further = TextPool(spill_to_disk(texts[texts.column_names[0]]))
    from sentemb.encoding import load_encoder
    from sentemb.search.negatives import mine_negatives as mine

    encoder = load_encoder(options.model, **options.values("pooling", "cache_dir"))
    mining = options.values("count", "margin", "skip")
    triples, counts = mine(pairs, encoder, corpus=further or (), **mining)
    if not triples:
        raise InputError(f"{data}: {counts}", "lower --margin or --skip, or add candidates with --corpus")
    names = (*found.names[:2], negative_column(found.names[:2]))
    _write_triples(output, names, triples, counts)
    columns_flag = [] if columns is None else ["--columns", listed_columns(names)]
    next_command(
        "train", "pairs", "--data", output, *columns_flag, "--base", options.model, "--output", "mine"
    )


def _write_triples(
    output: Path, names: Sequence[str], triples: Sequence[Sequence[str]], counts: object
) -> None:
    from sentemb.data.columns import by_column, write_table

    write_table(output, by_column(names, triples))
    typer.echo(f"{output}: {counts}")
