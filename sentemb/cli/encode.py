"""`sentemb encode`: the vectors of a corpus of any size, in files."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sentemb._files import refuse_unusable_output
from sentemb._uris import local_path
from sentemb.cli.console import next_command, progress_bar, say
from sentemb.cli.options import (
    DEFAULT_ENCODER,
    EncoderOptions,
    IdColumn,
    Named,
    OutputFolder,
    TextColumn,
    TitleColumn,
    grouped,
)
from sentemb.errors import InputError

if TYPE_CHECKING:
    from sentemb.encoding.shards import Row
    from sentemb.encoding.workers import Pool
    from sentemb.search import Document

_LINES = {".txt", ".csv", ".tsv", ".jsonl"}


@grouped
def encode(
    data: Annotated[str, typer.Argument(help="Documents: file, folder, URI, hub id or catalogue name.")],
    output: OutputFolder,
    options: EncoderOptions,
    model: Named = DEFAULT_ENCODER,
    text_column: TextColumn = None,
    title_column: TitleColumn = None,
    id_column: IdColumn = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=256,
            help="Number of processes that share the cores, or of Ray actors.",
            show_default="1, or one per CPU of the Ray cluster",
        ),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(help="Encode on a Ray cluster: local, auto, host:6379 or ray://host:10001."),
    ] = None,
    role: Annotated[
        Literal["document", "query"],
        typer.Option(help="Role of the texts in search. It selects the model's prompt and route."),
    ] = "document",
    dtype: Annotated[
        Literal["float32", "float16"],
        typer.Option(help="Number format of the stored vectors. float16 takes half the space."),
    ] = "float32",
    shard_size: Annotated[
        int | None,
        typer.Option(min=1, max=10_000_000, help="Number of rows per shard.", show_default="16384"),
    ] = None,
) -> None:
    """Encode a corpus of any size into a folder of shards. Run the same command again to resume.

    Only a few shards are in memory at a time. The files are identical for any number of workers and after any
    interruption. Rows that cannot be encoded are listed in set-aside.jsonl.
    """
    refuse_unusable_output(output, [data, model], cache=options.cache_dir)
    from sentemb.encoding.sharding import SHARD_SIZE, encode_shards
    from sentemb.modules.cards import public_name
    from sentemb.search import read_documents

    pool = _pool(workers, ray, options)
    documents = read_documents(
        data,
        text_column=text_column,
        title_column=title_column,
        id_column=id_column,
        data_dir=options.data_dir,
    )
    # Before the model is loaded: a missing file or column must not cost a minute.
    first = list(itertools.islice(documents, 1))
    total = _estimated(local_path(data))
    began = time.monotonic()
    with progress_bar() as bar:
        found = encode_shards(
            _rows(itertools.chain(first, documents)),
            output,
            options.arguments(model),
            source=public_name(data),
            pool=pool,
            role=role,
            dtype=dtype,
            shard_size=shard_size or SHARD_SIZE,
            progress=lambda done: bar("encoding", done, max(total, done) if total else 0),
            say=say,
        )
    folder = found.folder
    aside = f"; {found.refused:,} skipped (see set-aside.jsonl)" if found.refused else ""
    speed = found.encoded / max(time.monotonic() - began, 1e-9)
    size = sum(path.stat().st_size for path in folder.files) / 1e6
    typer.echo(
        f"{output}: {len(folder):,} vectors of {folder.dimension} dimensions ({dtype}), {size:,.1f} MB, "
        f"{found.encoded:,} encoded in this run, {speed:,.0f} per second{aside}"
    )
    if role == "document":
        next_command("index", "build", output, "--output", "index")


def _pool(workers: int | None, ray: str | None, options: EncoderOptions) -> Pool | None:
    """What encodes."""
    if ray is None:
        from sentemb.encoding.workers import local_pool

        return local_pool(workers or 1)
    from sentemb.encoding.cluster import ray_pool

    if options.device not in (None, "cpu"):
        raise InputError(
            f"--device {options.device} does not work with --ray, which encodes on CPUs", "remove --device"
        )
    if options.cache_dir is not None:
        raise InputError("--cache-dir does not work with --ray", "remove one of the two options")
    return ray_pool(ray, workers)


def _rows(documents: Iterator[Document]) -> Iterator[Row]:
    """Documents as rows, with their positions as ids where they have none."""
    from sentemb.encoding.shards import Row

    for position, document in enumerate(documents):
        identifier = position if document.id is None else document.id
        yield Row(identifier, document.text, document.metadata, document.location or f"row {position}")


def _estimated(path: Path) -> int:
    """How many rows there are, by the ends of lines; 0 where lines tell nothing of it."""
    files = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
    if not files or any(one.suffix not in _LINES for one in files):
        return 0
    count = 0
    for one in files:
        with one.open("rb") as file:
            while piece := file.read(1 << 20):
                count += piece.count(b"\n")
    return count
