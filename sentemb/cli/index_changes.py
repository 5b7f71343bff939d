"""`sentemb index add`, `update`, `delete` and `compact`: changing an index that is there."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sentemb._files import refuse_unusable_output
from sentemb.cli.console import progress_bar
from sentemb.cli.index import (
    COMPACTING,
    IndexPlace,
    NewBudget,
    NewKind,
    as_integer,
    by_stage,
    is_in_lancedb,
    read_lines,
    show_facts,
)
from sentemb.cli.options import DataDir, IdColumn, TextColumn, TitleColumn
from sentemb.errors import InputError

if TYPE_CHECKING:
    from sentemb.search import Changed, Document, SearchIndex
    from sentemb.search.documents import Truncate

Data = Annotated[str, typer.Argument(help="Documents: file, folder, hub id or catalogue name.")]
Moved = Annotated[
    str | None, typer.Option("--model", "-m", help="Encoder of the index, if its folder has moved.")
]
TruncateNew = Annotated[
    Literal["split", "warn", "error"] | None,
    typer.Option(
        help="Texts longer than the model's maximum length: split them into chunks, truncate them with a "
        "warning, or stop with an error. The default is the setting of the build."
    ),
]


def add(
    folder: IndexPlace,
    data: Data,
    text_column: TextColumn = None,
    title_column: TitleColumn = None,
    id_column: IdColumn = None,
    truncate: TruncateNew = None,
    model: Moved = None,
    data_dir: DataDir = None,
) -> None:
    """Encode documents and add them, all or none. It is an error if an id is already in the index."""
    documents = _documents(data, text_column, title_column, id_column, data_dir)
    _change(folder, data, documents, truncate, model, replacing=False)


def update(
    folder: IndexPlace,
    data: Data,
    text_column: TextColumn = None,
    title_column: TitleColumn = None,
    id_column: IdColumn = None,
    truncate: TruncateNew = None,
    model: Moved = None,
    data_dir: DataDir = None,
) -> None:
    """Replace the documents with the same ids, all or none. Documents with new ids are added."""
    documents = _documents(data, text_column, title_column, id_column, data_dir)
    _change(folder, data, documents, truncate, model, replacing=True)


def delete(
    folder: IndexPlace,
    ids: Annotated[
        list[str] | None,
        typer.Argument(help="Ids. By default ids are read from standard input, one per line."),
    ] = None,
    ids_file: Annotated[Path | None, typer.Option("--ids", help="File with ids, one per line.")] = None,
) -> None:
    """Delete documents by their ids, in one step. Ids that are not in the index are counted."""
    from sentemb.search.documents import check_id

    if ids and ids_file is not None:
        raise InputError("ids and --ids cannot be combined", "pass one of them")
    wanted = list(dict.fromkeys(ids or read_lines(ids_file, "id", "--ids")))
    for position, text in enumerate(wanted):
        check_id(text, f"id {position}")
    index = _open(folder)
    # A command line cannot tell 1 from "1": of both, the text goes.
    named = [text for text, one in zip(wanted, index.get(wanted), strict=True) if one is not None]
    numbers = [number for text in wanted if text not in named for number in as_integer(text)]
    deleted = index.delete([*named, *numbers])
    missing = len(wanted) - deleted
    not_there = f", {missing:,} not in the index" if missing else ""
    typer.echo(f"deleted {deleted:,}{not_there}; {len(index):,} documents remain")


def compact(
    place: IndexPlace,
    kind: NewKind = None,
    memory_budget: NewBudget = None,
) -> None:
    """Merge changes into the vector index and free the space of deleted documents."""
    from sentemb.search.plan import parse_bytes

    if is_in_lancedb(place) and (kind is not None or memory_budget is not None):
        raise InputError("LanceDB chooses the kind of its index itself", "remove --kind and --memory-budget")
    budget = None if memory_budget is None else parse_bytes(memory_budget)
    index = _open(place)
    with progress_bar() as bar:
        index.compact(kind=kind, memory_budget=budget, progress=by_stage(bar, COMPACTING))
    if is_in_lancedb(place):
        from sentemb.cli.index_move import show_table

        show_table(index, as_json=False)
    else:
        show_facts(Path(place), index.manifest)


def _open(place: str) -> SearchIndex:
    """Open an index without reading all of it."""
    from sentemb.search import SearchIndex

    return SearchIndex.open(place) if is_in_lancedb(place) else SearchIndex.load(place, verify=False)


def _documents(
    data: str, text_column: str | None, title_column: str | None, id_column: str | None, data_dir: Path | None
) -> Iterator[Document]:
    from sentemb.search import read_documents

    return read_documents(
        data, text_column=text_column, title_column=title_column, id_column=id_column, data_dir=data_dir
    )


def _change(
    folder: str,
    data: str,
    documents: Iterator[Document],
    truncate: Truncate | None,
    model: str | None,
    *,
    replacing: bool,
) -> None:
    from sentemb.search import SearchIndex

    if not is_in_lancedb(folder):
        refuse_unusable_output(folder, [data])
    # Before the model is loaded: a missing file or column must not cost a minute.
    first = list(itertools.islice(documents, 1))
    index = SearchIndex.open(folder, model)
    with progress_bar() as bar:
        method: Callable[..., Changed] = index.update if replacing else index.add
        done = method(itertools.chain(first, documents), truncate=truncate, progress=by_stage(bar))
    _say_changed(index, done)


def _say_changed(index: SearchIndex, done: Changed) -> None:
    parts = [f"added {done.added:,}"]
    if done.replaced:
        parts.append(f"replaced {done.replaced:,}")
    if done.skipped:
        parts.append(f"skipped {done.skipped:,} blank")
    if done.chunked:
        parts.append(f"split {done.chunked:,} into chunks")
    if done.truncated:
        parts.append(f"truncated {done.truncated:,}")
    typer.echo(f"{', '.join(parts)}; {index.count():,} documents in total")
