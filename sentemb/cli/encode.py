"""`sentemb encode`: encode a corpus of any size into files."""

from __future__ import annotations

import time
from typing import Annotated, Literal

import typer
from pydantic import Field

from sentemb._files import refuse_unusable_output
from sentemb._uris import local_path
from sentemb.cli import options as opt
from sentemb.cli.console import next_command, progress_bar, say
from sentemb.errors import InputError

_LINES = {".txt", ".csv", ".tsv", ".jsonl"}


class _Options(opt.DocumentOptions, opt.EncoderOptions):
    data: Annotated[str, typer.Argument()]
    """Documents: file, folder, URI, hub id or catalogue name."""
    output: opt.OutputFolder
    model: opt.Named = opt.DEFAULT_ENCODER
    workers: int | None = Field(None, ge=1, le=256)
    """Number of processes that share the cores, or of Ray actors. Default: 1, or one per CPU of the Ray
    cluster."""
    ray: str | None = None
    """Encode on a Ray cluster: local, auto, host:6379 or ray://host:10001."""
    role: Literal["document", "query"] = "document"
    """Role of the texts in search. It selects the model's prompt and route."""
    dtype: Literal["float32", "float16"] = "float32"
    """Number format of the stored vectors. float16 takes half the space."""
    shard_size: int = Field(16_384, ge=1, le=10_000_000)
    """Number of rows per shard."""


@opt.grouped
def encode(options: _Options) -> None:
    """Encode a corpus of any size into a folder of shards. Run the same command again to resume.

    Only a few shards are in memory at a time. The files are identical for any number of workers and after any
    interruption. Rows that cannot be encoded are listed in set-aside.jsonl.
    """
    data, output = options.data, options.output
    refuse_unusable_output(output, [data, options.model], cache=options.cache_dir)
    from sentemb.encoding.shards import Row, encode_shards
    from sentemb.encoding.workers import Pool, local_pool
    from sentemb.modules.cards import public_name

    pool: Pool | None
    if options.ray is None:
        pool = local_pool(options.workers or 1)
    else:
        from sentemb.encoding.cluster import ray_pool

        if options.device not in (None, "cpu"):
            why = f"--device {options.device} does not work with --ray, which encodes on CPUs"
            raise InputError(why, "remove --device")
        if options.cache_dir is not None:
            raise InputError("--cache-dir does not work with --ray", "remove one of the two options")
        pool = ray_pool(options.ray, options.workers)
    rows = (
        Row(position if one.id is None else one.id, one.text, one.metadata, one.location or f"row {position}")
        for position, one in enumerate(options.documents(data))
    )
    total, began = _count_lines(data), time.monotonic()
    with progress_bar() as bar:
        found = encode_shards(
            rows,
            output,
            options.arguments(options.model),
            source=public_name(data),
            pool=pool,
            **options.values("role", "dtype", "shard_size"),
            progress=lambda done: bar("encoding", done, max(total, done) if total else 0),
            say=say,
        )
    folder = found.folder
    aside = f"; {found.refused:,} skipped (see set-aside.jsonl)" if found.refused else ""
    speed = found.encoded / max(time.monotonic() - began, 1e-9)
    size = sum(path.stat().st_size for path in folder.files) / 1e6
    typer.echo(
        f"{output}: {len(folder):,} vectors of {folder.dimension} dimensions ({options.dtype}), {size:,.1f} "
        f"MB, {found.encoded:,} encoded in this run, {speed:,.0f} per second{aside}"
    )
    if options.role == "document":
        next_command("index", "build", output, "--output", "index")


def _count_lines(data: str) -> int:
    """Return the number of lines of text files; 0 for other formats."""
    path = local_path(data)
    files = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
    count = 0
    for one in files if all(one.suffix in _LINES for one in files) else ():
        with one.open("rb") as file:
            count += sum(piece.count(b"\n") for piece in iter(lambda: file.read(1 << 20), b""))
    return count
