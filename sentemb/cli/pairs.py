"""`sentemb data split-pairs`, `nli-triples` and `mine-negatives`: training files made of other ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import Field

from sentemb.cli import options as opt
from sentemb.cli.console import next_command
from sentemb.errors import InputError
from sentemb.training.settings import split_settings


class _Pairs(opt.Options):
    """Options of all three verbs."""

    data: Annotated[str, typer.Argument()]
    """Pairs: catalogue name, file, folder, URI or hub id."""
    columns: opt.Columns = None
    data_dir: opt.DataDir = None
    overwrite: opt.Overwrite = False


class _Split(_Pairs):
    output: opt.OutputFolder
    split: str = "train"
    """Split, if the pairs are a data set of the catalogue."""
    label: str = "label"
    """Column with the label: 1 for paraphrases, 0 for other pairs."""
    dev: float = Field(0.1, ge=0, le=1)
    """Share of the pairs for the dev split."""
    test: float = Field(0.1, ge=0, le=1)
    """Share of the pairs for the test split."""
    seed: opt.Seed = 0


@opt.grouped
def split_pairs(options: _Split) -> None:
    """Split labelled pairs into train, dev and test without common texts.

    Duplicates and contradictions are skipped.
    """
    from sentemb.data import pairs
    from sentemb.data.columns import write_table

    files = {name: options.output / f"{name}.jsonl" for name in ("train", "dev", "test")}
    for file in files.values():
        options.check_output(options.data, output=file)
    columns, reading = opt.split_columns(options.columns), options.values("label", "split", "data_dir")
    kept, counts = pairs.clean_pairs(pairs.load_pairs(options.data, columns=columns, **reading))
    typer.echo(str(counts))
    parts = pairs.split_pairs(kept, **options.values("seed", "dev", "test"))
    for name, rows in parts._asdict().items():
        part = kept.select(rows)
        texts = (part.texts, part.pairs or [], part.labels.tolist())
        write_table(files[name], dict(zip((*pairs.PAIR_COLUMNS, "label"), texts, strict=True)))
        typer.echo(f"{files[name]}: {len(part):,} pairs, {int(part.labels.sum()):,} paraphrases")
    next_command("train", "quora", "--data", files["train"], "--output", "FOLDER")


class _Triples(_Pairs):
    output: opt.OutputFile
    only: list[str] | None = None
    """Only read rows with this value: COLUMN=VALUE. Repeat for several columns."""
    seed: opt.Seed = 0


@opt.grouped
def nli_triples(options: _Triples) -> None:
    """Make triples from labelled NLI pairs: premise, entailed hypothesis, contradicting hypothesis.

    --columns names those of premise, hypothesis and label. If a premise has several contradicting hypotheses,
    one of them is drawn at random.
    """
    from sentemb.data.columns import by_column, check_output, write_table
    from sentemb.data.pairs import NLI_COLUMNS, TRIPLE_COLUMNS, read_triples

    output = options.output
    check_output(output, [options.data], overwrite=options.overwrite)
    columns = opt.split_columns(options.columns) or NLI_COLUMNS
    only = split_settings(options.only or (), option="only", key="COLUMN")
    read = options.values("seed", "data_dir")
    triples, counts = read_triples(options.data, columns=columns, only=only, **read)
    write_table(output, by_column(TRIPLE_COLUMNS, triples))
    typer.echo(f"{output}: {counts}")
    columns_flag = ("--columns", ",".join(TRIPLE_COLUMNS))
    next_command("train", "simcse-supervised", "--data", output, *columns_flag, "-o", "FOLDER")


class _Negatives(_Pairs):
    output: opt.OutputFile
    model: opt.Named = opt.DEFAULT_ENCODER
    corpus: str | None = None
    """Additional candidates: texts, an output folder of `sentemb encode`, or an index folder."""
    count: int = Field(1, ge=1)
    """Number of negatives per pair, up to 1,000."""
    margin: float = 0.05
    """Minimum distance to the positive: a negative's cosine is below (1 - margin) times the positive's."""
    skip: int = Field(0, ge=0)
    """Number of nearest candidates to skip."""
    pooling: opt.Pooling = None
    cache_dir: Path | None = None
    """Cache folder for vectors, shared by commands."""


@opt.grouped
def mine_negatives(options: _Negatives) -> None:
    """Add hard negatives to pairs of a query and its passage, to get triples for `sentemb train pairs`.

    Columns with common names, such as query and positive, are recognized as in `sentemb train pairs`. The
    output has the same column names.
    """
    from sentemb.data import load_columns
    from sentemb.data.columns import by_column, check_output, write_table
    from sentemb.data.pairs import load_positive_pairs, negative_column
    from sentemb.data.stored_texts import spill_to_disk
    from sentemb.search.negatives import pool_at

    data, output, corpus = options.data, options.output, options.corpus
    check_output(output, [data, corpus], overwrite=options.overwrite, cache=options.cache_dir)
    found = load_positive_pairs(data, opt.split_columns(options.columns), data_dir=options.data_dir)
    pairs = list(zip(*(found.rows[role] for role in ("anchor", "positive")), strict=True))
    # Before the model is loaded: a missing file or column must not cost a minute.
    further: Any = None if corpus is None else pool_at(corpus)
    if corpus is not None and further is None:
        texts = load_columns(corpus, data_dir=options.data_dir)
        further = spill_to_disk(texts[texts.column_names[0]])
    from sentemb.encoding import load_encoder
    from sentemb.search.negatives import mine_negatives as mine

    encoder = load_encoder(options.model, **options.values("pooling", "cache_dir"))
    triples, counts = mine(pairs, encoder, corpus=further or (), **options.values("count", "margin", "skip"))
    if not triples:
        raise InputError(f"{data}: {counts}", "lower --margin or --skip, or add candidates with --corpus")
    names = (*found.names[:2], negative_column(found.names[:2]))
    write_table(output, by_column(names, triples))
    typer.echo(f"{output}: {counts}")
    columns = [] if options.columns is None else ["--columns", opt.listed_columns(names)]
    trained = ("--base", options.model, "--output", "mine")
    next_command("train", "pairs", "--data", output, *columns, *trained)
