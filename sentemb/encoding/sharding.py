"""Encoding a corpus of any size: shard by shard, by any number of processes, to the same bytes."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import logging
import secrets
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sentemb._files import held, read_json, write_json, write_text
from sentemb._machine import describe_processor
from sentemb._uris import refuse_uri
from sentemb.encoding.encoder import Role, TextEncoder
from sentemb.encoding.resolve import load_encoder
from sentemb.encoding.roles import for_role
from sentemb.encoding.shards import (
    BEGUN,
    MANIFEST,
    SET_ASIDE,
    SHARDS,
    DType,
    Finished,
    Refused,
    Row,
    Settings,
    ShardFolder,
    finished,
    refuse_repeated_ids,
    write_manifest,
    write_shard,
)
from sentemb.encoding.spec import EncoderSpec
from sentemb.encoding.workers import Pool, Runner
from sentemb.errors import InputError

logger = logging.getLogger(__name__)

_LOCK = ".lock"
_RUN = "run"  # in the notes of what has begun: which run this is
SHARD_SIZE = 16_384
"""Rows of a shard: some seconds of a transformer, less than one of a static encoder."""


class _Done(NamedTuple):
    file: str
    shard: Finished
    found: bool


@dataclass(frozen=True)
class Encoded:
    """What `encode_shards` made.

    Attributes:
        folder: The folder.
        refused: How many rows have no vector.
        encoded: How many rows were encoded now, and not by an earlier run.
    """

    folder: ShardFolder
    refused: int
    encoded: int


def encode_shards(
    rows: Iterable[Row],
    output: str | Path,
    model: Mapping[str, Any],
    *,
    source: str,
    pool: Pool | None = None,
    role: Role = "document",
    dtype: DType = "float32",
    shard_size: int = SHARD_SIZE,
    progress: Callable[[int], None] | None = None,
    say: Callable[[str], None] | None = None,
) -> Encoded:
    """Encode rows into a folder of shards.

    A shard that is there is not encoded again, whatever ended the run that made it. Its bytes depend on rows,
    model and type alone, not on the number of processes. Memory holds a few shards.

    Args:
        rows: What to encode, in any number.
        output: A new folder, or that of an interrupted run of the same settings.
        model: Arguments of `load_encoder`.
        source: What the rows are, for the manifest.
        pool: What starts workers, such as `local_pool`; None encodes in this process.
        role: What the texts are in a search, which decides their prompt and route.
        dtype: How vectors are stored.
        shard_size: Rows of a shard.
        progress: Called with the number of rows that are done.
        say: Told when a worker ended and its shard is tried again, and of several kinds of processors.

    Returns:
        The folder, and how many rows have no vector: blank ones and those that cannot be encoded. They are
        named in `set-aside.jsonl`.

    Raises:
        InputError: The folder holds something else, the model cannot be loaded, two rows have one id, no row
            can be encoded, or a worker died three times on one shard.
    """
    folder = Path(output)
    _check_output(folder)
    encoder = for_role(load_encoder(**model), role)
    settings = Settings(
        name=encoder.name,
        fingerprint=encoder.fingerprint,
        dimension=encoder.dimension,
        dtype=dtype,
        shard_size=shard_size,
        model=asdict(EncoderSpec.of(model).seen_from(folder)),
        role=role,
    )
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with held(folder / _LOCK, f"another process is encoding into {folder}", "wait until it has finished"):
            run = _begin(folder, settings)
            make = functools.partial(_load, _seen_anywhere(model), folder.resolve(), settings, run)
            say = say or logger.warning
            workers = None if pool is None else pool(make, say=say)
            return _encode(rows, folder, settings, encoder, source, workers, progress, say)
    except BaseException:
        if made and not any(folder.glob(SHARDS)):
            shutil.rmtree(folder)
        raise


def _encode(
    rows: Iterable[Row],
    folder: Path,
    settings: Settings,
    encoder: TextEncoder,
    source: str,
    workers: contextlib.AbstractContextManager[Runner] | None,
    progress: Callable[[int], None] | None,
    say: Callable[[str], None],
) -> Encoded:
    pieces = iter(functools.partial(_take, refuse_repeated_ids(rows), settings.shard_size), [])
    shards: list[tuple[str, int]] = []
    refused: list[Refused] = []
    processors: set[str] = set()
    seen = encoded = 0
    with contextlib.ExitStack() as stack:
        if workers is None:
            done: Iterator[_Done] = map(_ShardWriter(encoder, folder, settings), pieces)
        else:
            done = stack.enter_context(workers).run(pieces)
        for file, shard, found in done:
            shards.append((file, shard.rows))
            refused += shard.refused
            processors.add(shard.processor)
            encoded += 0 if found else shard.rows
            seen += shard.rows + len(shard.refused)
            if progress is not None:
                progress(seen)
    if seen == len(refused):
        first = f"; {refused[0].location}: {refused[0].reason}" if refused else ""
        for path in folder.glob(SHARDS):
            path.unlink()
        raise InputError(
            f"{source} does not contain a row that can be encoded{first}", "pass at least one text"
        )
    if refused:
        aside = [json.dumps(row._asdict(), ensure_ascii=False) + "\n" for row in refused]
        write_text(folder / SET_ASIDE, "".join(aside))
    for path in set(folder.glob(SHARDS)) - {folder / file for file, _ in shards}:
        path.unlink()  # of rows that are not there any more
    if len(processors) > 1:
        say(
            f"the vectors were computed on different processors ({'; '.join(sorted(processors))}): "
            "they agree to about 1e-5, so another run may not give identical files"
        )
    write_manifest(
        folder, settings, shards, set_aside=len(refused), source=source, processors=sorted(processors)
    )
    for name in (BEGUN, _LOCK):
        (folder / name).unlink()
    return Encoded(ShardFolder(folder), len(refused), encoded)


class _ShardWriter:
    """Encodes the rows of a shard and writes it, unless it is there."""

    def __init__(self, encoder: TextEncoder, folder: Path, settings: Settings) -> None:
        self._encoder, self._folder, self._settings = encoder, folder, settings

    def __call__(self, rows: list[Row]) -> _Done:
        file = self._settings.file_name(rows)
        before = finished(self._folder / file)
        if before is not None:
            return _Done(file, before, found=True)
        refused = {number: reason for number, row in enumerate(rows) if (reason := _unfit(row))}
        good = [number for number in range(len(rows)) if number not in refused]
        vectors = self._encoded(rows, good, refused)
        kept = [rows[number] for number in good if number not in refused]
        aside = [Refused(rows[one].location, rows[one].id, refused[one]) for one in sorted(refused)]
        write_shard(self._folder / file, kept, vectors, aside, self._settings)
        return _Done(file, Finished(len(kept), aside, describe_processor()), found=False)

    def _encoded(self, rows: list[Row], numbers: list[int], refused: dict[int, str]) -> Any:
        """The vectors of rows as they are stored; those that cannot be encoded are looked for by halves."""
        if not numbers:
            return np.empty((0, self._settings.dimension), dtype=self._settings.dtype)
        try:
            vectors = self._encoder.encode([rows[number].text for number in numbers])
            with np.errstate(over="ignore"):
                stored = np.ascontiguousarray(vectors, dtype=self._settings.dtype)
            fits = np.isfinite(stored).all(axis=1)
        except InputError as error:
            if len(numbers) == 1:
                refused[numbers[0]] = error.message
                return self._encoded(rows, [], refused)
            half = len(numbers) // 2
            return np.concatenate(
                [self._encoded(rows, some, refused) for some in (numbers[:half], numbers[half:])]
            )
        for place in np.flatnonzero(~fits).tolist():
            refused[numbers[place]] = f"its vector exceeds the range of {self._settings.dtype}"
        return stored[fits]


def _load(model: dict[str, Any], folder: Path, settings: Settings, run: str, threads: int) -> _ShardWriter:
    """What a worker does with a shard."""
    import torch

    _check_seen(folder, run)
    torch.set_num_threads(threads)
    assert settings.role is not None  # only folders of earlier versions do not have one
    encoder = for_role(load_encoder(**model), settings.role)
    if encoder.fingerprint != settings.fingerprint:
        raise InputError(
            f"a worker loaded a different model as {settings.name}",
            "copy the same model to all machines, and encode again",
        )
    return _ShardWriter(encoder, folder, settings)


def _check_seen(folder: Path, run: str) -> None:
    """Refuse to work where the folder is not the one of the command: its shards would be missing there."""
    try:
        seen = bool(json.loads((folder / BEGUN).read_bytes())[_RUN] == run)
        tempfile.TemporaryFile(dir=folder).close()
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        seen = False
    if not seen:
        raise InputError(
            f"a worker on {socket.gethostname()} cannot find {folder}, or cannot write to it",
            "choose an output on a shared file system that has the same path on all machines",
        )


def _take(rows: Iterator[Row], count: int) -> list[Row]:
    return list(itertools.islice(rows, count))


def _unfit(row: Row) -> str | None:
    """Why a row is not encoded."""
    if not isinstance(row.text, str):
        return f"the text is a {type(row.text).__name__}, not a string"
    if not row.text.strip():
        return "the text is blank"
    if any("\ud800" <= letter <= "\udfff" for letter in row.text):
        return "the text contains an unpaired surrogate, which is not a valid character"
    return None


def _seen_anywhere(model: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of `load_encoder` for a process with another working folder."""
    folders = {name: model.get(name) for name in ("cache_dir", "data_dir")}
    found = {name: str(Path(folder).expanduser().resolve()) for name, folder in folders.items() if folder}
    return {**model, "model": EncoderSpec.of(model).located().model, **found}


def _check_output(folder: Path) -> None:
    """Refuse a place where no shards can be written."""
    refuse_uri(folder)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file", "choose another output folder")
    if (folder / MANIFEST).exists():
        raise InputError(f"{folder} already contains finished vectors", "choose another output, or remove it")
    if (
        folder.exists()
        and not (folder / BEGUN).exists()
        and any(one.name != _LOCK for one in folder.iterdir())
    ):
        raise InputError(
            f"{folder} is not empty and not an output folder of `sentemb encode`",
            "choose another output folder",
        )


def _begin(folder: Path, settings: Settings) -> str:
    """Note the settings, or refuse to go on with others; gives the run a name that no other has."""
    now = json.loads(json.dumps(asdict(settings)))
    if (folder / BEGUN).exists():
        before = read_json(folder / BEGUN)
        if differing := [name for name, value in now.items() if before.get(name) != value]:
            raise InputError(
                f"{folder} contains an interrupted run with a different {', '.join(differing)}",
                "use the same settings to resume it, or choose another output",
            )
    run = secrets.token_hex(8)
    write_json(folder / BEGUN, now | {_RUN: run})
    return run
