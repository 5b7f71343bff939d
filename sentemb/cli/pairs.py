"""`sentemb data split-pairs`, `nli-triples` and `mine-negatives`: training files made of other ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from sentemb.cli.console import next_command
from sentemb.cli.options import (
    DEFAULT_ENCODER,
    CacheDir,
    Columns,
    DataDir,
    Named,
    OutputFile,
    OutputFolder,
    Overwrite,
    Pooling,
    Seed,
    listed_columns,
    split_columns,
)
from sentemb.errors import InputError
from sentemb.training.settings import split_settings

Data = Annotated[str, typer.Argument(help="Pairs: catalogue name, file, folder, URI or hub id.")]


def split_pairs(
    data: Data,
    output: OutputFolder,
    split: Annotated[
        str, typer.Option(help="Split, if the pairs are a data set of the catalogue.")
    ] = "train",
    columns: Columns = None,
    label: Annotated[
        str, typer.Option(help="Column with the label: 1 for paraphrases, 0 for other pairs.")
    ] = "label",
    dev: Annotated[float, typer.Option(min=0, max=1, help="Share of the pairs for the dev split.")] = 0.1,
    test: Annotated[float, typer.Option(min=0, max=1, help="Share of the pairs for the test split.")] = 0.1,
    seed: Seed = 0,
    data_dir: DataDir = None,
    overwrite: Overwrite = False,
) -> None:
    """Split labelled pairs into train, dev and test without common texts.

    Duplicates and contradictions are skipped.
    """
    from sentemb.data import paraphrases
    from sentemb.data.writing import check_output, write_table

    files = {name: output / f"{name}.jsonl" for name in ("train", "dev", "test")}
    for file in files.values():
        check_output(file, [data], overwrite=overwrite)
    pairs = paraphrases.load_pairs(
        data, columns=split_columns(columns), label=label, split=split, data_dir=data_dir
    )
    kept, counts = paraphrases.clean_pairs(pairs)
    typer.echo(str(counts))
    parts = paraphrases.split_pairs(kept, seed=seed, dev=dev, test=test)
    for name, rows in parts._asdict().items():
        part = kept.select(rows)
        texts = (part.texts, part.pairs or [], part.labels.tolist())
        write_table(files[name], dict(zip((*paraphrases.PAIR_COLUMNS, "label"), texts, strict=True)))
        typer.echo(f"{files[name]}: {len(part):,} pairs, {int(part.labels.sum()):,} paraphrases")
    next_command("train", "quora", "--data", files["train"], "--output", "FOLDER")


def nli_triples(
    data: Data,
    output: OutputFile,
    columns: Columns = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Only read rows with this value: COLUMN=VALUE. Repeat for several columns."),
    ] = None,
    seed: Seed = 0,
    data_dir: DataDir = None,
    overwrite: Overwrite = False,
) -> None:
    """Make triples from labelled NLI pairs: premise, entailed hypothesis, contradicting hypothesis.

    --columns names those of premise, hypothesis and label. If a premise has several contradicting hypotheses,
    one of them is drawn at random.
    """
    from sentemb.data.nli import NLI_COLUMNS, TRIPLE_COLUMNS, read_triples
    from sentemb.data.writing import check_output

    check_output(output, [data], overwrite=overwrite)
    triples, counts = read_triples(
        data,
        columns=split_columns(columns) or NLI_COLUMNS,
        only=split_settings(only or (), option="only", key="COLUMN"),
        seed=seed,
        data_dir=data_dir,
    )
    _write_triples(output, TRIPLE_COLUMNS, triples, counts)
    columns_given = ("--columns", ",".join(TRIPLE_COLUMNS))
    next_command("train", "simcse-supervised", "--data", output, *columns_given, "-o", "FOLDER")


def mine_negatives(
    data: Data,
    output: OutputFile,
    model: Named = DEFAULT_ENCODER,
    columns: Columns = None,
    corpus: Annotated[
        str | None,
        typer.Option(
            help="Additional candidates: texts, an output folder of `sentemb encode`, or an index folder."
        ),
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="Number of negatives per pair, up to 1,000.")] = 1,
    margin: Annotated[
        float,
        typer.Option(
            help="Minimum distance to the positive: a negative's cosine is below (1 - margin) times the "
            "positive's."
        ),
    ] = 0.05,
    skip: Annotated[int, typer.Option(min=0, help="Number of nearest candidates to skip.")] = 0,
    pooling: Pooling = None,
    cache_dir: CacheDir = None,
    data_dir: DataDir = None,
    overwrite: Overwrite = False,
) -> None:
    """Add hard negatives to pairs of a query and its passage, to get triples for `sentemb train pairs`.

    Columns with common names, such as query and positive, are recognized as in `sentemb train pairs`. The
    output has the same column names.
    """
    from sentemb.data import load_columns
    from sentemb.data.positive_pairs import load_positive_pairs, negative_column
    from sentemb.data.stored_texts import kept
    from sentemb.data.writing import check_output
    from sentemb.search.pool import TextPool, pool_at

    check_output(output, [data, corpus], overwrite=overwrite, cache=cache_dir)
    found = load_positive_pairs(data, split_columns(columns), data_dir=data_dir)
    pairs = list(zip(*(found.rows[role] for role in ("anchor", "positive")), strict=True))
    # Before the model is loaded: a missing file or column must not cost a minute.
    further = None if corpus is None else pool_at(corpus)
    if corpus is not None and further is None:
        texts = load_columns(corpus, data_dir=data_dir)
        further = TextPool(kept(texts[texts.column_names[0]]))
    from sentemb.encoding import load_encoder
    from sentemb.search.negatives import mine_negatives as mine

    encoder = load_encoder(model, pooling=pooling, cache_dir=cache_dir)  # type: ignore[arg-type]
    triples, counts = mine(pairs, encoder, corpus=further or (), count=count, margin=margin, skip=skip)
    if not triples:
        raise InputError(f"{data}: {counts}", "lower --margin or --skip, or add candidates with --corpus")
    names = (*found.names[:2], negative_column(found.names[:2]))
    _write_triples(output, names, triples, counts)
    given = [] if columns is None else ["--columns", listed_columns(names)]
    next_command("train", "pairs", "--data", output, *given, "--base", model, "--output", "mine")


def _write_triples(
    output: Path, names: Sequence[str], triples: Sequence[Sequence[str]], counts: object
) -> None:
    from sentemb.data.writing import by_column, write_table

    write_table(output, by_column(names, triples))
    typer.echo(f"{output}: {counts}")
