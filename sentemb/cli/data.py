"""`sentemb data`: data sets of the catalogue, training files made of others, and overlap with test sets."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import Field

from sentemb._files import write_json
from sentemb._uris import without_secrets
from sentemb.cli import options as opt
from sentemb.cli.console import next_command, next_step, printable, say, show
from sentemb.errors import InputError
from sentemb.training.settings import split_settings

_SHOWN = 100  # characters of an example of overlap
_UNSET = ("the data folder is not set", "pass --data-dir FOLDER or set SENTEMB_DATA")


def list_entries(data_dir: opt.DataDir = None) -> None:
    """List the data sets of the catalogue and their location."""
    from sentemb.data.catalogue import SPLITS, entries
    from sentemb.data.locate import find, resolve_data_dir
    from sentemb.report.table import Table

    root = resolve_data_dir(data_dir)
    table = []
    for entry in entries():
        rows = " / ".join(f"{entry.rows[split]:,}" for split in SPLITS if split in entry.rows)
        rows += " ..." if {*entry.splits} - {*SPLITS} else ""
        place = find(entry, root) if root else None
        here = str(place).removeprefix(f"{root}/") if place else "no"
        table.append((entry.name, entry.kind, here, rows or "not counted"))
    title = f"Data sets (data folder: {root or 'not set'})"
    show(Table(title, ("name", "kind", "here", "rows"), tuple(table), names=3))


def info(name: Annotated[str, typer.Argument(help="Name of a data set, as in `sentemb data list`.")]) -> None:
    """Show the details of one data set: columns, rows, files, license and source."""
    from sentemb.data.catalogue import get
    from sentemb.data.locate import candidates

    entry = get(name)
    typer.echo(f"{entry.name}: {entry.description}")
    files = "" if entry.config else ", ".join(f"{split}: {file}" for split, file in entry.files.items())
    facts = {
        "kind": entry.kind,
        "columns": ", ".join(entry.columns),
        "classes": ", ".join(entry.labels),
        "without labels": ", ".join(entry.unlabelled),
        "rows": ", ".join(f"{split} {rows:,}" for split, rows in entry.rows.items()) or "unknown",
        "documents": entry.documents and f"{entry.documents:,}",
        "parts of test": ", ".join(f"{part} {rows:,}" for part, rows in entry.parts.items()),
        "made from": entry.derived_from,
        "family": entry.family,
        "hub": entry.hub_id and f"{entry.hub_id} at {entry.revision or 'no pinned revision'}",
        "hub subset": entry.config,
        "hub files": files,
        "searched in": f"\n{'':<16}".join(candidates(entry)),
        "licence": entry.licence,
        "url": entry.url,
    }
    for label, value in facts.items():
        if value:
            typer.echo(f"{label + ':':<15} {value}")
    if entry.citation:
        typer.echo(f"\n{entry.citation}")


_FETCHED = "Names of data sets as in `sentemb data list`, or of families: sts17, sts22, ..."
_VERIFIED = "Names of data sets. The default is all in the data folder."


def fetch(
    names: Annotated[list[str], typer.Argument(help=_FETCHED)],
    data_dir: opt.DataDir = None,
    allow_count_mismatch: opt.AllowCountMismatch = False,
) -> None:
    """Download data sets from the hub into the data folder."""
    from sentemb.data.catalogue import expand, get
    from sentemb.data.fetch import fetch as fetch_set

    if data_dir is None:
        raise InputError(*_UNSET)
    for name in expand(names):
        entry = get(name)
        if entry.hub_id and entry.revision is None:
            say(f"{name}: the catalogue does not pin a revision of {entry.hub_id}; downloading the newest")
        typer.echo(f"{name}: {fetch_set(name, data_dir, check_rows=not allow_count_mismatch)}")
    next_command("data", "verify", *names, "--data-dir", data_dir)


def verify(
    names: Annotated[list[str] | None, typer.Argument(help=_VERIFIED)] = None, data_dir: opt.DataDir = None
) -> None:
    """Check the row counts of the data sets in the data folder. Exits with 2 if a count differs."""
    from sentemb.data.catalogue import entries, expand, get
    from sentemb.data.fetch import count
    from sentemb.data.locate import find, resolve_data_dir

    root = resolve_data_dir(data_dir)
    if root is None:
        raise InputError(*_UNSET)
    chosen = [get(name) for name in expand(names)] if names else [e for e in entries() if find(e, root)]
    if not chosen:
        hint = "download one with `sentemb data fetch NAME`"
        raise InputError(f"{root} does not contain any data set of the catalogue", hint)
    counts = [counted for entry in chosen for counted in count(entry, root)]
    for counted in counts:
        typer.echo(str(counted))
    if wrong := sorted({counted.name for counted in counts if counted.problem}):
        hint = "download complete copies with `sentemb data fetch`"
        raise InputError(f"row counts differ from the catalogue: {', '.join(wrong)}", hint)


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


class _Overlap(opt.Options):
    train: Annotated[str, typer.Argument()]
    """Training texts: file, folder, URI, hub id, catalogue name, output folder of `sentemb encode`, or
    index."""
    sets: str = "sts"
    """Test sets, separated by commas: catalogue names, files, sts (STS12 to STS16, STS-B, SICK-R) or transfer
    (SentEval)."""
    columns: opt.Columns = None
    set_column: list[str] | None = None
    """Column to read from test sets that are files. The default is all text columns. Repeat for several."""
    examples: int = Field(3, ge=0)
    """Number of overlapping texts to show per test set."""
    output: opt.NewFile = None
    """JSON file with all overlapping texts."""
    overwrite: opt.Overwrite = False
    data_dir: opt.DataDir = None
    allow_count_mismatch: opt.AllowCountMismatch = False


@opt.grouped
def overlap(options: _Overlap) -> None:
    """Count texts of test sets in training texts: copies and parts of longer texts."""
    from sentemb.data import get, read_rows
    from sentemb.data.contamination import find_contamination, load_held_out
    from sentemb.data.files import Row
    from sentemb.data.sources import kind_of
    from sentemb.report.table import Table
    from sentemb.search.negatives import documents_at

    train, shown, data_dir = options.train, without_secrets(options.train), options.data_dir
    names, chosen = opt.split_names(options.sets), opt.split_columns(options.columns)
    options.check_output(train, *names)
    check_rows = not options.allow_count_mismatch
    held_out = load_held_out(
        names, columns=options.set_column or None, data_dir=data_dir, check_rows=check_rows
    )
    began = time.perf_counter()

    def report(count: int) -> None:
        say(f"{count:,} texts read, {count / (time.perf_counter() - began):,.0f} per second")

    documents = documents_at(train)
    if documents is None:
        named = chosen or (get(train).text_columns if kind_of(train) == "entry" else None)
        rows = read_rows(train, columns=named, data_dir=data_dir)
    elif chosen:
        raise InputError("--columns applies to files, but this folder contains documents", "remove --columns")
    else:
        rows = (Row(one.location or shown, {"text": one.text}) for one in documents)
    texts, overlaps = find_contamination(rows, held_out, progress=report)
    report(texts)
    if options.output is not None:
        found = [one.to_json() for one in overlaps]
        write_json(options.output, {"train": shown, "columns": chosen, "texts": texts, "sets": found})
    table = []
    for one in overlaps:
        counts = (one.texts, one.count("exact"), one.count("inside"))
        share = f"{len(one.findings) / max(one.texts, 1):.1%}"
        cells = (*(f"{count:,}" for count in counts), share, f"{one.rows:,}", f"{one.whole_rows:,}")
        table.append((f"{one.name} {one.split}".strip(), *cells))
    notes = (
        "exact: the same words, regardless of letter case, punctuation and Unicode form; inside: part of a "
        "longer training text; each text counts once",
    )
    header = ("set", "texts", "exact", "inside", "total", "rows", "complete rows")
    title = f"Texts of test sets in the {texts:,} texts of {shown}"
    show(Table(title, header, tuple(table), notes))
    for one in overlaps:
        for finding in one.findings[: options.examples]:
            typer.echo(f"{one.name}, {finding.how}, {finding.location}: {_short(finding.text)}")
            if finding.how != "exact":
                typer.echo(f"    training text: {_short(finding.found)}")
    if options.output is None:
        next_step("run the command again with --output FILE.json to save all overlapping texts")
    else:
        next_command("train", "sg-opt", "--data", train, "--output", "FOLDER")


def _short(text: str) -> str:
    line = printable(" ".join(text.split()))
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"
