"""`sentemb data split-pairs`, `nli-triples` and `mine-negatives`: training files made of other ones."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from sentemb.cli.data import DataDir
from sentemb.errors import InputError

Output = Annotated[Path, typer.Option("--output", "-o", help="File to make, .jsonl.")]


def split_pairs(
    data: Annotated[str, typer.Argument(help="Catalogue name, file, folder or hub id.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for train, dev and test.jsonl.")],
    split: Annotated[str, typer.Option(help="Split of a catalogue's set.")] = "train",
    column: Annotated[list[str] | None, typer.Option(help="Text column of a file; give it twice.")] = None,
    label: Annotated[str, typer.Option(help="Its column of 1 (paraphrase) and 0.")] = "label",
    dev: Annotated[float, typer.Option(help="Share of the pairs to choose by.")] = 0.1,
    test: Annotated[float, typer.Option(help="Share of the pairs to report.")] = 0.1,
    seed: Annotated[int, typer.Option(help="Draws the parts.")] = 0,
    data_dir: DataDir = None,
) -> None:
    """Divide labelled pairs into parts that share no text; repeats and contradictions are left out."""
    from sentemb.data import paraphrases

    pairs = paraphrases.load_pairs(data, columns=column or None, label=label, split=split, data_dir=data_dir)
    kept, counts = paraphrases.clean_pairs(pairs)
    typer.echo(str(counts))
    parts = paraphrases.split_pairs(kept, seed=seed, dev=dev, test=test)
    names = (*paraphrases.PAIR_COLUMNS, "label")
    for name, rows in parts._asdict().items():
        part = kept.select(rows)
        columns = (part.texts, part.pairs or [], part.labels.tolist())
        _write(output / f"{name}.jsonl", names, zip(*columns, strict=True))
        typer.echo(f"{output / name}.jsonl: {len(part):,} pairs, {int(part.labels.sum()):,} paraphrases")


def nli_triples(
    data: Annotated[str, typer.Argument(help="Catalogue name, file, folder or hub id.")],
    output: Output,
    column: Annotated[
        list[str] | None, typer.Option(help="Columns of premise, hypothesis and label; give it three times.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Read rows with this value only: COLUMN=VALUE.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Draws one of several contradicting hypotheses.")] = 0,
    data_dir: DataDir = None,
) -> None:
    """Make triples of labelled inference pairs: premise, entailed hypothesis, contradicting hypothesis."""
    from sentemb.data.nli import NLI_COLUMNS, TRIPLE_COLUMNS, read_triples

    _check_name(output)
    triples, counts = read_triples(
        data, columns=column or NLI_COLUMNS, only=_conditions(only or []), seed=seed, data_dir=data_dir
    )
    _write(output, TRIPLE_COLUMNS, triples)
    typer.echo(f"{output}: {counts}")


def mine_negatives(
    data: Annotated[str, typer.Argument(help="Pairs: catalogue name, file, folder or hub id.")],
    model: Annotated[str, typer.Option("--model", "-m", help="Ranks candidates: folder or hub id.")],
    output: Output,
    column: Annotated[
        list[str] | None, typer.Option(help="Columns of anchor and positive; give it twice.")
    ] = None,
    corpus: Annotated[str | None, typer.Option(help="Further candidates: a file or folder of texts.")] = None,
    count: Annotated[int, typer.Option(help="Negatives for each pair.")] = 1,
    margin: Annotated[
        float, typer.Option(help="By how much of the positive's cosine they are lower.")
    ] = 0.05,
    skip: Annotated[int, typer.Option(help="Nearest candidates that are not taken.")] = 0,
    pooling: Annotated[str | None, typer.Option(help="Pooling of a raw transformer.")] = None,
    cache_dir: Annotated[Path | None, typer.Option(help="Keep vectors in this folder.")] = None,
    data_dir: DataDir = None,
) -> None:
    """Add hard negatives to pairs: triples for `sentemb train simcse-supervised --column sent0 ...`."""
    from sentemb.data import load_columns
    from sentemb.data.nli import TRIPLE_COLUMNS

    _check_name(output)
    names = column or TRIPLE_COLUMNS[:2]
    if len(names) != 2:
        raise InputError(f"{len(names)} columns", "name those of anchor and positive with --column")
    rows = load_columns(data, names, data_dir=data_dir)
    pairs = list(zip(*(rows[name] for name in names), strict=True))
    further: list[str] = []
    if corpus is not None:
        texts = load_columns(corpus, data_dir=data_dir)
        further = list(texts[texts.column_names[0]])
    # Before the model is loaded: a missing file or column must not cost a minute.
    from sentemb.encoding import load_encoder
    from sentemb.search.negatives import mine_negatives as mine

    encoder = load_encoder(model, pooling=pooling, cache_dir=cache_dir)  # type: ignore[arg-type]
    triples, counts = mine(pairs, encoder, corpus=further, count=count, margin=margin, skip=skip)
    if not triples:
        raise InputError(f"{data}: {counts}", "lower --margin, or give more candidates with --corpus")
    _write(output, TRIPLE_COLUMNS, triples)
    typer.echo(f"{output}: {counts}")


def _conditions(texts: Sequence[str]) -> dict[str, str]:
    conditions = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise InputError(f"--only {text} is no condition", "write --only COLUMN=VALUE")
        conditions[name] = value
    return conditions


def _check_name(path: Path) -> None:
    if path.suffix != ".jsonl":
        raise InputError(f"cannot write {path}", "name it .jsonl")


def _write(path: Path, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    from sentemb._files import new_file

    with new_file(path) as file:
        for row in rows:
            line = json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False)
            file.write(f"{line}\n".encode())
