"""The vectors of a corpus in a folder of Arrow files, with the ids, texts and metadata that they belong to.

vectors/
├─ shards.json          the model, the settings, and every shard with its checksum; written last
├─ shard-….arrow        named by a digest of its rows and of what their vectors depend on
└─ set-aside.jsonl      rows that have no vector, if any, each with its place and the reason
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, get_args

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from sentemb._files import new_file, read_json, sha256_of, write_json
from sentemb._machine import describe_processor
from sentemb._uris import local_path
from sentemb.data.documents import IDS_HINT
from sentemb.encoding.encoder import Role, TextEncoder, Vectors
from sentemb.encoding.roles import for_role
from sentemb.errors import InputError

MANIFEST, BEGUN, SET_ASIDE, SHARDS = "shards.json", "begun.json", "set-aside.jsonl", "shard-*.arrow"
DType = Literal["float32", "float16"]
"""How vectors are stored."""
_FORMAT = 1
_REFUSED, _PROCESSOR = b"refused", b"processor"
_AT_ONCE = 8192  # rows
_COLUMNS = ["id", "id_is_integer", "text", "metadata", "vector"]
_FLOATS = {"float32": pa.float32(), "float16": pa.float16()}


class Row(NamedTuple):
    """What is encoded.

    Attributes:
        id: The user's name for it.
        text: The text.
        metadata: What else is known of it; what JSON can hold.
        location: Where it was read, for messages.
    """

    id: str | int
    text: str
    metadata: Mapping[str, Any]
    location: str


class _Identified(Protocol):
    @property
    def id(self) -> Any: ...
    @property
    def location(self) -> Any: ...


Item = TypeVar("Item", bound=_Identified)


def refuse_repeated_ids(items: Iterable[Item]) -> Iterator[Item]:
    """Yield rows or documents, in any number, as long as no two of them have one id."""
    with contextlib.closing(sqlite3.connect("")) as seen:  # on disk where it is large, and gone at the end
        seen.execute("CREATE TABLE ids (id TEXT PRIMARY KEY) WITHOUT ROWID")
        for item in items:
            # The integer 1 and the string "1" differ.
            if not seen.execute("INSERT OR IGNORE INTO ids VALUES (?)", (repr(item.id),)).rowcount:
                raise InputError(f"{item.location}: the id {item.id!r} occurs twice", IDS_HINT)
            yield item


class Refused(NamedTuple):
    """A row without a vector.

    Attributes:
        location: Where it was read.
        id: Its id.
        reason: Why it has none.
    """

    location: str
    id: str | int
    reason: str


class Finished(NamedTuple):
    """What a shard that is there tells of itself.

    Attributes:
        rows: How many rows have a vector.
        refused: The rows that have none.
        processor: What computed the vectors, as `sentemb doctor` calls it.
    """

    rows: int
    refused: list[Refused]
    processor: str


class Batch(NamedTuple):
    """Some rows of a folder.

    Attributes:
        ids: Their ids.
        texts: Their texts.
        metadata: What else is known of each.
        vectors: float32, of shape (rows, dimension).
    """

    ids: list[str | int]
    texts: list[str]
    metadata: list[dict[str, Any]]
    vectors: Vectors


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the bytes of a shard depend on besides its rows.

    Args:
        name: The encoder's name.
        fingerprint: The encoder's fingerprint.
        dimension: Length of a vector.
        dtype: How vectors are stored.
        shard_size: Rows of the source in a shard.
        model: What `load_encoder` loads the encoder by: `model` and its options.
        role: What the texts are in a search; None in folders of earlier versions, which did not use prompts
            and routes of a role.
    """

    name: str
    fingerprint: str
    dimension: int
    dtype: DType
    shard_size: int
    model: Mapping[str, Any]
    role: Role | None = None

    def file_name(self, rows: Sequence[Row]) -> str:
        """What the shard of some rows is called: other rows or settings give it another name."""
        digest = blake2b(f"{_FORMAT} {self.fingerprint} {self.dtype}".encode(), digest_size=16)
        for row in rows:
            for part in (row.id, row.text, row.metadata):
                data = json.dumps(part).encode()
                digest.update(len(data).to_bytes(8, "little") + data)
        return f"shard-{digest.hexdigest()}.arrow"


class ShardFolder:
    """A finished folder of shards.

    Args:
        path: The folder.

    Attributes:
        processors: What computed the vectors; those of several kinds of processors agree to about 1e-5.

    Raises:
        InputError: There is no such folder, it is not finished, or its manifest is damaged.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = local_path(path)
        manifest = self.path / MANIFEST
        if not manifest.is_file():
            begun = (self.path / BEGUN).is_file()
            hint = (
                "run the same `sentemb encode` command again to finish it"
                if begun
                else "create it with `sentemb encode`"
            )
            raise InputError(f"{self.path} does not contain finished vectors: {MANIFEST} is missing", hint)
        values = read_json(manifest)
        try:
            if values["format"] != _FORMAT:
                raise InputError(f"{manifest} has the format {values['format']}", "update sentemb to read it")
            self.settings = Settings(**values["settings"])
            self.set_aside = int(values["set_aside"])
            self.source = str(values["source"])
            self.processors = [str(one) for one in values.get("processors", [])]
            self._shards = [
                (str(one["file"]), int(one["rows"]), str(one["sha256"])) for one in values["shards"]
            ]
            model = self.settings.model
            sound = (
                isinstance(self.settings.dimension, int)
                and self.settings.dtype in _FLOATS
                and self.settings.role in (None, *get_args(Role))
                and isinstance(model["model"], str)
                and isinstance(model.get("max_length"), int | None)
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{manifest} is damaged: {error!r}", "run `sentemb encode` again") from None
        if not sound or any(Path(file).name != file for file, _, _ in self._shards):
            raise InputError(f"{manifest} is damaged", "run `sentemb encode` again")

    def __len__(self) -> int:
        return sum(rows for _, rows, _ in self._shards)

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self.settings.dimension

    @property
    def files(self) -> list[Path]:
        """The shards, in the order of their rows."""
        return [self.path / file for file, _, _ in self._shards]

    @property
    def rows(self) -> list[int]:
        """How many rows each shard has."""
        return [rows for _, rows, _ in self._shards]

    @property
    def content(self) -> str:
        """A digest of all rows and of what their vectors depend on."""
        names = " ".join(file for file, _, _ in self._shards)
        return blake2b(names.encode(), digest_size=16).hexdigest()

    def verify(self) -> None:
        """Compare every shard with its checksum.

        Raises:
            InputError: One is missing or was changed.
        """
        for file, _, checksum in self._shards:
            path = self.path / file
            if not path.is_file() or sha256_of(path) != checksum:
                raise InputError(
                    f"{path} is missing or does not match its checksum", "run `sentemb encode` again"
                )

    def check_encoder(self, encoder: TextEncoder) -> None:
        """Refuse vectors that are not those which an encoder gives documents.

        Args:
            encoder: The encoder, without a role.

        Raises:
            InputError: Another encoder made them, or they are not those of documents.
        """
        made, documents = self.settings.fingerprint, for_role(encoder, "document").fingerprint
        again = "encode the documents with `sentemb encode --role document`"
        if self.settings.role == "query":
            raise InputError(f"{self.path} contains vectors of queries, not of documents", again)
        if made == documents:
            return
        if made == encoder.fingerprint:
            raise InputError(
                f"{self.path} was encoded without the document prompt or route of {encoder.name}", again
            )
        raise InputError(
            f"{self.path} was encoded with {self.settings.name} ({made[:12]}), "
            f"not with {encoder.name} ({documents[:12]})",
            "pass the encoder of the vectors, with the same pooling and maximum length",
        )

    def batches(self, size: int = _AT_ONCE, *, shard: int | None = None) -> Iterator[Batch]:
        """Read the rows in their order; memory holds no more than one batch.

        Args:
            size: Rows of a batch at most.
            shard: Read only the one at this place among `files`.

        Yields:
            The batches.

        Raises:
            InputError: A shard is missing or damaged.
        """
        chosen = self._shards if shard is None else self._shards[shard : shard + 1]
        for file, rows, _ in chosen:
            table = _read(self.path / file, rows, self.settings)
            for batch in table.to_batches(max_chunksize=size):
                yield _batch(batch, self.dimension)


def is_shard_folder(path: str | Path) -> bool:
    """Whether `sentemb encode` made a folder, or began to."""
    return any((local_path(path) / name).is_file() for name in (MANIFEST, BEGUN))


def write_shard(
    path: Path, rows: Sequence[Row], vectors: Any, refused: Sequence[Refused], settings: Settings
) -> None:
    """Write a shard; the file appears whole.

    Args:
        path: The file.
        rows: The rows that have a vector.
        vectors: Theirs, (rows, dimension), of the type that is stored.
        refused: The rows that have none.
        settings: Of the folder.
    """
    table = pa.table(
        {
            "id": pa.array([str(row.id) for row in rows], pa.string()),
            "id_is_integer": pa.array([isinstance(row.id, int) for row in rows], pa.bool_()),
            "text": pa.array([row.text for row in rows], pa.large_string()),
            "metadata": pa.array([json.dumps(row.metadata) for row in rows], pa.large_string()),
            "vector": pa.FixedSizeListArray.from_arrays(
                pa.array(vectors.reshape(-1), _FLOATS[settings.dtype]), settings.dimension
            ),
        }
    )
    schema = table.schema.with_metadata({_REFUSED: json.dumps(refused), _PROCESSOR: describe_processor()})
    with new_file(path) as file, pa.ipc.new_file(file, schema) as writer:
        writer.write_table(table.replace_schema_metadata(schema.metadata))


def write_manifest(
    folder: Path,
    settings: Settings,
    shards: Sequence[tuple[str, int]],
    *,
    set_aside: int,
    source: str,
    processors: Sequence[str],
) -> None:
    """Finish a folder, with the names and rows of its shards and the processors that made them."""
    listed = [{"file": file, "rows": rows, "sha256": sha256_of(folder / file)} for file, rows in shards]
    values = {
        "format": _FORMAT,
        "settings": asdict(settings),
        "source": source,
        "set_aside": set_aside,
        "processors": list(processors),
    }
    write_json(folder / MANIFEST, {**values, "shards": listed})


def finished(path: Path) -> Finished | None:
    """Read what a shard tells of itself; None where it is not there, or damaged."""
    try:
        with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as file:
            metadata = file.schema.metadata
            refused = [Refused(*one) for one in json.loads(metadata[_REFUSED])]
            return Finished(file.read_all().num_rows, refused, metadata[_PROCESSOR].decode())
    except (OSError, pa.ArrowInvalid, ValueError, KeyError, TypeError, RecursionError):
        return None


def _read(path: Path, rows: int, settings: Settings) -> pa.Table:
    try:
        with pa.memory_map(str(path)) as source:
            table = pa.ipc.open_file(source).read_all()
        wanted = pa.list_(_FLOATS[settings.dtype], settings.dimension)
        known = table.schema.names == _COLUMNS and table.schema.field("vector").type == wanted
        if table.num_rows != rows or not known:
            raise ValueError(f"{table.num_rows} rows")
        table.validate(full=True)
    except FileNotFoundError:
        raise InputError(f"{path} is missing", "run the same `sentemb encode` command again") from None
    except (OSError, pa.ArrowInvalid, KeyError, ValueError) as error:
        raise InputError(f"{path} is damaged: {error}", "remove it, and run `sentemb encode` again") from None
    return table


def _batch(batch: pa.RecordBatch, dimension: int) -> Batch:
    ids = zip(batch["id"].to_pylist(), batch["id_is_integer"].to_pylist(), strict=True)
    vectors = batch["vector"].flatten().to_numpy(zero_copy_only=False).reshape(-1, dimension)
    return Batch(
        [int(name) if whole else name for name, whole in ids],
        batch["text"].to_pylist(),
        [json.loads(one) for one in batch["metadata"].to_pylist()],
        vectors.astype(np.float32, copy=True),
    )
