"""`sentemb data split-pairs`, `nli-triples` and `mine-negatives`: training files made of other ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from sentemb.cli.console import next_step
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
)
from sentemb.errors import InputError
from sentemb.training.settings import split_settings

Data = Annotated[str, typer.Argument(help="Catalogue name, file, folder, URI or hub id.")]


def split_pairs(
    data: Data,
    output: OutputFolder,
    split: Annotated[str, typer.Option(help="Split of a catalogue's set.")] = "train",
    column: Columns = None,
    label: Annotated[str, typer.Option(help="Column of 1 (paraphrase) and 0.")] = "label",
    dev: Annotated[float, typer.Option(min=0, max=1, help="Share of the pairs for development.")] = 0.1,
    test: Annotated[float, typer.Option(min=0, max=1, help="Share of the pairs for the test.")] = 0.1,
    seed: Seed = 0,
    data_dir: DataDir = None,
    overwrite: Overwrite = False,
) -> None:
    """Divide labelled pairs into parts that share no text; repeats and contradictions are left out."""
    from sentemb.data import paraphrases
    from sentemb.data.writing import check_output, write_table

    files = {name: output / f"{name}.jsonl" for name in ("train", "dev", "test")}
    for file in files.values():
        check_output(file, [data], overwrite=overwrite)
    pairs = paraphrases.load_pairs(data, columns=column or None, label=label, split=split, data_dir=data_dir)
    kept, counts = paraphrases.clean_pairs(pairs)
    typer.echo(str(counts))
    parts = paraphrases.split_pairs(kept, seed=seed, dev=dev, test=test)
    for name, rows in parts._asdict().items():
        part = kept.select(rows)
        columns = (part.texts, part.pairs or [], part.labels.tolist())
        write_table(files[name], dict(zip((*paraphrases.PAIR_COLUMNS, "label"), columns, strict=True)))
        typer.echo(f"{files[name]}: {len(part):,} pairs, {int(part.labels.sum()):,} paraphrases")
    next_step(f"sentemb train quora --data {files['train']} --output FOLDER")


def nli_triples(
    data: Data,
    output: OutputFile,
    column: Columns = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Read rows with this value only: COLUMN=VALUE.")
    ] = None,
    seed: Seed = 0,
    data_dir: DataDir = None,
    overwrite: Overwrite = False,
) -> None:
    """Make triples of labelled inference pairs: premise, entailed hypothesis, contradicting hypothesis.

    The columns are those of premise, hypothesis and label. One of several contradicting hypotheses is drawn.
    """
    from sentemb.data.nli import NLI_COLUMNS, read_triples
    from sentemb.data.writing import check_output

    check_output(output, [data], overwrite=overwrite)
    triples, counts = read_triples(
        data,
        columns=column or NLI_COLUMNS,
        only=split_settings(only or (), option="only", key="COLUMN"),
        seed=seed,
        data_dir=data_dir,
    )
    _write_triples(output, triples, counts)


def mine_negatives(
    data: Data,
    output: OutputFile,
    model: Named = DEFAULT_ENCODER,
    column: Columns = None,
    corpus: Annotated[
        str | None,
        typer.Option(help="Further candidates: texts, what sentemb encode made of them, or an index folder."),
    ] = None,
    count: Annotated[
        int, typer.Option(min=1, help="Negatives for each pair, up to 1,000 (sentemb --limit).")
    ] = 1,
    margin: Annotated[
        float, typer.Option(help="By how much of the positive's cosine they are lower.")
    ] = 0.05,
    skip: Annotated[int, typer.Option(min=0, help="Nearest candidates that are not taken.")] = 0,
    pooling: Pooling = None,
    cache_dir: CacheDir = None,
    data_dir: DataDir = None,
    overwrite: Overwrite = False,
) -> None:
    """Add hard negatives to pairs: triples for `sentemb train simcse-supervised --columns a,b,c`.

    The columns are those of anchor and positive.
    """
    from sentemb.data import load_columns
    from sentemb.data.nli import TRIPLE_COLUMNS
    from sentemb.data.stored_texts import kept
    from sentemb.data.writing import check_output
    from sentemb.search.pool import TextPool, pool_at

    check_output(output, [data, corpus], overwrite=overwrite, cache=cache_dir)
    names = column or TRIPLE_COLUMNS[:2]
    if len(names) != 2:
        raise InputError(f"--column: {len(names)} given, not 2", "repeat it for anchor and positive")
    rows = load_columns(data, names, data_dir=data_dir)
    pairs = list(zip(*(rows[name] for name in names), strict=True))
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
        raise InputError(f"{data}: {counts}", "lower --margin or --skip, or give more with --corpus")
    _write_triples(output, triples, counts)


def _write_triples(output: Path, triples: Sequence[Sequence[str]], counts: object) -> None:
    from sentemb.data.nli import TRIPLE_COLUMNS
    from sentemb.data.writing import by_column, write_table

    write_table(output, by_column(TRIPLE_COLUMNS, triples))
    typer.echo(f"{output}: {counts}")
    next_step(
        f"sentemb train simcse-supervised --data {output} --columns {','.join(TRIPLE_COLUMNS)} -o FOLDER"
    )
