"""The vectors of a corpus of any size in a folder of Arrow files, encoded by any number of processes.

vectors/
├─ shards.json          the model, the settings, and every shard with its checksum; written last
├─ shard-….arrow        named by a digest of its rows and of what their vectors depend on
└─ set-aside.jsonl      rows without a vector, if any, each with its location and the reason

A finished shard is its own checkpoint: a run encodes the shards that are missing.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import logging
import secrets
import shutil
import socket
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.ipc
from pydantic import TypeAdapter

from sentemb._files import held, new_file, read_json, sha256_of, write_json, write_text
from sentemb._machine import describe_processor
from sentemb._uris import local_path, refuse_uri
from sentemb.data.documents import IDS_HINT, SURROGATE
from sentemb.encoding.encoder import EncoderSpec, Role, TextEncoder, Vectors, for_role
from sentemb.errors import InputError

if TYPE_CHECKING:
    from sentemb.encoding.workers import Pool

logger = logging.getLogger(__name__)

MANIFEST, BEGUN, SET_ASIDE, SHARDS = "shards.json", "begun.json", "set-aside.jsonl", "shard-*.arrow"
DType = Literal["float32", "float16"]
"""Number format of stored vectors."""
SHARD_SIZE = 16_384
"""Rows of a shard: some seconds of a transformer, less than one of a static encoder."""
_FORMAT, _LOCK = 1, ".lock"
_IDS_AT_ONCE = 1000
_RUN = "run"  # in the notes of what has begun: an id of the run
_REFUSED, _PROCESSOR = b"refused", b"processor"
_COLUMNS = ["id", "id_is_integer", "text", "metadata", "vector"]
_FLOATS = {"float32": pa.float32(), "float16": pa.float16()}


class Row(NamedTuple):
    """A text to encode."""

    id: str | int
    text: str
    metadata: Mapping[str, Any]  # JSON values only
    location: str  # where it was read, for messages


class Refused(NamedTuple):
    """A row without a vector, and the reason."""

    location: str
    id: str | int
    reason: str


class Finished(NamedTuple):
    """An existing shard: its number of vectors, its refused rows, and what computed it."""

    rows: int
    refused: list[Refused]
    processor: str


class Batch(NamedTuple):
    """Some rows of a folder; their vectors are float32, of shape (rows, dimension)."""

    ids: list[str | int]
    texts: list[str]
    metadata: list[dict[str, Any]]
    vectors: Vectors


class Encoded(NamedTuple):
    """A finished folder, and how many rows were refused, and encoded by this run."""

    folder: ShardFolder
    refused: int
    encoded: int


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything that the bytes of a shard depend on besides its rows."""

    name: str
    fingerprint: str  # of the encoder
    dimension: int
    dtype: DType
    shard_size: int
    model: dict[str, Any]  # an `EncoderSpec`
    role: Role | None = None  # None if prompts and routes were not used

    def file_name(self, rows: Sequence[Row]) -> str:
        """Return the name of the shard of some rows: other rows or settings have another name."""
        content = [_FORMAT, self.fingerprint, self.dtype, [(row.id, row.text, row.metadata) for row in rows]]
        digest = blake2b(json.dumps(content).encode(), digest_size=16)
        return f"shard-{digest.hexdigest()}.arrow"


class ShardFolder:
    """A finished folder of shards: its files in the order of their rows, and their numbers of rows."""

    def __init__(self, path: str | Path) -> None:
        self.path = local_path(path)
        manifest = self.path / MANIFEST
        if not manifest.is_file():
            begun = (self.path / BEGUN).is_file()
            hint = "run the same `sentemb encode` command again to finish it" if begun else None
            message = f"{self.path} does not contain finished vectors: {MANIFEST} is missing"
            raise InputError(message, hint or "create it with `sentemb encode`")
        values = read_json(manifest)
        try:
            if values["format"] != _FORMAT:
                raise InputError(f"{manifest} has the format {values['format']}", "update sentemb to read it")
            self.settings = TypeAdapter(Settings).validate_python(values["settings"])
            EncoderSpec.of(self.settings.model)
            self.source = str(values["source"])
            self.processors = [str(name) for name in values.get("processors", [])]
            shards = values["shards"]
            self.files = [self.path / str(shard["file"]) for shard in shards]
            self.rows = [int(shard["rows"]) for shard in shards]
            self._checksums = [str(shard["sha256"]) for shard in shards]
            if any(file.parent != self.path for file in self.files):
                raise ValueError("a shard is outside of the folder")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            reason = " ".join(str(error).split())
            raise InputError(f"{manifest} is damaged: {reason}", "run `sentemb encode` again") from None

    def __len__(self) -> int:
        return sum(self.rows)

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self.settings.dimension

    @property
    def content(self) -> str:
        """Digest of all rows and of everything that their vectors depend on."""
        return blake2b(" ".join(file.name for file in self.files).encode(), digest_size=16).hexdigest()

    def verify(self) -> None:
        """Raise InputError if a shard is missing or was changed."""
        for path, checksum in zip(self.files, self._checksums, strict=True):
            if not path.is_file() or sha256_of(path) != checksum:
                message = f"{path} is missing or does not match its checksum"
                raise InputError(message, "run `sentemb encode` again")

    def check_encoder(self, encoder: TextEncoder) -> None:
        """Raise InputError if the vectors are not those that an encoder, without a role, gives documents."""
        made, documents = self.settings.fingerprint, for_role(encoder, "document").fingerprint
        hint = "encode the documents with `sentemb encode --role document`"
        if self.settings.role == "query":
            raise InputError(f"{self.path} contains vectors of queries, not of documents", hint)
        if made == documents:
            return
        was = f"{self.path} was encoded"
        if made == encoder.fingerprint:
            raise InputError(f"{was} without the document prompt or route of {encoder.name}", hint)
        raise InputError(
            f"{was} with {self.settings.name} ({made[:12]}), not with {encoder.name} ({documents[:12]})",
            "pass the encoder of the vectors, with the same pooling and maximum length",
        )

    def batches(self, size: int = 8192) -> Iterator[Batch]:
        """Yield the rows in their order, at most `size` at a time; memory holds one batch."""
        for path, rows in zip(self.files, self.rows, strict=True):
            for batch in _read(path, rows, self.settings).to_batches(max_chunksize=size):
                ids = zip(batch["id"].to_pylist(), batch["id_is_integer"].to_pylist(), strict=True)
                vectors = batch["vector"].flatten().to_numpy(zero_copy_only=False)
                yield Batch(
                    [int(name) if is_integer else name for name, is_integer in ids],
                    batch["text"].to_pylist(),
                    [json.loads(fields) for fields in batch["metadata"].to_pylist()],
                    vectors.reshape(-1, self.dimension).astype(np.float32, copy=True),
                )


def _read(path: Path, rows: int, settings: Settings) -> pa.Table:
    try:
        with pa.memory_map(str(path)) as source:
            table = pa.ipc.open_file(source).read_all()
        vectors = pa.list_(_FLOATS[settings.dtype], settings.dimension)
        is_known = table.schema.names == _COLUMNS and table.schema.field("vector").type == vectors
        if table.num_rows != rows or not is_known:
            raise ValueError(f"{table.num_rows} rows")
        table.validate(full=True)
    except FileNotFoundError:
        raise InputError(f"{path} is missing", "run the same `sentemb encode` command again") from None
    except (OSError, pa.ArrowInvalid, KeyError, ValueError) as error:
        raise InputError(f"{path} is damaged: {error}", "remove it, and run `sentemb encode` again") from None
    return table


def is_shard_folder(path: str | Path) -> bool:
    """Return whether `sentemb encode` made a folder, or began to."""
    return any((local_path(path) / name).is_file() for name in (MANIFEST, BEGUN))


def refuse_repeated_ids(items: Iterable[Any]) -> Iterator[Any]:
    """Yield any number of rows or documents; raise InputError if two of them have one id."""
    with contextlib.closing(sqlite3.connect("")) as seen:  # on disk where it is large, and gone at the end
        seen.execute("CREATE TABLE ids (id TEXT PRIMARY KEY) WITHOUT ROWID")
        source = iter(items)
        while some := list(itertools.islice(source, _IDS_AT_ONCE)):
            before = seen.total_changes
            try:
                # The integer 1 and the string "1" differ.
                seen.executemany("INSERT INTO ids VALUES (?)", [(repr(item.id),) for item in some])
            except sqlite3.IntegrityError:
                item = some[seen.total_changes - before]
                raise InputError(f"{item.location}: the id {item.id!r} occurs twice", IDS_HINT) from None
            yield from some


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
    progress: Callable[[int], None] = lambda done: None,
    say: Callable[[str], None] = logger.warning,
) -> Encoded:
    """Encode rows into a folder of shards: a new one, or that of an interrupted run of the same settings.

    A finished shard is not encoded again, regardless of when a run was killed. Its bytes depend on rows,
    `model` (arguments of `load_encoder`) and `dtype` alone, not on the `pool` of workers; None encodes in
    this process. Rows that are blank or cannot be encoded are listed in `set-aside.jsonl`.
    """
    folder = Path(output)
    refuse_uri(folder)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file", "choose another output folder")
    if (folder / MANIFEST).exists():
        raise InputError(f"{folder} already contains finished vectors", "choose another output, or remove it")
    others = {path.name for path in folder.iterdir()} - {_LOCK} if folder.exists() else set()
    if others and BEGUN not in others:
        message = f"{folder} is not empty and not an output folder of `sentemb encode`"
        raise InputError(message, "choose another output folder")
    writer = _writer(model, role, folder, dtype=dtype, shard_size=shard_size)
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with held(folder / _LOCK, f"another process is encoding into {folder}", "wait until it has finished"):
            run = _begin(folder, writer.settings)
            # For a process with another working folder.
            places = {name: model[name] for name in ("cache_dir", "data_dir") if model.get(name)}
            absolute = {name: str(Path(place).expanduser().resolve()) for name, place in places.items()}
            absolute = {**model, "model": EncoderSpec.of(model).located().model, **absolute}
            make = functools.partial(_load, absolute, folder.resolve(), writer.settings, run)
            with contextlib.ExitStack() as stack:
                work: Any = functools.partial(map, writer)
                if pool is not None:
                    work = stack.enter_context(pool(make, say=say)).run
                return _encode(rows, writer, work, source, progress, say)
    except BaseException:
        if made and not any(folder.glob(SHARDS)):
            shutil.rmtree(folder)
        raise


def _encode(
    rows: Iterable[Row],
    writer: _ShardWriter,
    work: Callable[[Iterator[list[Row]]], Iterator[tuple[str, Finished, bool]]],
    source: str,
    progress: Callable[[int], None],
    say: Callable[[str], None],
) -> Encoded:
    folder, settings = writer.folder, writer.settings
    waiting = refuse_repeated_ids(rows)
    pieces = iter(lambda: list(itertools.islice(waiting, settings.shard_size)), [])
    shards: list[tuple[str, int]] = []
    refused: list[Refused] = []
    processors: set[str] = set()
    seen = encoded = 0
    for file, shard, is_new in work(pieces):
        shards.append((file, shard.rows))
        refused += shard.refused
        processors.add(shard.processor)
        encoded += shard.rows if is_new else 0
        seen += shard.rows + len(shard.refused)
        progress(seen)
    empty = seen == len(refused)
    for path in set(folder.glob(SHARDS)) - ({folder / file for file, _ in shards} if not empty else set()):
        path.unlink()  # of rows that do not exist any more
    if empty:
        first = f"; {refused[0].location}: {refused[0].reason}" if refused else ""
        message = f"{source} does not contain a row that can be encoded{first}"
        raise InputError(message, "pass at least one text")
    if refused:
        aside = [json.dumps(row._asdict(), ensure_ascii=False) + "\n" for row in refused]
        write_text(folder / SET_ASIDE, "".join(aside))
    if len(processors) > 1:
        say(
            f"the vectors were computed on different processors ({'; '.join(sorted(processors))}): "
            "they agree to about 1e-5, so another run may not give identical files"
        )
    write_manifest(folder, settings, shards, len(refused), source, sorted(processors))
    for name in (BEGUN, _LOCK):
        (folder / name).unlink()
    return Encoded(ShardFolder(folder), len(refused), encoded)


@dataclass(frozen=True)
class _ShardWriter:
    """Encodes the rows of a shard and writes it, unless it exists."""

    encoder: TextEncoder
    folder: Path
    settings: Settings

    def __call__(self, rows: list[Row]) -> tuple[str, Finished, bool]:
        file = self.settings.file_name(rows)
        if (existing := finished(self.folder / file)) is not None:
            return file, existing, False
        refused = {number: reason for number, row in enumerate(rows) if (reason := _reason_against(row))}
        vectors = self._encode(rows, refused)
        kept = [row for number, row in enumerate(rows) if number not in refused]
        aside = [Refused(rows[at].location, rows[at].id, refused[at]) for at in sorted(refused)]
        write_shard(self.folder / file, kept, vectors, aside, self.settings)
        return file, Finished(len(kept), aside, describe_processor()), True

    def _encode(self, rows: list[Row], refused: dict[int, str]) -> Any:
        """Return the vectors as they are stored, and add the rows that cannot be encoded to the refused."""
        numbers = [number for number in range(len(rows)) if number not in refused]
        vectors = np.empty((len(numbers), self.settings.dimension), dtype=np.float32)
        try:
            vectors = self.encoder.encode([rows[number].text for number in numbers]) if numbers else vectors
        except InputError:  # of some text: each alone has the same vector as among others
            for place, number in enumerate(numbers):
                try:
                    vectors[place] = self.encoder.encode([rows[number].text])[0]
                except InputError as error:
                    refused[number] = error.message
        with np.errstate(over="ignore"):
            stored = np.ascontiguousarray(vectors, dtype=self.settings.dtype)
        fits = np.isfinite(stored).all(axis=1)
        for number in np.array(numbers)[~fits].tolist():
            refused.setdefault(number, f"its vector exceeds the range of {self.settings.dtype}")
        return stored[[number not in refused for number in numbers]]


def _reason_against(row: Row) -> str | None:
    """Return why a row is not encoded, or None if it is."""
    if not isinstance(row.text, str):
        return f"the text is a {type(row.text).__name__}, not a string"
    if not row.text.strip():
        return "the text is blank"
    if not row.text.isascii() and SURROGATE.search(row.text):
        return "the text contains an unpaired surrogate, which is not a valid character"
    return None


def _writer(model: Mapping[str, Any], role: Role, folder: Path, **options: Any) -> _ShardWriter:
    from sentemb.encoding.resolve import load_encoder  # not before a model is needed

    encoder = for_role(load_encoder(**model), role)
    of_encoder = {name: getattr(encoder, name) for name in ("name", "fingerprint", "dimension")}
    spec = asdict(EncoderSpec.of(model).seen_from(folder))
    return _ShardWriter(encoder, folder, Settings(**of_encoder, model=spec, role=role, **options))


def _load(model: dict[str, Any], folder: Path, settings: Settings, run: str, threads: int) -> _ShardWriter:
    """Return what a worker does with a shard."""
    import torch

    # Shards of another folder than that of the command would be missing there.
    try:
        is_seen = bool(json.loads((folder / BEGUN).read_bytes())[_RUN] == run)
        tempfile.TemporaryFile(dir=folder).close()
    except (OSError, ValueError, KeyError, TypeError):
        is_seen = False
    if not is_seen:
        raise InputError(
            f"a worker on {socket.gethostname()} cannot find {folder}, or cannot write to it",
            "choose an output on a shared file system that has the same path on all machines",
        )
    torch.set_num_threads(threads)
    assert settings.role is not None  # this run has one
    writer = _writer(model, settings.role, folder, dtype=settings.dtype, shard_size=settings.shard_size)
    if writer.settings.fingerprint != settings.fingerprint:
        message = f"a worker loaded a different model as {settings.name}"
        raise InputError(message, "copy the same model to all machines, and encode again")
    return writer


def _begin(folder: Path, settings: Settings) -> str:
    """Note the settings, or refuse to resume with others; return a unique id of the run."""
    now = asdict(settings)
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


def write_shard(
    path: Path, rows: Sequence[Row], vectors: Any, refused: Sequence[Refused], settings: Settings
) -> None:
    """Write a shard atomically: rows with their vectors (rows, dimension), and the rows without one."""
    vector = pa.array(vectors.reshape(-1), _FLOATS[settings.dtype])
    columns = {
        "id": pa.array([str(row.id) for row in rows], pa.string()),
        "id_is_integer": pa.array([isinstance(row.id, int) for row in rows], pa.bool_()),
        "text": pa.array([row.text for row in rows], pa.large_string()),
        "metadata": pa.array([json.dumps(row.metadata) for row in rows], pa.large_string()),
        "vector": pa.FixedSizeListArray.from_arrays(vector, settings.dimension),
    }
    about = {_REFUSED: json.dumps(refused), _PROCESSOR: describe_processor()}
    table = pa.table(columns, metadata=about)
    with new_file(path) as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def finished(path: Path) -> Finished | None:
    """Read what a shard says; None if it does not exist, or is damaged."""
    try:
        with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as file:
            metadata = file.schema.metadata
            refused = [Refused(*values) for values in json.loads(metadata[_REFUSED])]
            return Finished(file.read_all().num_rows, refused, metadata[_PROCESSOR].decode())
    except (OSError, pa.ArrowInvalid, ValueError, KeyError, TypeError, RecursionError):
        return None


def write_manifest(
    folder: Path,
    settings: Settings,
    shards: Sequence[tuple[str, int]],
    set_aside: int,
    source: str,
    processors: Sequence[str],
) -> None:
    """Finish a folder, with the names and rows of its shards and the processors that computed them."""
    listed = [{"file": file, "rows": rows, "sha256": sha256_of(folder / file)} for file, rows in shards]
    values = {"format": _FORMAT, "settings": asdict(settings), "source": source, "set_aside": set_aside}
    write_json(folder / MANIFEST, {**values, "processors": processors, "shards": listed})
