"""Corpora that URIs name: every format, folders, streaming, and a line for each thing that can go wrong."""

from __future__ import annotations

import gzip
import http.server
import io
import lzma
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from sentemb.data import load_columns, read_labelled, read_rows, read_scored_pairs
from sentemb.data.documents import read_unique_documents
from sentemb.data.sources import describe_source, kind_of
from sentemb.errors import InputError
from sentemb.search import read_documents
from tests.data.loopback_hub import LoopbackHub


def parquet(texts: list[str]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": texts}), sink)
    return sink.getvalue()


CONTENT = {
    "docs.txt": b"eins\nzwei\n",
    "docs.csv": b"text\neins\nzwei\n",
    "docs.tsv": b"text\neins\nzwei\n",
    "docs.jsonl.gz": gzip.compress(b'{"text": "eins"}\n{"text": "zwei"}\n'),
    "docs.csv.xz": lzma.compress(b"text\neins\nzwei\n"),
    "docs.parquet": parquet(["eins", "zwei"]),
    "docs.parquet.gz": gzip.compress(parquet(["eins", "zwei"])),
}


class Whole(http.server.BaseHTTPRequestHandler):
    """A server that knows no parts of files, as Python's own, and no more than a password and few files."""

    files: dict[str, bytes]

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        locked = path.startswith("/locked") and self.headers.get("Authorization") is None
        self.answer(403 if locked else 200 if path in self.files else 404, self.files.get(path, b""))

    do_HEAD = do_GET

    def answer(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        if self.command == "GET":
            try:
                self.wfile.write(content)
            except OSError:
                self.close_connection = True  # who wanted a part has seen enough

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, dict[str, bytes]]]:
    handler = type("Handler", (Whole,), {"files": {}})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}", handler.files
        running.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def memory() -> Iterator[MemoryFileSystem]:
    system = fsspec.filesystem("memory")
    yield system
    system.store.clear()
    system.pseudo_dirs[:] = [""]


def texts(source: str, **options: Any) -> list[str]:
    return [row.text("text") for row in read_rows(source, **options)]


def refused(source: str) -> str:
    with pytest.raises(InputError) as error:
        texts(source)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("name", CONTENT)
def test_every_format_everywhere(
    name: str,
    memory: MemoryFileSystem,
    hub: LoopbackHub,
    server: tuple[str, dict[str, bytes]],
    tmp_path: Path,
) -> None:
    memory.pipe(f"/corpus/{name}", CONTENT[name])
    hub.add("datasets", "me/texts", {name: CONTENT[name]})
    (tmp_path / name).write_bytes(CONTENT[name])
    address, files = server
    files[f"/{name}"] = CONTENT[name]
    where = [f"memory://corpus/{name}", f"{hub.endpoint}/datasets/me/texts/resolve/main/{name}"]
    first = 2 if ".csv" in name or ".tsv" in name else 1
    for uri in [*where, f"{address}/{name}", (tmp_path / name).as_uri()]:
        rows = list(read_rows(uri))
        assert [row.values for row in rows] == [{"text": "eins"}, {"text": "zwei"}]
        shown = str(tmp_path / name) if uri.startswith("file") else uri
        assert [row.location for row in rows] == [f"{shown}:{first}", f"{shown}:{first + 1}"]


def test_a_folder_is_read_as_a_local_one(memory: MemoryFileSystem, tmp_path: Path) -> None:
    for name in (
        "b.txt",
        "a/z.txt",
        "a-b.txt",
        "a.txt",
        "why?.txt",
        ".hidden/x.txt",
        "readme.md",
        "picture.png",
    ):
        memory.pipe(f"/corpus/{name}", name.encode())
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    assert kind_of("memory://corpus") == "folder"
    assert (
        texts("memory://corpus/")
        == texts(tmp_path.as_uri())
        == [
            "a/z.txt",
            "a-b.txt",
            "a.txt",
            "b.txt",
            "why?.txt",
        ]
    )
    memory.pipe("/parts.parquet/0.parquet", parquet(["of Spark"]))
    assert texts("memory://parts.parquet") == ["of Spark"]
    assert texts("memory://corpus/.hidden") == [".hidden/x.txt"]


def test_a_page_of_links_is_a_folder(server: tuple[str, dict[str, bytes]]) -> None:
    address, files = server
    files["/list/"] = (
        b'<a href="../">up</a> <a href="?C=N">sort</a> <a href="b.txt">b</a> <a href="in/">in</a>'
    )
    files["/list/in/"] = b'see https://elsewhere.org/x.txt <a href="/list/in/a%20b.txt">a</a>'
    files |= {"/list/b.txt": b"b", "/list/in/a%20b.txt": b"a"}
    assert [row.location for row in read_rows(f"{address}/list/")] == [
        f"{address}/list/b.txt:1",
        f"{address}/list/in/a%20b.txt:1",
    ]


def test_a_folder_in_the_layout_of_beir(memory: MemoryFileSystem) -> None:
    memory.pipe("/set/corpus.jsonl", b'{"_id": "d1", "title": "Katzen", "text": "sie schlafen"}')
    assert [one.id for one in read_documents("memory://set")] == ["d1"]
    memory.pipe("/set/queries.jsonl", b'{"_id": "q1", "text": "Wer schl\xc3\xa4ft?"}')
    assert [(one.id, one.text) for one in read_documents("memory://set")] == [("d1", "Katzen sie schlafen")]
    assert [one.whole for one in read_unique_documents("memory://set")] == ["Katzen sie schlafen"]


def test_tables_of_every_kind(memory: MemoryFileSystem) -> None:
    memory.pipe("/my-dev.csv", b"sentence1,sentence2,score\na,b,1\n")
    memory.pipe("/labels.csv", b"text,label\na,x\nb,y\n")
    pairs = read_scored_pairs("memory://my-dev.csv")
    assert (pairs.name, pairs.split, pairs.source) == ("my-dev", "dev", "memory://my-dev.csv")
    assert read_labelled("memory://labels.csv").texts == ["a", "b"]
    assert load_columns("memory://labels.csv")["text"] == ["a", "b"]


def test_what_is_not_read_is_not_fetched(hub: LoopbackHub) -> None:
    content = b"a line of a corpus that is large " * 30 + b"\n"
    content *= 20_000
    hub.add("datasets", "me/texts", {"docs.txt": content})
    rows = read_rows(f"{hub.endpoint}/datasets/me/texts/resolve/main/docs.txt")
    next(rows)
    fetched = [request for request in hub.requests if request.startswith("GET")]
    assert len(fetched) == 2  # one byte, to know whether the server sends parts, and one part
    assert sum(1 for _ in rows) == 19_999
    assert len([request for request in hub.requests if request.startswith("GET")]) > 2


@pytest.mark.parametrize("name", ["large.txt", "large.parquet"])
def test_a_server_that_knows_no_parts(name: str, server: tuple[str, dict[str, bytes]]) -> None:
    address, files = server
    lines = [f"{number:0100}" for number in range(80_000)]
    files[f"/{name}"] = parquet_plain(lines) if name.endswith("parquet") else "\n".join(lines).encode()
    assert len(files[f"/{name}"]) > 6 << 20  # more than one block of fsspec
    assert texts(f"{address}/{name}") == lines
    files["/empty.txt"] = b""
    assert refused(f"{address}/empty.txt") == f"{address}/empty.txt is empty"


def parquet_plain(lines: list[str]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": lines}), sink, compression="none", use_dictionary=False)
    return sink.getvalue()


def test_a_new_file_is_seen(memory: MemoryFileSystem) -> None:
    memory.pipe("/corpus/a.txt", b"a")
    assert texts("memory://corpus") == ["a"]
    memory.pipe("/corpus/b.txt", b"b")
    assert texts("memory://corpus") == ["a", "b"]


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("memory://absent.csv", "no such file: memory://absent.csv"),
        ("memory://absent", "no such file or folder: memory://absent"),
        (
            "memory://corpus/odd.bin",
            "the extension of memory://corpus/odd.bin is not a known format; rename it to one of .txt, .csv",
        ),
        (
            "memory://corpus/bad.jsonl",
            "memory://corpus/bad.jsonl, line 2: not valid JSON (Expecting value at col",
        ),
        ("memory://corpus/bad.gz", "is not a known format"),
        ("memory://corpus/bad.txt.gz", "bad.txt.gz is damaged, or not compressed as its extension says"),
        ("memory://corpus/bad.parquet", "memory://corpus/bad.parquet cannot be read as Parquet: "),
        (
            "nonsense://b/x.csv",
            "nonsense://b/x.csv cannot be read: Protocol not known: nonsense; use s3://, gs://, https://",
        ),
        ("file:///absent/x.csv", "no such file: /absent/x.csv"),
        (
            "http://127.0.0.1:1/x.csv",
            "http://127.0.0.1:1/x.csv cannot be read: Connection refused; check the ",
        ),
        (
            "http://me:secret@127.0.0.1:1/x.csv?t=secret",
            "http://127.0.0.1:1/x.csv cannot be read: Connection",
        ),
    ],
)
def test_errors_name_the_uri(uri: str, said: str, memory: MemoryFileSystem) -> None:
    memory.pipe({f"/corpus/{name}": b"x" for name in ("odd.bin", "bad.gz", "bad.txt.gz", "bad.parquet")})
    memory.pipe("/corpus/bad.jsonl", b'{"text": "a"}\n{"text": b}\n')
    told = refused(uri)
    assert said in told
    assert "secret" not in told


def test_a_column_that_is_not_there(memory: MemoryFileSystem) -> None:
    for name in ("docs.csv", "docs.parquet"):
        memory.pipe(f"/{name}", CONTENT[name])
        with pytest.raises(
            InputError, match=rf"memory://{name} does not have a column 'title'; its columns are text"
        ):
            texts(f"memory://{name}", columns=["title"])


def test_a_server_says_no(server: tuple[str, dict[str, bytes]]) -> None:
    address, files = server
    assert refused(f"{address}/absent.csv") == f"no such file: {address}/absent.csv"
    assert refused(f"{address}/absent/") == f"no such file: {address}/absent/"
    said = f"{address}/locked.csv: permission denied; check your credentials"
    assert refused(f"{address}/locked.csv?token=secret") == said
    files["/locked.csv"] = b"text\na\n"
    uri = f"{address.replace('//', '//me:secret@')}/locked.csv"
    assert [row.location for row in read_rows(uri)] == [f"{address}/locked.csv:2"]
    assert describe_source(f"{uri}?x=secret") == {"source": f"{address}/locked.csv", "files": []}


@pytest.mark.parametrize(
    ("protocol", "package", "said"),
    [
        ("s3", "s3fs", "s3://b/x.csv cannot be read: Install s3fs to access S3"),
        ("gs", "gcsfs", "gs://b/x.csv cannot be read: Please install gcsfs to access Google Storage"),
        ("sftp", "paramiko", 'cannot be read: SFTPFileSystem requires "paramiko" to be installed'),
    ],
)
def test_a_missing_package_is_named(
    protocol: str, package: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "fsspec.implementations.sftp", raising=False)
    for name in {*fsspec.registry} & {protocol}:
        monkeypatch.delitem(fsspec.registry.target, name)  # type: ignore[attr-defined]
    assert said in refused(f"{protocol}://b/x.csv")


class NoCredentials(Exception):
    """As clients of object stores have, of no common kind."""


class Vault(MemoryFileSystem):
    """A store whose client fails in its own ways."""

    protocol = "vault"
    failure: Exception | None = None

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        if self.failure is not None:
            raise self.failure
        return {"name": path, "type": "file", "size": 1}

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        return Broken(bytes(100))


class Broken(io.BytesIO):
    """A connection that ends."""

    def readinto(self, buffer: Any) -> int:
        raise ConnectionResetError(104, "gone")


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (
            NoCredentials("Unable to locate credentials"),
            "vault://b/x.csv cannot be read: Unable to locate cred",
        ),
        (PermissionError("Forbidden"), "vault://b/x.csv: permission denied; check your credentials"),
        (
            NoCredentials(),
            "vault://b/x.csv cannot be read: NoCredentials; check the address, the network and",
        ),
        (None, "vault://b/x.csv cannot be read: Connection reset by peer"),
    ],
)
def test_errors_of_clients_are_lines(
    failure: Exception | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsspec.register_implementation("vault", Vault, clobber=True)
    monkeypatch.setattr(Vault, "failure", failure)
    assert said in refused("vault://b/x.csv")
    if failure is None:
        assert "vault://b/x.parquet cannot be read: Connection reset" in refused("vault://b/x.parquet")


class Shrunk(io.BytesIO):
    """A file that was longer when it was opened."""

    size = 30


def test_a_file_that_ends_too_early_is_no_short_file(monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec.register_implementation("vault", Vault, clobber=True)
    monkeypatch.setattr(Vault, "_open", lambda *_, **options: Shrunk(b"text\na\nb\n"))
    assert refused("vault://b/x.csv") == "vault://b/x.csv ends at byte 9 of 30; run the command again"
